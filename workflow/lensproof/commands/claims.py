"""``lensproof claims``: every claim and its verdict on one screen."""

from __future__ import annotations

from pathlib import Path

import click

from lensproof import options
from lensproof.claims.catalogue import PUBLISHED


@click.command("claims")
@click.option("--paper", help="Claims of this paper only.")
@click.option("--results", default="results", type=options.FOLDER, help="Folder of the results.")
@click.option("--published", default=PUBLISHED, type=options.FOLDER, help="Folder of the papers' values.")
def command(paper: str | None, results: Path, published: Path) -> None:
    """List the claims: one line each, one column per checkpoint."""
    from rich.console import Console

    from lensproof.claims.pages import overview
    from lensproof.claims.records import records
    from lensproof.errors import LensproofError

    found = records(results, paper, published)
    if not found:
        raise LensproofError(f"there are no claims of a paper named {paper!r}: `lensproof claims` lists them all")
    console = Console(highlight=False)
    table = overview(found)
    needed = console.measure(table, options=console.options.update(max_width=1000)).maximum
    if not console.is_terminal:
        console.width = needed
    elif needed > console.width:
        table = overview(found, numbers=False)
    console.print(table)
