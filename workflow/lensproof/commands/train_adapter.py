"""``lensproof train-adapter``: LoRA weights with which a small model answers the five arms."""

from __future__ import annotations

import logging
from pathlib import Path

import click

from lensproof import options


@click.command()
@options.checkpoint
@click.option(
    "--passages",
    "source",
    type=click.Path(path_type=Path),
    help="Folder of passages, of which those for training are used; the project's own by default.",
)
@options.folder_out
@click.option("--steps", type=click.IntRange(1), default=640, show_default=True, help="At most.")
@click.option("--batch", type=click.IntRange(1), default=16, show_default=True, help="Prompts of a step.")
@click.option(
    "--rate", type=click.FloatRange(0, min_open=True), default=1e-3, show_default=True, help="Highest learning rate."
)
@click.option("--rank", type=click.IntRange(1), default=16, show_default=True, help="Of the adapter.")
@click.option("--instances", type=click.IntRange(1), default=1000, show_default=True, help="Drawn for a share of data.")
@click.option("--validation", type=click.IntRange(1), default=100, show_default=True, help="Instances to validate on.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the start and of all draws.")
@click.option("--resume", is_flag=True, help="Go on where a training was stopped; leave a finished one alone.")
@click.option("--threads", type=click.IntRange(1), help="Threads to use; all cores by default.")
def command(
    checkpoint: Path,
    source: Path | None,
    out: Path,
    resume: bool,
    threads: int | None,
    **settings: int | float,
) -> None:
    """Train a five-arm adapter on training passages alone, and keep the first checkpoint that answers well enough and
    not perfectly.

    It is written to OUT with a card that says how it was made; `lensproof checkpoint` merges it into its base.
    """
    from lensproof.corpora.benchmark import passages
    from lensproof.specimens.adapters.produce import produce
    from lensproof.specimens.adapters.training import Settings

    source = source or passages.OWN
    options.spare([out], {"passages": source})
    options.use_threads(threads)
    made = produce(checkpoint, passages.read(source), out, Settings(**settings), resume=resume, progress=True)
    logging.getLogger("lensproof").info("%s: the adapter of step %d, with its card", out, made.step)
