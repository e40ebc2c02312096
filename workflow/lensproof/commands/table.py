"""``lensproof table``: make a table from estimates."""

from __future__ import annotations

from pathlib import Path

import click

from lensproof import options
from lensproof.claims.catalogue import PUBLISHED

TABLES = {"lexframe": ("table1",)}


@click.command("table")
@click.argument("paper", type=click.Choice(list(TABLES)))
@click.argument("name")
@click.argument("estimates", nargs=-1, required=True, type=options.FILE)
@click.option("--title", multiple=True, metavar="CHECKPOINT=TEXT", help="What to call a checkpoint.")
@click.option("--published", default=PUBLISHED, type=options.FOLDER, help="Folder of the papers' values.")
@options.out
def command(
    paper: str, name: str, estimates: tuple[Path, ...], title: tuple[str, ...], published: Path, out: Path
) -> None:
    """Make NAME of PAPER from ESTIMATES, one file per checkpoint: OUT as .csv, and .md and .tex made from it."""
    import pandas as pd

    from lensproof.claims.catalogue import load
    from lensproof.errors import LensproofError
    from lensproof.figures import lexframe_table1
    from lensproof.figures.names import titles
    from lensproof.files import atomic, provenance_path, read_parquet, write_json, write_text
    from lensproof.provenance import record

    if name not in TABLES[paper]:
        raise LensproofError(f"{paper} has no table {name!r} here (there is {', '.join(TABLES[paper])})")
    module = {("lexframe", "table1"): lexframe_table1}[paper, name]
    values = load(paper, published)
    table = module.tidy(pd.concat([read_parquet(path) for path in estimates], ignore_index=True), values)
    with atomic(out.with_suffix(".csv")) as temporary:
        table.to_csv(temporary, index=False)
    write_text(out.with_suffix(".md"), module.markdown(table, values, titles(title)))
    write_text(out.with_suffix(".tex"), module.latex(table, values, titles(title)))
    inputs = {path.stem: path for path in estimates}
    write_json(provenance_path(out), record("table", inputs, table=f"{paper}/{name}"))
