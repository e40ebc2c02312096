"""``lensproof fit-jacobian``: one shard of the Jacobian lens."""

from __future__ import annotations

from pathlib import Path

import click

from lensproof import options


@click.command()
@options.checkpoint
@options.sequences
@options.shard
@click.option("--skip", type=click.IntRange(0), default=16, show_default=True, help="Positions left out at the start.")
@click.option("--lowest", type=click.IntRange(0), default=0, show_default=True, help="Lowest layer to fit.")
@click.option("--cotangents", type=click.IntRange(1), default=8, show_default=True, help="Outputs at once.")
@options.machine
@options.out(".safetensors")
def command(
    checkpoint: Path,
    sequences: Path,
    first: int,
    count: int,
    skip: int,
    lowest: int,
    cotangents: int,
    device: str,
    precision: str,
    threads: int | None,
    out: Path,
) -> None:
    """Fit the Jacobian lens on some prompts of the lens role; `lensproof merge-jacobian` joins the shards."""
    from lensproof.checkpoints.load import load
    from lensproof.checkpoints.manifest import MANIFEST, digest
    from lensproof.corpora import needs
    from lensproof.corpora.sequences import take, tokens
    from lensproof.lenses import jacobian
    from lensproof.provenance import record

    options.use_threads(threads)
    prompts = tokens(take(needs.sequences_for(checkpoint, sequences), "lens", count, first))
    decoder = load(checkpoint, device, precision)
    progress = f"Jacobian lens, {checkpoint.name}, prompts {first}-{first + count - 1}"
    lens = jacobian.fit(decoder, prompts, skip=skip, cotangents=cotangents, lowest=lowest, progress=progress)
    manifest = checkpoint / MANIFEST
    settings = {"first": first, "count": count, "skip": skip, "cotangents": cotangents}
    settings |= {"device": str(decoder.device), "precision": precision}
    provenance = record("fit_jacobian", {"weights": manifest, "sequences": sequences}, **settings)
    jacobian.save(out, lens, {**provenance, "weights": digest(checkpoint), jacobian.LOWEST: lowest})
