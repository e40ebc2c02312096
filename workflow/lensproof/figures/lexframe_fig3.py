"""LexFrame's Figure 3, a drawing: which attention the flows of order 0, 1, 2 and infinity keep.

Each panel is the rest of the model from a cut, layers upwards and positions across. The flow that is read is that of
the last position; dots beside it are the flows of the positions before that it attends to, each coloured by its order.
Equation (6) of appendix C.2: attention of order n reads the flow of order n - 1 at the positions before, and at order 0
stands its typical value, which reads its own position only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch

from lensproof.figures.style import METHODS

ORDERS = (0, 1, 2, math.inf)
POSITIONS, LAYERS = 4, 4
ASIDE = 0.38
"""How far to the left the flows of the next lower order stand, in positions."""
REAL = {"color": "#000000", "linewidth": 0.7, "linestyle": "-"}
TYPICAL = {"color": "#1f78b4", "linewidth": 1.1, "linestyle": (0, (2.5, 1.5))}
DOT = {"marker": "o", "linestyle": "", "markersize": 5.5, "markeredgecolor": "#000000", "markeredgewidth": 0.6}
UNREAD = {**DOT, "color": "#ffffff", "markeredgecolor": "#6e6e6e", "marker": "s", "markersize": 5}
RESIDUAL = {"color": "#b0b0b0", "linewidth": 2.2}
CAPTION = (
    "A drawing of the flows from a cut at layer ℓ, layers upwards and positions across: which attention each order "
    "keeps. At order 0 typical attention stands in for the model's own at every block (blue, dashed), and nothing is "
    "read from other positions, whose states are open squares. At order n the position that is read attends, with the "
    "model's own attention (black), to the flow of order n - 1 at the positions before it, and that to the flow of "
    "order n - 2. At order ∞ all is the model itself. Every flow attends to its own position too, which no arrow "
    "shows; earlier positions are left out."
)


def draw(estimates: pd.DataFrame | None = None, titles: Mapping[str, str] | None = None) -> Figure:
    """Draw the figure inside :func:`lensproof.figures.style.styled`; it shows no numbers, so nothing is read."""
    figure = Figure(figsize=(7.1, 3.0), layout="constrained")
    for axes, order in zip(figure.subplots(1, len(ORDERS)), ORDERS, strict=True):
        _panel(axes, order)
    _legend(figure)
    return figure


def _panel(axes: Axes, order: float) -> None:
    unread = range(POSITIONS - 1 if order == 0 else 0)
    axes.plot(list(unread), [0] * len(unread), **UNREAD)
    for flow in _flows(order):
        for position in _positions(flow, order):
            _flow(axes, flow, position, order)
    axes.set_title(f"Order {_name(order)}{' (the model)' if order == math.inf else ''}", fontweight="bold")
    axes.set_xlim(-0.75, POSITIONS - 0.6)
    axes.set_ylim(-0.25, LAYERS - 0.75)
    names = [rf"$t-{back}$" if back else "$t$" for back in range(POSITIONS - 1, -1, -1)]
    axes.set_xticks(range(POSITIONS), names)
    axes.set_yticks(range(LAYERS), [r"$\ell$", r"$\ell+1$", r"$\ell+2$", r"$\ell+3$"])
    axes.set_xlabel("position")
    if order == ORDERS[0]:
        axes.set_ylabel("layer, from the cut upwards")
    else:
        axes.tick_params(labelleft=False)
    axes.grid(False)
    axes.tick_params(length=0)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)


def _flows(order: float) -> list[float]:
    """The orders of the flows in a panel, the one that is read last."""
    return [order] if order == math.inf else list(range(int(order) + 1))


def _positions(flow: float, order: float) -> list[int]:
    """Where a flow runs: the one that is read at the last position, those that it attends to at those before."""
    if order == math.inf:
        return list(range(POSITIONS))
    last = POSITIONS - 1
    return [last] if flow == order else list(range(last - int(order - flow) + 1))


def _place(flow: float, position: int, order: float) -> float:
    """Across: the flows of one position stand side by side, the one nearest to the order that is read on the right."""
    return position if order == math.inf or position == POSITIONS - 1 else position - ASIDE * (order - 1 - flow)


def _flow(axes: Axes, flow: float, position: int, order: float) -> None:
    x = _place(flow, position, order)
    read = flow - 1 if flow != math.inf else flow
    axes.plot([x, x], [0, LAYERS - 1], zorder=1, **RESIDUAL)
    for layer in range(LAYERS - 1):
        if flow == 0:
            _arrow(axes, (x, layer), (x, layer + 1), TYPICAL, bend=-0.45)
        for before in range(position if flow > 0 else 0):
            _arrow(axes, (_place(read, before, order), layer), (x, layer + 1), REAL)
    axes.plot([x] * LAYERS, range(LAYERS), color=_colour(flow), zorder=4, clip_on=False, **DOT)


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], style: dict, bend: float = 0.0) -> None:
    shape = {"arrowstyle": "-|>", "mutation_scale": 5, "shrinkA": 3, "shrinkB": 3.5, "zorder": 3}
    axes.add_patch(FancyArrowPatch(start, end, connectionstyle=f"arc3,rad={bend}", **shape, **style))


def _legend(figure: Figure) -> None:
    lines = [
        Line2D([], [], label="the model's own attention", **REAL),
        Line2D([], [], label="typical attention", **TYPICAL),
        Line2D([], [], label="residual stream", **RESIDUAL),
        Line2D([], [], label="a state that is not read", **UNREAD),
    ]
    dots = [Line2D([], [], label=f"flow of order {_name(order)}", color=_colour(order), **DOT) for order in ORDERS]
    handles = [handle for pair in zip(lines, dots, strict=True) for handle in pair]  # legends fill column by column
    figure.legend(handles=handles, loc="outside upper center", ncols=len(ORDERS), columnspacing=1.6)


def _name(order: float) -> str:
    return "∞" if order == math.inf else f"{order}"


def _colour(order: float) -> str:
    return "#ffffff" if order == math.inf else METHODS[f"lexframe_{order}"]["color"]
