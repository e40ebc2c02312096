"""What figures with one panel per checkpoint share: the grid, curves with bands, axes of layers and of divergences."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, MultipleLocator, NullLocator

from lensproof.errors import LensproofError
from lensproof.figures.captions import depth_of, documents, sample
from lensproof.figures.names import measure_title, method_title
from lensproof.figures.style import COLUMN_INCHES, GREY, method_style

SMALLEST_DECADE = 1e-4
"""Nats. The axis is logarithmic down to here at most, and linear from there to 0."""

FEWEST_STEPS, MOST_STEPS = 4, 9
"""On an axis of layers, between ticks; the last layer is one of them."""
NOTE, NOTE_POINTS = 66, 8.5
"""Characters that fit above a panel in a line, and the height of a line in points."""
MARK = {"marker": "o", "markersize": 2.5}
STRIP, STRIP_WIDTH = "linear down to 0", 0.28
"""What stands in the linear strip of an axis, and its share of a panel's width."""
MARGIN = 0.025
"""Of an axis, beyond the data on either side."""


def by_layer(estimates: pd.DataFrame, measure: str, methods: Sequence[str], *, optional: bool = False) -> pd.DataFrame:
    """The methods' own values of a measure at single layers.

    Raises:
        LensproofError: there is none, and they are not ``optional``.
    """
    rows = estimates[
        (estimates["measure"] == measure) & estimates["method"].isin(methods) & (estimates["summary"] == "layer")
        & estimates["contrast"].isna() & estimates["setting"].isna()
    ]  # fmt: skip
    if rows.empty and not optional:
        raise LensproofError(f"the estimates hold no {measure_title(measure).lower()} by layer of {', '.join(methods)}")
    return rows


def grid(
    rows: pd.DataFrame,
    titles: Mapping[str, str] | None = None,
    *,
    height: float = 2.7,
    sharey: bool = True,
    trials: Callable[[pd.DataFrame], str] | None = None,
) -> tuple[Figure, dict[str, Axes]]:
    """A figure with one titled panel per checkpoint, two in a line.

    Args:
        rows: estimates of all that is drawn; their checkpoints in order of appearance, and the sample named below each
            title.
        titles: checkpoint -> name to show.
        height: of a panel, in inches.
        sharey: whether all panels have one scale.
        trials: what to say of the trials of a checkpoint's rows; none: how many stand behind a point of each method.
    """
    checkpoints = list(dict.fromkeys(rows["checkpoint"]))
    columns = min(len(checkpoints), 2)
    lines = math.ceil(len(checkpoints) / columns)
    size = (COLUMN_INCHES * max(columns, 1.5) + 0.3, height * lines + 0.5)
    figure = Figure(figsize=size, layout="constrained")
    axes = list(figure.subplots(lines, columns, sharey=sharey, squeeze=False).flat)
    for spare in axes[len(checkpoints) :]:
        spare.remove()
    panels = dict(zip(checkpoints, axes, strict=False))
    samples = {name: rows[rows["checkpoint"] == name] for name in checkpoints}
    notes = {
        name: _broken(f"{documents(own)}, {trials(own)}" if trials else sample(own)) for name, own in samples.items()
    }
    pad = 15 + NOTE_POINTS * (max(map(len, notes.values())) - 1)
    for checkpoint, panel in panels.items():
        panel.set_title((titles or {}).get(checkpoint, checkpoint), loc="left", fontweight="bold", pad=pad)
        note = "\n".join(notes[checkpoint])
        panel.text(0, 1.02, note, transform=panel.transAxes, va="bottom", color=GREY, fontsize=7)
    return figure, panels


def _broken(note: str) -> list[str]:
    """In lines that fit above a panel, what stands in brackets on its own where one line does not do."""
    first, bracket, rest = note.partition(" (")
    parts = [note] if len(note) <= NOTE else [first, bracket.lstrip() + rest]
    return [line for part in parts for line in textwrap.wrap(part, NOTE)]


def curve(axes: Axes, rows: pd.DataFrame, style: Mapping[str, Any], x: str = "layer", **more: Any) -> None:
    """One method's estimates with the band of its intervals; a mark with its interval where there is one point only."""
    rows = rows.sort_values(x)
    if len(rows) == 1:
        axes.vlines(rows[x], rows["lo"], rows["hi"], color=style["color"], linewidth=0.8, clip_on=False)
        more = {**MARK, **more}
    place = rows[x].to_numpy(dtype=float)
    axes.fill_between(place, rows["lo"], rows["hi"], color=style["color"], alpha=0.25, linewidth=0)
    axes.plot(place, rows["point"], clip_on=False, **{**style, **more})


def _marked(figure: Figure, color: str) -> bool:
    """Whether a curve of this colour is one point."""
    lines = (line for axes in figure.axes for line in axes.lines)
    return any(line.get_color() == color and len(line.get_xdata()) == 1 for line in lines)


def layer_axis(axes: Axes, rows: pd.DataFrame) -> None:
    """Layers from the embedding to the last block's output, whether the latter is drawn or not; where the estimates
    ``rows`` of one checkpoint do not tell which that is, to the last that is drawn."""
    depth = depth_of(rows)
    last = int(rows["layer"].max()) if depth is None else depth
    even = [step for step in range(1, last + 1) if last % step == 0 and FEWEST_STEPS <= last // step <= MOST_STEPS]
    step = min(even, key=lambda step: abs(last / step - 6), default=max(1, round(last / 6)))
    ticks = [*(layer for layer in range(0, last, step) if last - layer >= step / 2), last]
    axes.set_xlim(-0.02 * last, 1.02 * last)
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    end = "" if depth is None else f", {depth} the last block's output"
    axes.set_xlabel(f"layer (0 the embedding{end})")
    axes.grid(axis="x", visible=False)


def linear_axis(panels: Sequence[Axes], rows: pd.DataFrame, low: float, high: float, step: float) -> None:
    """A scale on which ``low`` to ``high``, and all points and intervals, are seen whole."""
    values = rows[["point", "lo", "hi"]]
    low, high = min(low, values.min().min()), max(high, values.max().max())
    for axes in panels:
        axes.set_ylim(low - MARGIN * (high - low), high + MARGIN * (high - low))
        axes.yaxis.set_major_locator(MultipleLocator(step))


def exact(rows: pd.DataFrame) -> bool:
    """Whether some divergence is so near 0 that :func:`divergence_axis` has a linear strip."""
    return bool((_least(rows) < SMALLEST_DECADE).any())


def scale(rows: pd.DataFrame) -> str:
    """In words, the axis that :func:`divergence_axis` makes."""
    return f"logarithmic{' down to the shaded strip and linear from there to 0' if exact(rows) else ''}"


def _least(rows: pd.DataFrame) -> pd.Series:
    return rows[["point", "lo"]].min(axis=1)


def divergence_axis(panels: Sequence[Axes], rows: pd.DataFrame) -> None:
    """A logarithmic axis that still shows 0: a reading that is the model's own has no place on a plain one."""
    least = _least(rows)
    positive = least[least >= SMALLEST_DECADE]
    low = math.floor(math.log10(positive.min())) if len(positive) else round(math.log10(SMALLEST_DECADE))
    high = max(math.ceil(math.log10(max(rows["hi"].max(), SMALLEST_DECADE))), low + 1)
    strip = exact(rows)
    for axes in panels:
        if not strip:
            axes.set_yscale("log")
            axes.set_ylim(10**low, 10**high)
        else:
            axes.axhspan(0, 10**low, color="#f0f0f0", linewidth=0, zorder=0)
            axes.set_yscale("symlog", linthresh=10**low, linscale=0.5)
            axes.set_ylim(0, 10**high)
            if (left := _free(axes, 10**low)) is not None:
                place = {"transform": axes.get_yaxis_transform(), "va": "center"}
                axes.text(left + 0.015, 10**low / 2, STRIP, color=GREY, fontsize=6.5, **place)
        ticks = [*([0] if strip else []), *(10.0**power for power in range(low, high + 1))]
        axes.yaxis.set_major_locator(FixedLocator(ticks))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _free(axes: Axes, top: float) -> float | None:
    """Where in the strip from 0 to ``top`` words can stand on nothing that is drawn: their left end as a share of the
    panel's width; none: there is no such place, and the caption alone says what the strip is."""
    paths = [line.get_xydata() for line in axes.lines]
    paths += [path.vertices for drawn in axes.collections for path in drawn.get_paths()]
    to_share = axes.transData - axes.transAxes
    high = to_share.transform((axes.get_xlim()[0], top))[1] + MARGIN / 2
    taken = []
    for path in paths:
        corners = to_share.transform(path)
        steps = np.linspace(0, 1, 101)[:, None, None]
        points = (corners[:-1] + steps * np.diff(corners, axis=0)).reshape(-1, 2) if len(corners) > 1 else corners
        taken.append(points[points[:, 1] <= high, 0])
    x = np.concatenate(taken) if taken else np.empty(0)
    places = (0.0, 0.5 - STRIP_WIDTH / 2, 1 - STRIP_WIDTH)
    return next((left for left in places if not ((left < x) & (x < left + STRIP_WIDTH)).any()), None)


def legend(
    figure: Figure, methods: Sequence[str], columns: int, marked: Sequence[str] = (), **more: Mapping[str, Any]
) -> None:
    """The methods' lines above all panels, once these are drawn.

    Args:
        figure: with its panels.
        methods: whose lines.
        columns: of the legend.
        marked: methods whose curves have marks; those with a curve of one point have them anyhow.
        more: further lines by their label.
    """
    handles = []
    for method in methods:
        look = method_style(method)
        mark = MARK if method in marked or _marked(figure, look["color"]) else {}
        handles.append(Line2D([], [], label=method_title(method), **look, **mark))
    handles += [Line2D([], [], label=label, **style) for label, style in more.items()]
    figure.legend(handles=handles, loc="outside upper center", ncols=columns, handlelength=2.6, columnspacing=1.6)
