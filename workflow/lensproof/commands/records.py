"""``lensproof records``: build and check the records of the five-arm benchmark."""

from __future__ import annotations

import logging
from pathlib import Path

import click

from lensproof import options


@click.group()
def command() -> None:
    """Records of the five-arm benchmark: prompts of one latent world that differ in what they ask for."""


@command.command()
@click.argument("name", metavar="SET")
@options.checkpoint
@click.option("--count", type=click.IntRange(1), default=400, show_default=True, help="Instances.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of all draws.")
@click.option(
    "--passages",
    "source",
    type=click.Path(path_type=Path),
    help="Passages made by `lensproof records passages`, or a folder of them; the project's own by default.",
)
@click.option("--languages", help="Languages to draw from, with commas; all that there are passages in by default.")
@options.out(".jsonl")
def build(
    name: str, checkpoint: Path, count: int, seed: int, source: Path | None, languages: str | None, out: Path
) -> None:
    """Build SET (language, tracking_unmatched, ...) for the tokenizer of a checkpoint.

    The records of a planted model are made of its own world's passages and wordings, whatever is given here.
    """
    from lensproof.checkpoints.load import load_tokenizer
    from lensproof.corpora.benchmark import passages, sets
    from lensproof.corpora.benchmark.record import write_records
    from lensproof.files import provenance_path, write_json
    from lensproof.provenance import record

    tokenizer, inputs = load_tokenizer(checkpoint), {"tokenizer": checkpoint / "tokenizer.json"}
    if _planted(checkpoint):
        from lensproof.specimens.planted import world

        world.refuse_unknown(name)
        given = {"passages": world.passages(), "wordings": world.WORDINGS}
    else:
        source = source or passages.OWN
        found = [passage for passage in passages.read(source) if not passage.training]
        given = {"passages": found, "languages": languages and [part.strip() for part in languages.split(",")]}
        inputs |= {"passages": source} if source.is_file() else {}
    built = sets.build(name, tokenizer, count=count, seed=seed, **given)
    write_records(out, built.records)
    stated = {"set": name, "count": count, "seed": seed, "attrition": built.attrition.as_dict()}
    write_json(provenance_path(out), record("records", inputs, **stated))
    logging.getLogger("lensproof").info("%s: %d records; %s", out, len(built.records), built.attrition)


def _planted(checkpoint: Path) -> bool:
    from lensproof.checkpoints.manifest import MANIFEST
    from lensproof.files import read_json

    return "planted" in read_json(checkpoint / MANIFEST, "sha256")


@command.command()
@click.argument("file", type=options.FILE)
@options.checkpoint
def check(file: Path, checkpoint: Path) -> None:
    """Check that FILE, ours or in the published benchmark's format, can be run with a checkpoint's tokenizer."""
    from lensproof.checkpoints.load import load_tokenizer
    from lensproof.corpora.benchmark.check import check as checked

    summary = checked(file, load_tokenizer(checkpoint))
    for line in summary.lines():
        click.echo(line)


@command.command()
@click.argument("file", type=options.FILE)
@options.out(".jsonl")
def without_cue(file: Path, out: Path) -> None:
    """Write the records of FILE with the last line of every instruction, the answer cue, left out."""
    from lensproof.corpora.benchmark import wording
    from lensproof.corpora.benchmark.record import read_records, write_records
    from lensproof.errors import LensproofError
    from lensproof.files import provenance_path, read_provenance, write_json
    from lensproof.provenance import record

    found = read_records(file)
    bare = [wording.without_cue(item) for item in found]
    for one, other in zip(found, bare, strict=True):
        if one == other:
            raise LensproofError(f"{one.id}: the instruction does not end in the answer cue")
    write_records(out, bare)
    made = record("records", {"records": file}, cue=False)
    if provenance_path(file).is_file():
        inputs = read_provenance(file).get("inputs", {})
        made["inputs"] |= {name: read for name, read in inputs.items() if name == "tokenizer"}
    write_json(provenance_path(out), made)


@command.command()
@click.argument("name")
@options.registry
@options.out(".json")
def passages(name: str, spec: str | None, configfile: tuple[Path, ...], out: Path) -> None:
    """Write NAME, parallel passages in the registry, as one file."""
    from lensproof.checkpoints import registry
    from lensproof.checkpoints.scratch import scratch
    from lensproof.corpora.benchmark import collect
    from lensproof.corpora.benchmark.passages import write

    entry = registry.passages(name, spec, configfile)
    options.spare_source(out, entry.source)
    with scratch(out) as folder:
        found, provenance = collect.collect(name, entry, folder)
    write(out, found, provenance)
    logging.getLogger("lensproof").info("%s: %d passages in %s", name, len(found), out)
