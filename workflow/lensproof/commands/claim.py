"""``lensproof claim``: what a reviewer needs to check one claim."""

from __future__ import annotations

from pathlib import Path

import click

from lensproof import options
from lensproof.claims.catalogue import PUBLISHED


@click.command("claim")
@click.argument("claim")
@click.option("--results", default="results", type=options.FOLDER, help="Folder of the results.")
@click.option("--published", default=PUBLISHED, type=options.FOLDER, help="Folder of the papers' values.")
def command(claim: str, results: Path, published: Path) -> None:
    """Show CLAIM: the paper's words and value, ours with intervals, the rule, the verdict, how to rebuild it."""
    from rich.console import Console

    from lensproof.claims.pages import page
    from lensproof.claims.records import record

    Console(highlight=False).print(page(record(results, claim, published)), crop=False)
