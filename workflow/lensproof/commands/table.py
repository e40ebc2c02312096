"""``lensproof table``: make a table from estimates."""

from __future__ import annotations

from pathlib import Path

import click

from lensproof import options
from lensproof.claims.catalogue import PUBLISHED
from lensproof.figures.catalogue import PAPERS


@click.command("table")
@click.argument("paper", type=click.Choice(list(PAPERS)))
@click.argument("name")
@options.files("estimates", required=False)
@click.option("--title", multiple=True, metavar="CHECKPOINT=TEXT", help="What to call a checkpoint.")
@click.option("--published", default=PUBLISHED, type=options.FOLDER, help="Folder of the papers' values.")
@options.out(".csv", ".md", ".tex", together=(".csv", ".md", ".tex"))
def command(
    paper: str, name: str, estimates: tuple[Path, ...], title: tuple[str, ...], published: Path, out: Path
) -> None:
    """Make NAME of PAPER from ESTIMATES: OUT as .csv, and .md and .tex made from it.

    ESTIMATES are one file per checkpoint, of each experiment that the table shows; for `text` the table of claims, for
    `open_points` nothing.
    """
    from lensproof.claims.catalogue import load
    from lensproof.claims.records import table as claims_table
    from lensproof.figures.catalogue import CLAIMS, TABLES
    from lensproof.figures.names import titles
    from lensproof.files import atomic, provenance_path, write_json, write_text
    from lensproof.provenance import record
    from lensproof.statistics.estimates import read
    from lensproof.statistics.table import join

    module = options.table(paper, name)
    options.check_estimates("table", paper, name, estimates)
    values = load(paper, published)
    values |= {also: load(also, published) for also in getattr(module, "ALSO", ())}
    of_claims = CLAIMS in TABLES[paper][name]
    given = {str(path): claims_table(path, published) if of_claims else read(path) for path in estimates}
    table = module.tidy(join(given), values)
    texts = {
        form: make(table, values, titles(title)) for form, make in ((".md", module.markdown), (".tex", module.latex))
    }
    with atomic(out.with_suffix(".csv")) as temporary:
        table.to_csv(temporary, index=False)
    for form, text in texts.items():
        write_text(out.with_suffix(form), text)
    made = record("table", options.named(estimates), modules=(module.__name__,), table=f"{paper}/{name}")
    write_json(provenance_path(out), made)
