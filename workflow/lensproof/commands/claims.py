"""``lensproof claims``: every claim and its verdict on one screen."""

from __future__ import annotations

import os
from pathlib import Path

import click

from lensproof import options
from lensproof.claims.catalogue import PUBLISHED

PIPED = 120
"""Columns where there is no terminal to ask."""


@click.command("claims")
@click.option("--paper", help="Claims of this paper only.")
@click.option("--results", default="results", type=options.FOLDER, help="Folder of the results.")
@click.option("--published", default=PUBLISHED, type=options.FOLDER, help="Folder of the papers' values.")
def command(paper: str | None, results: Path, published: Path) -> None:
    """List the claims: one line each, one column per checkpoint, as much of the estimates as the width has room for."""
    from rich.console import Console

    from lensproof.claims.pages import DETAILS, mixed, overview
    from lensproof.claims.records import records
    from lensproof.errors import LensproofError

    found = records(results, paper, published)
    if not found:
        raise LensproofError(f"there are no claims of a paper named {paper!r}: `lensproof claims` lists them all")
    console = Console(highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = PIPED
    for detail in DETAILS:
        table = overview(found, detail)
        if console.measure(table, options=console.options.update(max_width=1000)).maximum <= console.width:
            break
    console.print(table)
    if words := mixed(found):
        console.print(words)
    if detail != DETAILS[0]:
        console.print(
            "With more room more is shown; `lensproof claim ID` shows all of one, results/claims.csv of each."
        )
