"""LexFrame's Figure 6: KL and Top-1 of readings along training, calibrated anew at each checkpoint."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lensproof.errors import LensproofError
from lensproof.figures.captions import alone, documents, mean_over, of_layers
from lensproof.figures.panels import MARGIN, divergence_axis, legend, scale
from lensproof.figures.style import COLUMN_INCHES, GREY, method_style
from lensproof.statistics.methods import in_order
from lensproof.statistics.training import ROLES

MEASURES = {"kl": "KL(model \N{DOUBLE VERTICAL LINE} reading), nats", "top1": "agreement with the model's top token"}

APART = 0.05
"""Between the marks of two methods at one checkpoint, as a share of the distance between checkpoints."""
CAPTION = (
    "Readings along training, {mean}, with {level} bootstrap intervals over {documents} ({resamples} "
    "resamples): divergence from the model's own output (above) and agreement with its top token (below). At one "
    "checkpoint methods stand a little apart, so that no interval hides another. Typical attention is calibrated "
    "anew at each. Before training a model says nearly the same whatever it is given, so that every reading is close "
    "to it. The axis of divergences is {scale}."
)


def draw(estimates: pd.DataFrame, titles: Mapping[str, str] | None = None) -> Figure:
    """Draw the figure inside :func:`lensproof.figures.style.styled`: a line of panels per measure.

    Args:
        estimates: of ``training``, one or more series.
        titles: checkpoint -> name to show, of the series and of their members.

    Raises:
        LensproofError: there are no layer means of a series in the estimates.
    """
    rows = _of_series(estimates)
    if rows.empty:
        raise LensproofError("the estimates hold no series: give those of the training experiment")
    series = list(dict.fromkeys(rows["checkpoint"]))
    size = (COLUMN_INCHES * max(len(series), 1.3) + 0.3, 2.1 * len(MEASURES) + 0.7)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(len(MEASURES), len(series), squeeze=False, sharex="col", sharey="row")
    for column, name in enumerate(series):
        own = rows[rows["checkpoint"] == name]
        for line, measure in enumerate(MEASURES):
            _panel(axes[line, column], own[own["measure"] == measure], titles or {})
        top = axes[0, column]
        top.set_title((titles or {}).get(name, name), loc="left", fontweight="bold", pad=15)
        note = f"{documents(own)}, {mean_over(of_layers(own['over']), not alone(own['over']))}"
        top.text(0, 1.02, note, transform=top.transAxes, va="bottom", color=GREY, fontsize=7)
    divergence_axis(list(axes[0]), rows[rows["measure"] == "kl"])
    for line, label in enumerate(MEASURES.values()):
        axes[line, 0].set_ylabel(label, fontsize=7.5)
    for panel in axes[1]:
        panel.set_ylim(-MARGIN, 1 + MARGIN)
    legend(figure, in_order(rows["method"]), 4)
    return figure


def words(estimates: pd.DataFrame, titles: Mapping[str, str] | None = None) -> dict[str, str]:
    """What the caption says of the axis."""
    rows = _of_series(estimates)
    return {"scale": scale(rows[rows["measure"] == "kl"])}


def _of_series(estimates: pd.DataFrame) -> pd.DataFrame:
    """Layer means at each member of a series."""
    return estimates[
        (estimates["summary"] == "layer_mean") & estimates["contrast"].isna() & estimates["setting"].notna()
        & ~estimates["setting"].isin(ROLES)
    ]  # fmt: skip


def _panel(axes: Axes, rows: pd.DataFrame, titles: Mapping[str, str]) -> None:
    members = list(dict.fromkeys(rows["setting"]))
    methods = in_order(rows["method"])
    for index, method in enumerate(methods):
        own = rows[rows["method"] == method].set_index("setting").loc[members]
        aside = APART * (index - (len(methods) - 1) / 2)  # so that no interval hides another
        place, style = np.arange(len(members)) + aside, method_style(method)
        # From lo to hi: a point need not lie inside its percentile interval.
        axes.vlines(place, own["lo"], own["hi"], color=style["color"], linewidth=0.8, clip_on=False)
        axes.plot(place, own["point"], marker="o", markersize=3, clip_on=False, **style)
    axes.set_xlim(-0.3, len(members) - 0.7)
    axes.set_xticks(range(len(members)), [_short(titles.get(member, member)) for member in members])
    if len(members) > 3:
        axes.tick_params(axis="x", labelrotation=40)
    axes.grid(axis="x", visible=False)


def _short(title: str) -> str:
    """``SmolLM2-135M, random initialisation`` as what follows the comma; a name without one is the trained model."""
    name, comma, rest = title.partition(", ")
    if comma:
        return rest
    return name.split(" after ")[-1] if " after " in name else "trained"
