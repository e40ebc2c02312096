"""``lensproof calibrate``: typical attention of every block, from one pass over calibration text."""

from __future__ import annotations

from pathlib import Path

import click

from lensproof import options


@click.command()
@options.checkpoint
@options.sequences
@click.option("--count", type=click.IntRange(2), required=True, help="Calibration sequences to use.")
@click.option(
    "--part", type=click.IntRange(1), default=1, show_default=True, help="Which of several sets that share no document."
)
@options.machine
@options.out(".safetensors")
def command(
    checkpoint: Path,
    sequences: Path,
    count: int,
    part: int,
    device: str,
    precision: str,
    threads: int | None,
    out: Path,
) -> None:
    """Calibrate typical attention on sequences of the calibration role, by default the first ones."""
    from lensproof.checkpoints.load import load
    from lensproof.checkpoints.manifest import MANIFEST, digest
    from lensproof.corpora import needs
    from lensproof.corpora.sequences import disjoint, tokens
    from lensproof.frames import typical
    from lensproof.provenance import record

    options.use_threads(threads)
    text = tokens(disjoint(needs.sequences_for(checkpoint, sequences), "calibration", count, part))
    decoder = load(checkpoint, device, precision)
    fitted = typical.calibrate(decoder, text, progress=f"typical attention, {checkpoint.name}")
    manifest = checkpoint / MANIFEST
    inputs = {"weights": manifest, "sequences": sequences}
    settings = {"count": count, "part": part, "device": str(decoder.device), "precision": precision}
    typical.save(out, fitted, {**record("calibrate", inputs, **settings), "weights": digest(checkpoint)})
