"""``lensproof query-states``: one shard of the states that experiments on benchmark records start from."""

from __future__ import annotations

from pathlib import Path

import click

from lensproof import options


@click.command()
@options.checkpoint
@options.records
@click.option("--arms", help="Arms to run, with commas; all that the records have by default.")
@click.option("--first", type=click.IntRange(0), default=0, show_default=True, help="Rank of the first instance.")
@click.option("--count", type=click.IntRange(1), required=True, help="Instances in this shard.")
@options.machine
@options.out(".safetensors")
def command(
    checkpoint: Path,
    records: Path,
    arms: str | None,
    first: int,
    count: int,
    device: str,
    precision: str,
    threads: int | None,
    out: Path,
) -> None:
    """Run the prompts of some instances and keep every layer's state at the query position.

    Instances are ranked by their names; those that lack an arm that others of the file have are left out, whatever arms
    are run, so that all sets of a family are run on the same ones.
    """
    from lensproof.checkpoints.load import load, load_tokenizer
    from lensproof.checkpoints.manifest import MANIFEST, digest
    from lensproof.corpora import needs
    from lensproof.corpora.benchmark.check import check
    from lensproof.corpora.benchmark.record import ARMS
    from lensproof.errors import LensproofError
    from lensproof.experiments import arms as experiment
    from lensproof.provenance import record

    options.use_threads(threads)
    found = needs.records_for(checkpoint, records)
    there = [arm for arm in ARMS if any(item.condition == arm for item in found)]
    wanted = [part.strip() for part in arms.split(",")] if arms else there
    absent = [arm for arm in wanted if arm not in there]
    if absent:
        raise LensproofError(f"{records} has no record of the arm {absent[0]!r} (it has {', '.join(there)})")
    chosen = [item for item in experiment.chosen(found, there, first, count) if item.condition in wanted]
    tokenizer = load_tokenizer(checkpoint)
    check(records, tokenizer)
    decoder = load(checkpoint, device, precision)
    progress = f"{records.stem}, {checkpoint.name}, instances {first}-{first + count - 1}"
    states = experiment.query_states(decoder, tokenizer, chosen, progress)
    manifest = checkpoint / MANIFEST
    stated = {"first": first, "count": count, "arms": wanted, "device": str(decoder.device), "precision": precision}
    made = record("query_states", {"weights": manifest, "records": records}, **stated)
    experiment.save(out, states, chosen, {**made, "weights": digest(checkpoint)})
