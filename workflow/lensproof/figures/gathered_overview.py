"""Gathered's overview, a drawing: two accounts of how a variable comes to be readable where the answer is made.

Each panel has the passage's positions on the left and the query position on the right, depth upwards; where the
variable can be read, a mark is full. Admission: it is at the query position at every depth, and a gate decides whether
it can be read from there on. Transport: it is not there in that form until attention brings it from the passage, in a
window of depths; what is brought in below does not survive.
"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from lensproof.figures.arms import WIDTH
from lensproof.figures.style import GREY

CAPTION = (
    "A drawing of two accounts of how a latent variable comes to be readable where the answer is made; depth upwards, "
    "the passage's positions on the left and the query position on the right. (a) Admission: the variable is at the "
    "query position at every depth, and a gate decides whether it can be read from there on. (b) Transport: it is not "
    "there in that form until attention brings it from the passage, within a window of depths; what is brought in "
    "below does not last and is derived again above. Neither says that MLPs carry nothing anywhere, nor that the "
    "window is the same for every model and variable."
)
DEPTHS = 11
"""Layers that are drawn."""
PASSAGE, QUERY = (0.0, 0.6, 1.2), 3.6
"""Across: the passage's positions and the query position."""
GATE = 4.5
"""Between two layers, at about 40% of the depth."""
WINDOW = (4, 5, 6)
"""Layers at which attention gathers, 40 to 60% of the depth."""
BELOW = 1
"""Layer of what is brought in too early."""
# No arm's colour: the drawing is of all of them.
FULL = {"color": "#7b3f9d", "marker": "o", "markersize": 4.2, "linestyle": ""}
UNREAD = {**FULL, "markerfacecolor": "#ffffff", "markeredgewidth": 0.9}
ATTENTION = {"color": "#117755", "linewidth": 1.2}


def draw(estimates: pd.DataFrame, titles: Mapping[str, str] | None = None) -> Figure:
    """Draw the figure inside :func:`lensproof.figures.style.styled`; it shows no estimates."""
    figure = Figure(figsize=(WIDTH, 2.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    _admission(_panel(left, "a  admission: a gate decides"))
    _transport(_panel(right, "b  transport: attention gathers"))
    _legend(figure)
    return figure


def _panel(axes: Axes, title: str) -> Axes:
    axes.set_title(title, loc="left", fontweight="bold")
    axes.set_axis_off()
    axes.set(xlim=(-1.0, 5.4), ylim=(-1.9, DEPTHS + 1.6))
    for x in (*PASSAGE, QUERY):
        axes.plot([x, x], [-0.3, DEPTHS - 0.7], color="#d8d8d8", linewidth=1, zorder=0)
    frame = {"boxstyle": "round,pad=0.25", "facecolor": "#f6f6f6", "edgecolor": "none", "zorder": -1}
    axes.add_patch(FancyBboxPatch((PASSAGE[0], -0.3), PASSAGE[-1] - PASSAGE[0], DEPTHS - 0.4, **frame))
    axes.text(PASSAGE[1], -1.0, "passage", ha="center", va="top", fontsize=8)
    axes.text(QUERY, -1.0, "query position", ha="center", va="top", fontsize=8)
    _arrow(axes, (-0.75, 0), (-0.75, DEPTHS - 1), {"color": GREY, "linewidth": 0.8})
    axes.text(-0.82, (DEPTHS - 1) / 2, "depth", rotation=90, ha="right", va="center", color=GREY, fontsize=7.5)
    _arrow(axes, (QUERY, DEPTHS - 0.4), (QUERY, DEPTHS + 0.9), {"color": "#000000", "linewidth": 1.0})
    axes.text(QUERY + 0.15, DEPTHS + 0.3, "answer", va="center", fontsize=8)
    for x in PASSAGE:
        axes.plot([x] * DEPTHS, range(DEPTHS), **FULL)
    return axes


def _admission(axes: Axes) -> None:
    for layer in range(DEPTHS):
        axes.plot([QUERY], [layer], **(FULL if layer > GATE else UNREAD))
    axes.plot([QUERY - 0.55, QUERY + 0.55], [GATE, GATE], color="#000000", linewidth=3.2, solid_capstyle="butt")
    axes.text(QUERY + 0.65, GATE, "gate", va="center", fontsize=8)


def _transport(axes: Axes) -> None:
    for layer in WINDOW:
        axes.plot([QUERY], [layer], **FULL)
        _arrow(axes, (PASSAGE[-1], layer - 0.9), (QUERY, layer), ATTENTION)
    _arrow(axes, (PASSAGE[-1], BELOW - 0.9), (QUERY - 0.15, BELOW), {**ATTENTION, "linestyle": (0, (3, 2))})
    axes.plot([QUERY], [BELOW], color="#000000", marker="x", markersize=6, markeredgewidth=1.6, linestyle="")
    axes.text(QUERY + 0.3, BELOW, "installed below:\nre-derived above", va="center", fontsize=7, color=GREY)
    axes.text(QUERY + 0.3, WINDOW[1], "window", va="center", fontsize=8)


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], style: Mapping) -> None:
    shape = {"arrowstyle": "-|>", "mutation_scale": 7, "shrinkA": 3, "shrinkB": 3.5, "zorder": 3}
    axes.add_patch(FancyArrowPatch(start, end, **shape, **style))


def _legend(figure: Figure) -> None:
    handles = [
        Line2D([], [], label="the variable, readable", **FULL),
        Line2D([], [], label="there, but not readable", **UNREAD),
        Line2D([], [], label="attention", **ATTENTION),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=3, columnspacing=1.6)
