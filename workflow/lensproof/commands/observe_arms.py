"""``lensproof observe-arms``: observations of an experiment on benchmark records."""

from __future__ import annotations

import json
from pathlib import Path

import click

from lensproof import options


@click.command()
@click.argument("experiment")
@options.checkpoint
@options.records
@click.option("--states", multiple=True, required=True, type=options.FILE, help="Made by `lensproof query-states`.")
@click.option("--set", "name", required=True, help="What the record set is called; goes into the column `records`.")
@click.option("--input", "inputs", multiple=True, metavar="NAME=FILE", help="A file that the experiment reads besides.")
@click.option("--options", "settings", default="{}", help="Its section of the configuration, as JSON.")
@click.option("--seed", default=0, show_default=True, type=int, help="Seed of everything that is drawn.")
@options.machine
@options.out
def command(
    experiment: str,
    checkpoint: Path,
    records: Path,
    states: tuple[Path, ...],
    name: str,
    inputs: tuple[str, ...],
    settings: str,
    seed: int,
    device: str,
    precision: str,
    threads: int | None,
    out: Path,
) -> None:
    """Run EXPERIMENT on the states of benchmark records and write one row per trial."""
    from lensproof.checkpoints.load import load, load_tokenizer
    from lensproof.corpora.benchmark.record import read_records
    from lensproof.experiments import arms
    from lensproof.files import read_json, write_parquet
    from lensproof.provenance import record

    module = options.module("experiments", experiment, "observe")
    options.use_threads(threads)
    manifest = checkpoint / "checkpoint.json"
    weights, files = read_json(manifest)["sha256"], options.pairs("--input", inputs)
    chosen, found = arms.load(states, read_records(records), weights)
    run = arms.ArmsRun(
        checkpoint=checkpoint.name,
        name=name,
        decoder=load(checkpoint, device, precision),
        tokenizer=load_tokenizer(checkpoint),
        records=chosen,
        states=found,
        options=json.loads(settings),
        inputs={key: Path(file) for key, file in files.items()},
        weights=weights,
        seed=seed,
    )
    table = module.observe(run).assign(checkpoint=checkpoint.name, precision=precision, seed=seed, records=name)
    table = options.categories(table.assign(batch_size=table.get("batch_size", 1)))
    given = {f"states_{index:03d}": path for index, path in enumerate(states)} | files
    stated = {"experiment": experiment, "records": name, "seed": seed, "options": dict(run.options)}
    made = record(
        "observe_arms", {"weights": manifest, "records": records, **given}, modules=(module.__name__,),
        precision=precision, device=str(run.decoder.device), **stated,
    )  # fmt: skip
    write_parquet(out, table, made)
