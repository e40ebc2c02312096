"""``lensproof figure``: draw a figure from estimates."""

from __future__ import annotations

from pathlib import Path

import click

from lensproof import options

PAPERS = ("lexframe",)


@click.command("figure")
@click.argument("paper", type=click.Choice(PAPERS))
@click.argument("name")
@click.argument("estimates", nargs=-1, type=options.FILE)
@click.option("--title", multiple=True, metavar="CHECKPOINT=TEXT", help="What to call a checkpoint.")
@options.out
def command(paper: str, name: str, estimates: tuple[Path, ...], title: tuple[str, ...], out: Path) -> None:
    """Draw NAME of PAPER from ESTIMATES: OUT and its like in .pdf, .svg and .png, the caption in .md.

    ESTIMATES are one file per checkpoint, of each experiment that the figure shows; for a drawing, nothing.
    """
    import pandas as pd

    from lensproof.figures import captions, style
    from lensproof.figures.names import titles
    from lensproof.files import provenance_path, read_parquet, write_json, write_text
    from lensproof.provenance import record
    from lensproof.statistics.table import COLUMNS

    module = options.module("figures", f"{paper}_{name}", "draw")
    given = [read_parquet(path) for path in estimates]
    table = pd.concat(given, ignore_index=True) if given else pd.DataFrame(columns=COLUMNS)
    with style.styled():
        style.save(module.draw(table, titles(title)), out)
    write_text(out.with_suffix(".md"), captions.of_figure(name, module.CAPTION, table, titles(title)))
    inputs = options.named(estimates)
    made = record("figure", inputs, modules=(module.__name__,), figure=f"{paper}/{name}")
    write_json(provenance_path(out), made)
