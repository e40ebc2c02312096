"""``lensproof figure``: draw a figure from estimates."""

from __future__ import annotations

from pathlib import Path

import click

from lensproof import options

FIGURES = {"lexframe": ("fig4",)}


@click.command("figure")
@click.argument("paper", type=click.Choice(list(FIGURES)))
@click.argument("name")
@click.argument("estimates", nargs=-1, required=True, type=options.FILE)
@click.option("--title", multiple=True, metavar="CHECKPOINT=TEXT", help="What to call a checkpoint.")
@options.out
def command(paper: str, name: str, estimates: tuple[Path, ...], title: tuple[str, ...], out: Path) -> None:
    """Draw NAME of PAPER from ESTIMATES, one file per checkpoint: OUT and its like in .pdf, .svg and .png."""
    import pandas as pd

    from lensproof.errors import LensproofError
    from lensproof.figures import lexframe_fig4, style
    from lensproof.figures.names import titles
    from lensproof.files import provenance_path, read_parquet, write_json
    from lensproof.provenance import record

    if name not in FIGURES[paper]:
        raise LensproofError(f"{paper} has no figure {name!r} here (there is {', '.join(FIGURES[paper])})")
    draw = {("lexframe", "fig4"): lexframe_fig4.draw}[paper, name]
    table = pd.concat([read_parquet(path) for path in estimates], ignore_index=True)
    with style.styled():
        style.save(draw(table, titles(title)), out)
    inputs = {path.stem: path for path in estimates}
    write_json(provenance_path(out), record("figure", inputs, figure=f"{paper}/{name}"))
