"""``lensproof fit-tuned``: the tuned lens of some layers."""

from __future__ import annotations

from pathlib import Path

import click

from lensproof import options


@click.command()
@options.checkpoint
@options.sequences
@click.option("--layers", required=True, help="Layers to train, with commas.")
@click.option("--tokens", "number", type=click.IntRange(2), required=True, help="Training tokens, at least.")
@click.option("--batch", type=click.IntRange(1), default=256, show_default=True, help="Positions per step.")
@click.option("--rate", type=float, default=1e-3, show_default=True, help="Learning rate at the first step.")
@click.option("--epochs", type=click.IntRange(1), default=1, show_default=True, help="Passes over the tokens.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the order of positions.")
@options.machine
@options.out(".safetensors")
def command(
    checkpoint: Path,
    sequences: Path,
    layers: str,
    number: int,
    batch: int,
    rate: float,
    epochs: int,
    seed: int,
    device: str,
    precision: str,
    threads: int | None,
    out: Path,
) -> None:
    """Train the tuned lens on sequences of the calibration role; `lensproof merge-tuned` joins groups of layers."""
    from lensproof.checkpoints.load import load
    from lensproof.checkpoints.manifest import MANIFEST, digest
    from lensproof.corpora import needs
    from lensproof.corpora.sequences import take, tokens
    from lensproof.lenses import tuned
    from lensproof.provenance import record

    options.use_threads(threads)
    table = needs.sequences_for(checkpoint, sequences)
    length = len(table["tokens"].iloc[0])
    text = tokens(take(table, "calibration", max(2, -(-number // length))))
    decoder = load(checkpoint, device, precision)
    chosen = options.layers(layers, decoder.depth)
    settings = {"batch": batch, "rate": rate, "epochs": epochs, "seed": seed}
    lens = tuned.fit(decoder, text, chosen, **settings, progress=f"tuned lens, {checkpoint.name}, layers {layers}")
    manifest = checkpoint / MANIFEST
    settings |= {"tokens": text.numel(), "layers": layers, "device": str(decoder.device), "precision": precision}
    made = record("fit_tuned", {"weights": manifest, "sequences": sequences}, **settings)
    tuned.save(out, lens, {**made, "weights": digest(checkpoint)})
