"""``lensproof observe-arms``: observations of an experiment on benchmark records."""

from __future__ import annotations

from pathlib import Path

import click

from lensproof import options


@click.command()
@click.argument("experiment")
@options.checkpoint
@options.records
@options.several("--states", help="Made by `lensproof query-states`; give each shard.")
@click.option("--set", "name", required=True, help="What the record set is called; goes into the column `records`.")
@click.option("--input", "inputs", multiple=True, metavar="NAME=FILE", help="A file that the experiment reads besides.")
@options.section
@click.option("--seed", default=0, show_default=True, type=int, help="Seed of everything that is drawn.")
@options.machine
@options.out(".parquet")
def command(
    experiment: str,
    checkpoint: Path,
    records: Path,
    states: tuple[Path, ...],
    name: str,
    inputs: tuple[str, ...],
    settings: str | None,
    configfile: tuple[Path, ...],
    seed: int,
    device: str,
    precision: str,
    threads: int | None,
    out: Path,
) -> None:
    """Run EXPERIMENT on the states of benchmark records and write one row per trial."""
    from lensproof.checkpoints.load import load, load_tokenizer
    from lensproof.checkpoints.manifest import MANIFEST, digest
    from lensproof.checkpoints.registry import section_on_records
    from lensproof.corpora import needs
    from lensproof.experiments import arms
    from lensproof.files import write_parquet
    from lensproof.provenance import record, sha256

    module = options.observation_on_records(experiment)
    given = None if settings is None else options.json_object("--options", settings)
    chosen, files = section_on_records(experiment, given, configfile), options.inputs(inputs)
    options.use_threads(threads)
    manifest = checkpoint / MANIFEST
    weights = digest(checkpoint)
    read = needs.records_for(checkpoint, records)
    decoder = load(checkpoint, device, precision)
    own, found = arms.load(states, read, decoder, weights, sha256(records))
    run = arms.ArmsRun(
        checkpoint=checkpoint.name,
        name=name,
        decoder=decoder,
        tokenizer=load_tokenizer(checkpoint),
        records=own,
        states=found,
        options=chosen,
        inputs=files,
        weights=weights,
        seed=seed,
    )
    table = module.observe(run).assign(checkpoint=checkpoint.name, precision=precision, seed=seed, records=name)
    table = options.categories(table.assign(batch_size=table.get("batch_size", 1), depth=decoder.depth))
    given = {f"states_{index:03d}": path for index, path in enumerate(states)} | files
    stated = {"experiment": experiment, "records": name, "seed": seed, "options": dict(run.options)}
    made = record(
        "observe_arms", {"weights": manifest, "records": records, **given}, modules=(module.__name__,),
        precision=precision, device=str(run.decoder.device), **stated,
    )  # fmt: skip
    write_parquet(out, table, made)
