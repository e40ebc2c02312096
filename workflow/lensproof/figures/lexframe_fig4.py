"""LexFrame's Figure 4: KL of each reading by layer, one panel per checkpoint."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from lensproof.errors import LensproofError
from lensproof.figures.names import method_title
from lensproof.figures.style import COLUMN_INCHES, GREY, method_style
from lensproof.statistics.methods import MODEL, in_order

SMALLEST_DECADE = 1e-4
"""Nats. The axis is logarithmic down to here at most, and linear from there to 0."""


def draw(estimates: pd.DataFrame, titles: Mapping[str, str] | None = None) -> Figure:
    """Draw the figure inside :func:`lensproof.figures.style.styled`.

    Args:
        estimates: of ``readings``, one or more checkpoints.
        titles: checkpoint -> name to show.

    Raises:
        LensproofError: there is no KL by layer in the estimates.
    """
    rows = estimates[
        (estimates["measure"] == "kl") & (estimates["summary"] == "layer") & estimates["contrast"].isna()
        & (estimates["method"] != MODEL)
    ]  # fmt: skip
    if rows.empty:
        raise LensproofError("the estimates hold no KL by layer: give those of the readings experiment")
    checkpoints = list(dict.fromkeys(rows["checkpoint"]))
    columns = min(len(checkpoints), 2)
    lines = math.ceil(len(checkpoints) / columns)
    size = (COLUMN_INCHES * max(columns, 1.5) + 0.3, 2.7 * lines + 0.5)
    figure = Figure(figsize=size, layout="constrained")
    panels = list(figure.subplots(lines, columns, sharey=True, squeeze=False).flat)
    for panel, checkpoint in zip(panels, checkpoints, strict=False):
        _panel(panel, rows[rows["checkpoint"] == checkpoint], (titles or {}).get(checkpoint, checkpoint))
    for panel in panels[len(checkpoints) :]:
        panel.remove()
    _vertical(panels[: len(checkpoints)], rows)
    figure.supylabel("KL(model \N{DOUBLE VERTICAL LINE} reading), nats", fontsize=8)
    _legend(figure, in_order(rows["method"]), 5 if columns > 1 else 3)
    return figure


def _panel(axes: Axes, rows: pd.DataFrame, title: str) -> None:
    for method in in_order(rows["method"]):
        curve = rows[rows["method"] == method].sort_values("layer")
        layers = curve["layer"].to_numpy(dtype=float)
        style = method_style(method)
        axes.fill_between(layers, curve["lo"], curve["hi"], color=style["color"], alpha=0.25, linewidth=0)
        axes.plot(layers, curve["point"], clip_on=False, **style)
    last = int(rows["layer"].max())
    first = rows.iloc[0]
    sample = f"{first['clusters']} documents, {first['n']:,} positions"
    axes.set_title(title, loc="left", fontweight="bold", pad=15)
    axes.text(0, 1.02, sample, transform=axes.transAxes, va="bottom", color=GREY, fontsize=7)
    axes.set_xlim(-0.02 * last, 1.02 * last)
    axes.xaxis.set_major_locator(FixedLocator(_layer_ticks(last)))
    axes.set_xlabel(f"layer (0 the embedding, {last} the last block's output)")
    axes.grid(axis="x", visible=False)


def _layer_ticks(last: int) -> list[int]:
    step = max(1, math.ceil(last / 6 / 2) * 2) if last > 6 else 1
    return [*(layer for layer in range(0, last, step) if last - layer > step / 2), last]


def _vertical(panels: list[Axes], rows: pd.DataFrame) -> None:
    """A logarithmic axis that still shows 0: a reading that is the model's own has no place on a plain one."""
    positive = rows.loc[rows["point"] >= SMALLEST_DECADE, "point"]
    low = math.floor(math.log10(positive.min())) if len(positive) else round(math.log10(SMALLEST_DECADE))
    high = max(math.ceil(math.log10(max(rows["hi"].max(), SMALLEST_DECADE))), low + 1)
    for axes in panels:
        axes.axhspan(0, 10**low, color="#f0f0f0", linewidth=0, zorder=0)
        place = {"transform": axes.get_yaxis_transform(), "va": "center"}
        axes.text(0.015, 10**low / 2, "linear down to 0", color=GREY, fontsize=6.5, **place)
        axes.set_yscale("symlog", linthresh=10**low, linscale=0.5)
        axes.set_ylim(0, 10**high)
        axes.yaxis.set_major_locator(FixedLocator([0, *(10.0**power for power in range(low, high + 1))]))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _legend(figure: Figure, methods: list[str], columns: int) -> None:
    handles = [Line2D([], [], label=method_title(method), **method_style(method)) for method in methods]
    figure.legend(handles=handles, loc="outside upper center", ncols=columns, handlelength=2.6, columnspacing=1.6)
