"""``lensproof targets``: what every figure and table costs, and the verdicts of its claims."""

from __future__ import annotations

from pathlib import Path

import click

from lensproof import options
from lensproof.claims.catalogue import PUBLISHED
from lensproof.figures.catalogue import PAPERS


@click.command()
@click.argument("paper", type=click.Choice(list(PAPERS)))
@click.argument("claims", type=options.FILE)
@click.option("--benchmarks", type=options.FOLDER, default=Path("results/benchmarks"), show_default=True)
@click.option("--timed", multiple=True, type=options.FILE, help="Benchmark file to count; by default all there are.")
@click.option("--title", multiple=True, metavar="CHECKPOINT=TEXT", help="What to call a checkpoint.")
@click.option("--published", default=PUBLISHED, type=options.FOLDER, help="Folder of the papers' values.")
@options.out(".csv", ".md", together=(".csv", ".md"))
def command(
    paper: str,
    claims: Path,
    benchmarks: Path,
    timed: tuple[Path, ...],
    title: tuple[str, ...],
    published: Path,
    out: Path,
) -> None:
    """Gather benchmark files and verdicts for the figures and tables of PAPER: OUT as .csv, and .md made from it.

    CLAIMS is results/claims.csv.
    """
    from lensproof.claims.catalogue import load
    from lensproof.claims.records import table as claims_table
    from lensproof.figures import targets
    from lensproof.figures.names import titles
    from lensproof.files import atomic, provenance_path, write_json, write_text
    from lensproof.provenance import record

    entries = load("claims", published)["claims"]
    table = targets.tidy(paper, benchmarks, claims_table(claims, published), entries, timed)
    with atomic(out.with_suffix(".csv")) as temporary:
        table.to_csv(temporary, index=False)
    write_text(out.with_suffix(".md"), targets.markdown(paper, table, titles(title)) + "\n")
    write_json(provenance_path(out), record("targets", {"claims": claims}))
