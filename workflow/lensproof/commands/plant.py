"""``lensproof plant``: a small model whose mechanism is known, because its weights are written by hand."""

from __future__ import annotations

import logging
from pathlib import Path

import click

from lensproof import options
from lensproof.config import PlantedSource

_DEFAULTS = {name: part.default for name, part in PlantedSource.model_fields.items()}


@click.command()
@click.option("--kind", type=click.Choice(["gather", "gate"]), required=True, help="What makes the variable readable.")
@click.option("--block", type=int, required=True, help="Block of that head or MLP, counted from 0.")
@click.option("--head", type=int, default=_DEFAULTS["head"], show_default=True, help="A gather's, or a gate's copier.")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=_DEFAULTS["seed"], show_default=True)
@click.option("--decoy", type=float, help="Add a late component that moves the reading, by so much of the plant's.")
@click.option("--layers", type=click.IntRange(1), default=_DEFAULTS["layers"], show_default=True, help="Blocks.")
@click.option("--width", type=click.IntRange(1), default=_DEFAULTS["width"], show_default=True, help="Of the residual.")
@click.option("--heads", type=click.IntRange(1), default=_DEFAULTS["heads"], show_default=True, help="In a block.")
@options.folder_out
def command(kind: str, layers: int, out: Path, **sizes: int | float | None) -> None:
    """Plant a mechanism: on demand, a head gathers the variable, or an MLP opens the gate to what is always there."""
    from lensproof.checkpoints.build import build
    from lensproof.config import Checkpoint

    source = PlantedSource(kind="planted", variant=kind, layers=layers, **sizes)
    title = f"Planted {kind}, block {source.block}, seed {source.seed}"
    entry = Checkpoint(title=title, licence="CC0-1.0", layers=layers, tied=False, source=source)
    planted = build(out.resolve().name, entry, out)["planted"]
    logging.getLogger("lensproof").info(
        "%s: %s in block %s (%s) of %s, weights and tokenizer in %s",
        *(out.resolve().name, kind, source.block, planted["component"], layers, out),
    )
