"""``lensproof fit-probe``: the ridge probe of every layer."""

from __future__ import annotations

from pathlib import Path

import click

from lensproof import options


@click.command()
@options.checkpoint
@options.sequences
@click.option("--count", type=click.IntRange(2), required=True, help="Calibration sequences to use.")
@click.option("--labels", type=click.IntRange(1), required=True, help="Labels to fit it for.")
@options.machine
@options.out(".safetensors")
def command(
    checkpoint: Path,
    sequences: Path,
    count: int,
    labels: int,
    device: str,
    precision: str,
    threads: int | None,
    out: Path,
) -> None:
    """Fit the ridge probe of the labels that directions are tested on, on text of the calibration role."""
    import torch

    from lensproof.checkpoints.load import load
    from lensproof.checkpoints.manifest import MANIFEST, digest
    from lensproof.corpora import draw, needs
    from lensproof.corpora.sequences import take, tokens
    from lensproof.frames.basis import covectors
    from lensproof.lenses import probe
    from lensproof.provenance import record

    options.use_threads(threads)
    text = needs.sequences_for(checkpoint, sequences)
    decoder = load(checkpoint, device, precision)
    chosen = torch.from_numpy(draw.labels(text, labels))
    fitted = probe.fit(
        decoder, tokens(take(text, "calibration", count)), chosen, covectors(decoder, chosen),
        progress=f"ridge probe, {checkpoint.name}",
    )  # fmt: skip
    manifest = checkpoint / MANIFEST
    inputs = {"weights": manifest, "sequences": sequences}
    settings = {"count": count, "labels": labels, "device": str(decoder.device), "precision": precision}
    probe.save(out, fitted, {**record("fit_probe", inputs, **settings), "weights": digest(checkpoint)})
