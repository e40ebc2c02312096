"""LexFrame's Figure 2: three tokens' native bases and one state from layer to layer, on one plane."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from lensproof.errors import LensproofError
from lensproof.figures.captions import drawn, shows_last
from lensproof.figures.style import COLUMN_INCHES, FONT, GREY
from lensproof.figures.tokens import clip, fonts_for, spelled, visible

COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9")
MARKERS = ("s", "^", "D", "v", "P")
FIRST, LAST = {"color": "#ffffff"}, {"color": GREY}
STATE = {"color": "#000000", "marker": "o"}
END = {"markersize": 6, "linestyle": ""}
"""Marks at either end of a path."""
WIDER = 0.5
"""Points by which each path is wider than the next above it."""
TICKS = [-1, -0.5, 0, 0.5, 1]
CAPTION = (
    "From layer to layer: native bases of the tokens that the model finds likeliest next at one position of one test "
    "text, and the state there (black), on {checkpoints}. Each is a unit vector, projected on the plane that keeps "
    "most of all their squared lengths: the nearer to the circle, the more of a vector is seen. Open marks are "
    "{first}, large filled ones {last}. Layers drawn: {drawn}. Colours are tokens here, not methods. A dot in a token "
    "stands for a space at its end. One example, without intervals."
)


def draw(estimates: pd.DataFrame, titles: Mapping[str, str] | None = None) -> Figure:
    """Draw the figure inside :func:`lensproof.figures.style.styled`.

    Args:
        estimates: of ``planes``, one or more checkpoints.
        titles: checkpoint -> name to show.

    Raises:
        LensproofError: there are no coordinates in the estimates.
    """
    rows = estimates[estimates["measure"].isin(["plane_x", "plane_y"])]
    if rows.empty:
        raise LensproofError("the estimates hold no coordinates in a plane: give those of the planes experiment")
    checkpoints = list(dict.fromkeys(rows["checkpoint"]))
    named = rows.groupby("checkpoint", observed=True)["setting"].nunique().max() + 3  # the state and either end
    size = (COLUMN_INCHES * max(len(checkpoints), 1.2) + 0.2, 3.75 + 0.19 * math.ceil(named / 2))
    figure = Figure(figsize=size, layout="constrained")
    for axes, checkpoint in zip(figure.subplots(1, len(checkpoints), squeeze=False)[0], checkpoints, strict=True):
        kept = estimates[(estimates["measure"] == "plane_kept") & (estimates["checkpoint"] == checkpoint)]["point"]
        axes.set_title((titles or {}).get(checkpoint, checkpoint), loc="left", fontweight="bold", pad=15)
        note = f"one state; the plane keeps {kept.iloc[0]:.0%} of the squared lengths"
        axes.text(0, 1.02, note, transform=axes.transAxes, va="bottom", color=GREY, fontsize=7)
        _panel(axes, rows[rows["checkpoint"] == checkpoint])
    return figure


def _panel(axes: Axes, rows: pd.DataFrame) -> None:
    axes.add_patch(Circle((0, 0), 1, fill=False, color="#b0b0b0", linewidth=0.7))
    settings = sorted(set(rows["setting"].dropna()))
    _, missing = fonts_for(rows["token"].dropna().map(visible), FONT, others=False)
    for index, (colour, marker, setting) in enumerate(zip(COLOURS, MARKERS, settings, strict=False)):
        own = rows[rows["setting"] == setting]
        name = f"native basis of “{clip(spelled(visible(own['token'].iloc[0]), missing), 12)}”"
        # Of paths that lie upon one another the lower are the wider, so that all are seen.
        _path(axes, own, name, {"color": colour, "marker": marker}, 1 + WIDER * (len(settings) - index))
    _path(axes, rows[rows["method"] == "state"], "the state", STATE)
    for look, layer in ((FIRST, rows["layer"].min()), (LAST, rows["layer"].max())):
        axes.plot([], [], label=f"at layer {layer:.0f}", marker="o", **{**END, "markeredgecolor": GREY, **look})
    axes.set(xlim=(-1.08, 1.08), ylim=(-1.08, 1.08), aspect="equal", xticks=TICKS, yticks=TICKS)
    axes.set_xlabel("cosine with the plane's first axis")
    axes.set_ylabel("cosine with its second axis")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, columnspacing=1.2, handlelength=1.8)


def _path(axes: Axes, rows: pd.DataFrame, name: str, look: Mapping[str, str], wide: float = 1.0) -> None:
    """A line through the layers, open at the first that is drawn and filled at the last."""
    points = rows.pivot(index="layer", columns="measure", values="point").sort_index()
    x, y = points["plane_x"].to_numpy(), points["plane_y"].to_numpy()
    axes.plot(x, y, color=look["color"], linewidth=wide, marker=look["marker"], markersize=1.7 + wide / 2, label=name)
    ends = {**END, "markersize": 5 + wide, "markeredgecolor": look["color"], "marker": look["marker"], "zorder": 5}
    axes.plot(x[:1], y[:1], **ends, **FIRST)
    axes.plot(x[-1:], y[-1:], color=look["color"], **ends)


def words(estimates: pd.DataFrame, titles: Mapping[str, str] | None = None) -> dict[str, str]:
    """What the caption says of the layers."""
    rows = estimates[estimates["measure"] == "plane_x"]
    lowest = rows.groupby("checkpoint", observed=True)["layer"].min()
    return {
        "first": "the embedding" if (lowest == 0).all() else "the lowest layer drawn",
        "last": "the last layer" if shows_last(rows) else "the highest layer drawn",
        "drawn": drawn(rows, titles),
    }
