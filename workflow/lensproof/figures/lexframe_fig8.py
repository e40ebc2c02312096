"""LexFrame's Figure 8: how order 1 comes near the native readout with depth, and the ceiling of fixed directions."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MultipleLocator

from lensproof.errors import LensproofError
from lensproof.figures.panels import by_layer, curve, layer_axis
from lensproof.figures.style import COLUMN_INCHES, GREY, method_style

METHOD, CEILING = "lexframe_1", "fixed_direction_ceiling"
FIT = {"color": "#000000", "linestyle": (0, (4, 2)), "linewidth": 1.0}


def draw(estimates: pd.DataFrame, titles: Mapping[str, str] | None = None) -> Figure:
    """Draw the figure inside :func:`lensproof.figures.style.styled`: a column of two panels per checkpoint.

    Args:
        estimates: of ``directions``, one or more checkpoints.
        titles: checkpoint -> name to show.

    Raises:
        LensproofError: there are no angles, no fit or no ceiling by layer in the estimates.
    """
    angles, fit = by_layer(estimates, "angle", [METHOD]), by_layer(estimates, "angle_fit", [METHOD])
    ceiling, level = by_layer(estimates, "cosine", [CEILING]), by_layer(estimates, "plateau_fit", [CEILING])
    checkpoints = list(dict.fromkeys(angles["checkpoint"]))
    figure = Figure(figsize=(COLUMN_INCHES * max(len(checkpoints), 1.3) + 0.3, 4.6), layout="constrained")
    axes = figure.subplots(2, len(checkpoints), squeeze=False, sharey="row", sharex="col")
    for (upper, lower), checkpoint in zip(axes.T, checkpoints, strict=True):
        own = estimates[estimates["checkpoint"] == checkpoint]
        upper.set_title((titles or {}).get(checkpoint, checkpoint), loc="left", fontweight="bold", pad=15)
        note = f"{own['clusters'].max()} documents"
        upper.text(0, 1.02, note, transform=upper.transAxes, va="bottom", color=GREY, fontsize=7)
        _fitted(upper, *(rows[rows["checkpoint"] == checkpoint] for rows in (angles, fit)), METHOD)
        _fitted(lower, *(rows[rows["checkpoint"] == checkpoint] for rows in (ceiling, level)), CEILING)
        share, r2 = _number(own, "relaxation_share", "{:.1%}"), _number(own, "relaxation_r2", "{:.2f}")
        _note(upper, f"fit: {share} of the angle\nlost per layer\nR² {r2}")
        slope = _number(own, "plateau_slope", "{:+.3f}")
        _note(lower, f"line: {slope} per layer")
        layer_axis(lower, int(angles.loc[angles["checkpoint"] == checkpoint, "layer"].max()))
        upper.grid(axis="x", visible=False)
    for upper, lower in axes.T:
        upper.set_ylim(0, 90)
        upper.yaxis.set_major_locator(MultipleLocator(15))
        lower.set_ylim(0, 1)
        lower.yaxis.set_major_locator(MultipleLocator(0.2))
    axes[0, 0].set_ylabel("mean angle of LexFrame[1]\nto the native readout, degrees")
    axes[1, 0].set_ylabel("cosine ceiling of\nfixed directions, √κ")
    return figure


def _fitted(axes: Axes, rows: pd.DataFrame, fit: pd.DataFrame, method: str) -> None:
    """What was measured, with its band, and the fit to it."""
    curve(axes, rows, {**method_style(method), "linestyle": "-"})
    fit = fit.sort_values("layer")
    axes.plot(fit["layer"].to_numpy(dtype=float), fit["point"], **FIT)


def _number(estimates: pd.DataFrame, measure: str, form: str) -> str:
    """An estimate that has no layer, as ``0.94 [0.92, 0.95]``."""
    rows = estimates[(estimates["measure"] == measure) & estimates["setting"].isna() & estimates["contrast"].isna()]
    if len(rows) != 1:
        raise LensproofError(f"the estimates hold no {measure}: give those of the directions experiment")
    point, lo, hi = (form.format(rows.iloc[0][name]) for name in ("point", "lo", "hi"))
    return f"{point} [{lo}, {hi}]"


def _note(axes: Axes, text: str) -> None:
    """Text in the panel's upper corner."""
    axes.text(0.98, 0.97, text, transform=axes.transAxes, ha="right", va="top", fontsize=7)
