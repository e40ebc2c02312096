"""``lensproof figure``: draw a figure from estimates."""

from __future__ import annotations

from pathlib import Path

import click

from lensproof import options
from lensproof.figures.catalogue import PAPERS


@click.command("figure")
@click.argument("paper", type=click.Choice(list(PAPERS)))
@click.argument("name")
@options.files("estimates", required=False)
@click.option("--title", multiple=True, metavar="CHECKPOINT=TEXT", help="What to call a checkpoint.")
@options.out(".pdf", ".svg", ".png", together=(".pdf", ".svg", ".png", ".md"))
def command(paper: str, name: str, estimates: tuple[Path, ...], title: tuple[str, ...], out: Path) -> None:
    """Draw NAME of PAPER from ESTIMATES: OUT and its like in .pdf, .svg and .png, the caption in .md.

    ESTIMATES are one file per checkpoint, of each experiment that the figure shows; for a drawing, nothing.
    """
    from lensproof.figures import captions, style
    from lensproof.figures.names import titles
    from lensproof.files import provenance_path, write_json, write_text
    from lensproof.provenance import record
    from lensproof.statistics.estimates import read
    from lensproof.statistics.table import join

    module = options.figure(paper, name)
    options.check_estimates("figure", paper, name, estimates)
    table = join({str(path): read(path) for path in estimates})
    with style.styled():
        style.save(module.draw(table, titles(title)), out)
    words = getattr(module, "words", None)
    write_text(out.with_suffix(".md"), captions.of_figure(name, module.CAPTION, table, titles(title), words))
    inputs = options.named(estimates)
    made = record("figure", inputs, modules=(module.__name__,), figure=f"{paper}/{name}")
    write_json(provenance_path(out), made)
