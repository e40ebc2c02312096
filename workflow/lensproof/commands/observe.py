"""``lensproof observe``: one shard of an experiment's observations."""

from __future__ import annotations

import json
from pathlib import Path

import click

from lensproof import options


@click.command()
@click.argument("experiment")
@options.checkpoint
@options.sequences
@click.option("--input", "inputs", multiple=True, metavar="NAME=FILE", help="A file that the experiment reads besides.")
@click.option("--options", "settings", default="{}", help="Its section of the configuration, as JSON.")
@options.shard
@click.option("--seed", default=0, show_default=True, type=int, help="Seed of everything that is drawn.")
@options.machine
@options.out
def command(
    experiment: str,
    checkpoint: Path,
    sequences: Path,
    inputs: tuple[str, ...],
    settings: str,
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
    from lensproof.corpora import needs
    from lensproof.experiments.run import Run
    from lensproof.files import read_json, read_parquet, write_parquet
    from lensproof.provenance import record

    module = options.module("experiments", experiment, "observe")
    options.use_threads(threads)
    manifest = checkpoint / "checkpoint.json"
    files = options.pairs("--input", inputs)
    run = Run(
        folder=checkpoint,
        sequences=needs.check(read_parquet(sequences), sequences),
        decoder=load(checkpoint, device, precision),
        first=first,
        count=count,
        options=json.loads(settings),
        inputs={name: Path(file) for name, file in files.items()},
        weights=read_json(manifest)["sha256"],
        seed=seed,
    )
    table = module.observe(run).assign(checkpoint=checkpoint.name, precision=precision, seed=seed)
    table = options.categories(table.assign(batch_size=table.get("batch_size", 1)))
    stated = {"experiment": experiment, "first": first, "count": count, "seed": seed, "options": dict(run.options)}
    made = record(
        "observe", {"weights": manifest, "sequences": sequences, **files}, modules=(module.__name__,),
        precision=precision, device=str(run.decoder.device), **stated,
    )  # fmt: skip
    write_parquet(out, table, made)
