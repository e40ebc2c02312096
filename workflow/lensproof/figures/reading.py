"""A prompt's readings as a table in the terminal or a heatmap; layers from the last (top) to the first."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from lensproof.errors import LensproofError
from lensproof.figures.tokens import clip, fonts_for, spelled, visible
from lensproof.files import atomic

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table

WIDTH = 9
"""Characters of a token that are shown."""
NARROWEST, BAR = 2.8, 0.1
"""Inches: of the picture across, so that title and labels have room, and of the colour bar."""


def show(table: pd.DataFrame, title: str) -> None:
    """Print top tokens coloured by probability, a column per position; wide prompts continue below."""
    from rich.console import Console

    console = Console()
    per_block = max(1, (console.width - 10) // (WIDTH + 8))
    positions = sorted(table["position"].unique())
    for start in range(0, len(positions), per_block):
        console.print(_block(table[table["position"].isin(positions[start : start + per_block])], title))


def _block(table: pd.DataFrame, title: str) -> Table:
    from rich import box
    from rich.cells import set_cell_size
    from rich.table import Table
    from rich.text import Text

    grid = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1), caption="top token and its probability by layer")
    grid.add_column("layer", justify="right", style="bold", min_width=5)
    columns = table.drop_duplicates("position")
    for _, column in columns.iterrows():
        grid.add_column(Text(clip(visible(column["input"]), WIDTH), style="bold"), no_wrap=True)
    for layer, row in reversed(list(table.groupby("layer"))):
        cells = [
            Text(f"{set_cell_size(clip(visible(c.token), WIDTH), WIDTH)} {c.probability:.2f}", _style(c.probability))
            for c in row.itertuples()
        ]
        grid.add_row(str(layer), *cells)
    return grid


def _style(probability: float) -> str:
    red, green, blue = _colour(probability)
    ink = "white" if probability > 0.5 else "black"
    return f"{ink} on rgb({red},{green},{blue})"


def _colour(probability: float) -> tuple[int, int, int]:
    """From near white to dark blue as the probability rises."""
    pale, dark = (240, 244, 250), (8, 64, 129)
    return tuple(round(a + (b - a) * probability) for a, b in zip(pale, dark, strict=True))


def draw(table: pd.DataFrame, title: str, out: Path) -> None:
    """Write the heatmap to ``out``.

    Raises:
        LensproofError: a type of file that cannot be drawn.
    """
    from lensproof.figures import style

    form = out.suffix.removeprefix(".")
    if form not in style.FORMATS:
        forms = ", ".join(f".{form}" for form in style.FORMATS)
        raise LensproofError(f"cannot draw {out}: its name must end in {forms}")
    with style.styled(), atomic(out) as temporary:
        _heatmap(table, title).savefig(temporary, format=form)


def _heatmap(table: pd.DataFrame, title: str) -> Figure:
    """The picture, in the first of the fonts set up that has a character; code points stand for what none has."""
    import matplotlib as mpl
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.figure import Figure

    from lensproof.figures.style import FONT

    fonts, missing = fonts_for([*table["token"].map(visible), *table["input"].map(visible), title], FONT)
    mpl.rcParams["font.family"] = fonts

    def shown(token: str) -> str:
        return clip(spelled(visible(token), missing), WIDTH)

    grid = table.pivot(index="layer", columns="position", values="probability").sort_index(ascending=False)
    words = table.pivot(index="layer", columns="position", values="token").reindex(grid.index)
    inputs = table.drop_duplicates("position").set_index("position")["input"].reindex(grid.columns)
    colours = LinearSegmentedColormap.from_list("reading", [[c / 255 for c in _colour(p)] for p in (0.0, 1.0)])
    rows, columns = grid.shape
    cells = 0.24 * rows
    figure = Figure(figsize=(max(NARROWEST, 1.0 + 0.78 * columns), cells + 1.7), layout="constrained")
    axes, bar = figure.subplots(2, 1, height_ratios=[cells, BAR])
    axes.grid(False)
    picture = axes.imshow(grid.to_numpy(), aspect="auto", cmap=colours, vmin=0, vmax=1)
    for y, x in ((y, x) for y in range(rows) for x in range(columns)):
        ink = "white" if grid.iat[y, x] > 0.5 else "black"
        axes.text(x, y, shown(words.iat[y, x]), ha="center", va="center", fontsize=6, color=ink, parse_math=False)
    axes.set_xticks(range(columns), [shown(text) for text in inputs], rotation=45, ha="left", parse_math=False)
    axes.set_yticks(range(rows), grid.index)
    axes.tick_params(length=0, top=True, bottom=False, labeltop=True, labelbottom=False)
    axes.xaxis.set_label_position("top")
    axes.set(xlabel="token of the prompt", ylabel="layer")
    figure.suptitle(spelled(title, missing), fontsize=mpl.rcParams["axes.titlesize"], parse_math=False)
    figure.colorbar(picture, cax=bar, orientation="horizontal", label="probability of the top token")
    return figure
