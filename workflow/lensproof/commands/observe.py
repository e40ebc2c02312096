"""``lensproof observe``: one shard of an experiment's observations."""

from __future__ import annotations

import logging
from pathlib import Path

import click

from lensproof import options

log = logging.getLogger("lensproof")


@click.command()
@click.argument("experiment")
@options.checkpoint
@options.sequences
@click.option("--input", "inputs", multiple=True, metavar="NAME=FILE", help="A file that the experiment reads besides.")
@options.section
@options.shard
@click.option("--seed", default=0, show_default=True, type=int, help="Seed of everything that is drawn.")
@options.machine
@options.out(".parquet")
def command(
    experiment: str,
    checkpoint: Path,
    sequences: Path,
    inputs: tuple[str, ...],
    settings: str | None,
    configfile: tuple[Path, ...],
    first: int,
    count: int,
    seed: int,
    device: str,
    precision: str,
    threads: int | None,
    out: Path,
) -> None:
    """Run EXPERIMENT on test sequences and write one row per trial."""
    from lensproof.checkpoints.load import load
    from lensproof.checkpoints.manifest import MANIFEST, digest
    from lensproof.checkpoints.registry import section
    from lensproof.corpora import needs
    from lensproof.experiments.run import Run
    from lensproof.files import write_parquet
    from lensproof.provenance import record

    module = options.observation(experiment)
    chosen = section(experiment, None if settings is None else options.json_object("--options", settings), configfile)
    files = options.inputs(inputs)
    if (needed := options.precision_of(experiment, precision)) != precision:
        log.info("%s is made in %s, whatever --precision says", experiment, needed)
        precision = needed
    options.use_threads(threads)
    manifest = checkpoint / MANIFEST
    run = Run(
        folder=checkpoint,
        sequences=needs.sequences_for(checkpoint, sequences),
        decoder=load(checkpoint, device, precision),
        first=first,
        count=count,
        options=chosen,
        inputs=files,
        weights=digest(checkpoint),
        seed=seed,
    )
    table = module.observe(run).assign(checkpoint=checkpoint.name, precision=precision, seed=seed)
    table = options.categories(table.assign(batch_size=table.get("batch_size", 1), depth=run.decoder.depth))
    stated = {"experiment": experiment, "first": first, "count": count, "seed": seed, "options": dict(run.options)}
    made = record(
        "observe", {"weights": manifest, "sequences": sequences, **files}, modules=(module.__name__,),
        precision=precision, device=str(run.decoder.device), **stated,
    )  # fmt: skip
    write_parquet(out, table, made)
