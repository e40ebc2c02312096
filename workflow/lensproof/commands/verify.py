"""``lensproof verify``: fails if a claim that should hold at this level does not."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from lensproof import options
from lensproof.claims.catalogue import PUBLISHED


@click.command("verify")
@click.option("--results", default="results", type=options.FOLDER, help="Folder of the results.")
@click.option("--published", default=PUBLISHED, type=options.FOLDER, help="Folder of the papers' values.")
def command(results: Path, published: Path) -> None:
    """Exit with status 1 and name every claim that should hold at a level of this run (claims.yaml) and does not."""
    from lensproof.claims.models import claims
    from lensproof.claims.records import levels, records, shortfalls
    from lensproof.errors import LensproofError

    judged = records(results, published=published)
    if not any(judged.values()):
        raise LensproofError(f"no claim has been judged under {results}: run `snakemake --cores 2 claims`")
    expected = {name: claim.expected for name, claim in claims(published).items()}
    lines = list(shortfalls(judged, expected))
    for line in lines:
        click.echo(line)
    if lines:
        sys.exit(1)
    for level in levels(judged.values()):
        held = sum(level in named for named in expected.values())
        click.echo(f"level {level}: " + (f"all {held} claims expected to hold do" if held else "no claim is expected"))
