"""A prompt's readings as a table in the terminal or a heatmap; layers from the last (top) to the first."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from lensproof.errors import LensproofError
from lensproof.files import atomic

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table

WIDTH = 9


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
    from rich.table import Table
    from rich.text import Text

    grid = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1), caption="top token and its probability by layer")
    grid.add_column("layer", justify="right", style="bold", min_width=5)
    columns = table.drop_duplicates("position")
    for _, column in columns.iterrows():
        grid.add_column(Text(clip(column["input"]), style="bold"), no_wrap=True)
    for layer, row in reversed(list(table.groupby("layer"))):
        cells = [Text(f"{clip(c.token):<{WIDTH}} {c.probability:.2f}", _style(c.probability)) for c in row.itertuples()]
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


def clip(token: str, width: int = WIDTH) -> str:
    """A token on one line: spaces visible at its ends, control characters escaped, cut to ``width``."""
    text = token.replace("\n", "\\n").replace("\t", "\\t")
    text = "".join(character if character.isprintable() else "?" for character in text)
    text = ("·" + text[1:]) if text.startswith(" ") else text
    return text if len(text) <= width else text[: width - 1] + "…"


def draw(table: pd.DataFrame, title: str, out: Path) -> None:
    """Write the heatmap to ``out``.

    Raises:
        LensproofError: a type of file that cannot be drawn.
    """
    from lensproof.figures.style import FORMATS, styled

    form = out.suffix.removeprefix(".")
    if form not in FORMATS:
        raise LensproofError(f"cannot draw {out}: its name must end in {', '.join('.' + form for form in FORMATS)}")
    with styled(), atomic(out) as temporary:
        _heatmap(table, title).savefig(temporary, format=form)


def _heatmap(table: pd.DataFrame, title: str) -> Figure:
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.figure import Figure

    grid = table.pivot(index="layer", columns="position", values="probability").sort_index(ascending=False)
    words = table.pivot(index="layer", columns="position", values="token").reindex(grid.index)
    inputs = table.drop_duplicates("position").set_index("position")["input"].reindex(grid.columns)
    colours = LinearSegmentedColormap.from_list("reading", [[c / 255 for c in _colour(p)] for p in (0.0, 1.0)])
    rows, columns = grid.shape
    figure = Figure(figsize=(1.6 + 0.78 * columns, 1.4 + 0.24 * rows), layout="constrained")
    axes = figure.add_subplot()
    axes.grid(False)
    picture = axes.imshow(grid.to_numpy(), aspect="auto", cmap=colours, vmin=0, vmax=1)
    for y, x in ((y, x) for y in range(rows) for x in range(columns)):
        ink = "white" if grid.iat[y, x] > 0.5 else "black"
        axes.text(x, y, clip(words.iat[y, x]), ha="center", va="center", fontsize=6, color=ink, parse_math=False)
    axes.set_xticks(range(columns), [clip(text) for text in inputs], rotation=45, ha="left", parse_math=False)
    axes.set_yticks(range(rows), grid.index)
    axes.tick_params(length=0, top=True, bottom=False, labeltop=True, labelbottom=False)
    axes.xaxis.set_label_position("top")
    axes.set(xlabel="token of the prompt", ylabel="layer", title=title)
    figure.colorbar(picture, label="probability of the top token", fraction=0.05, pad=0.01)
    return figure
