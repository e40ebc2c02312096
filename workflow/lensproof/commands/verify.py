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
    from lensproof.claims.records import check_together, levels, preset_of, records, shortfalls
    from lensproof.errors import LensproofError
    from lensproof.presets import command as command_line

    judged = records(results, published=published)
    if not any(judged.values()):
        build = command_line("claims", results=results)
        raise LensproofError(f"no claim has been judged under {results}: run `{build}`")
    check_together(judged, results)
    expected = {name: claim.expected for name, claim in claims(published).items()}
    lines = list(shortfalls(judged, expected))
    for line in lines:
        click.echo(line)
    if lines:
        sys.exit(1)
    presets = dict.fromkeys(filter(None, (preset_of(record) for record in judged.values() if record)))
    made = f"preset {', '.join(presets)}, " if presets else ""
    for level in levels(judged.values()):
        held = sum(level in at for at in expected.values())
        said = "the one claim expected to hold does" if held == 1 else f"all {held} claims expected to hold do"
        click.echo(f"{made}level {level}: {said}" if held else f"{made}level {level} expects no claim")
