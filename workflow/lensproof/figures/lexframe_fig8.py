"""LexFrame's Figure 8: how order 1 comes near the native readout with depth, and the ceiling of fixed directions."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lensproof.figures.captions import documents, drawn, listed
from lensproof.figures.panels import by_layer, curve, layer_axis, linear_axis
from lensproof.figures.style import COLUMN_INCHES, GREY, method_style

METHOD, CEILING = "lexframe_1", "fixed_direction_ceiling"
LOSS = {
    "relaxation_share": ("dashed: exponential fit\nloses {} of the angle per layer", ".3f"),
    "relaxation_r2": ("R² {}", ".3f"),
}
SLOPE = {"plateau_slope": ("dashed: line over the paper's plateau\nslope {} per layer", ".4f")}
FIT = {"color": "#000000", "linestyle": (0, (4, 2)), "linewidth": 1.0}
CAPTION = (
    "Above: mean angle of LexFrame[1] to the native readout by layer, on {checkpoints}, with the exponential fitted to"
    " it (dashed) over the layers drawn from 1 to L-2, by least squares in degrees; at the last two layers of a model,"
    " L-1 and L, order 1 is exact by construction. Below: the ceiling of fixed directions, √κ, with its slope (dashed)"
    " over the layers drawn whose share of depth is that of layers 8 to 17 of 36, where the paper saw it level off on "
    "SmolLM3{plateau}. "
    "Bands and brackets are {level} percentile bootstrap intervals over {documents} ({resamples} resamples). Layers "
    "drawn: {drawn}."
)


def draw(estimates: pd.DataFrame, titles: Mapping[str, str] | None = None) -> Figure:
    """Draw the figure inside :func:`lensproof.figures.style.styled`: two panels below one another per checkpoint.

    Args:
        estimates: of ``directions``, one or more checkpoints. A model with too few layers has no fits.
        titles: checkpoint -> name to show.

    Raises:
        LensproofError: there are no angles or no ceiling by layer in the estimates.
    """
    angles, ceilings = by_layer(estimates, "angle", [METHOD]), by_layer(estimates, "cosine", [CEILING])
    checkpoints = list(dict.fromkeys(angles["checkpoint"]))
    figure = Figure(figsize=(COLUMN_INCHES * max(len(checkpoints), 1.3) + 0.3, 4.6), layout="constrained")
    axes = figure.subplots(2, len(checkpoints), squeeze=False, sharey="row", sharex="col")
    for (upper, lower), checkpoint in zip(axes.T, checkpoints, strict=True):
        own = estimates[estimates["checkpoint"] == checkpoint]
        _panel(upper, own, METHOD, "angle", "angle_fit")
        _panel(lower, own, CEILING, "cosine", "plateau_fit")
        _note(upper, "right", own, LOSS)
        _note(lower, "left", own, SLOPE)
        upper.set_title((titles or {}).get(checkpoint, checkpoint), loc="left", fontweight="bold", pad=15)
        above = {"transform": upper.transAxes, "va": "bottom", "color": GREY, "fontsize": 7}
        upper.text(0, 1.02, documents(own), **above)
        upper.grid(axis="x", visible=False)
        layer_axis(lower, ceilings[ceilings["checkpoint"] == checkpoint])
    linear_axis(
        list(axes[0]), pd.concat([angles, by_layer(estimates, "angle_fit", [METHOD], optional=True)]), 0, 90, 15
    )
    linear_axis(list(axes[1]), ceilings, 0, 1, 0.2)
    axes[0, 0].set_ylabel("mean angle of LexFrame[1]\nto the native readout, degrees")
    axes[1, 0].set_ylabel("ceiling of fixed directions,\ncosine (√κ)")
    return figure


def words(estimates: pd.DataFrame, titles: Mapping[str, str] | None = None) -> dict[str, str]:
    """What the caption says of the layers."""
    angles, fitted = (
        by_layer(estimates, measure, [method], optional=True)
        for measure, method in (("angle", METHOD), ("plateau_fit", CEILING))
    )
    whole = set(fitted["checkpoint"]) == set(angles["checkpoint"])
    plateau = f": {listed(fitted, titles, whole=whole)}" if len(fitted) else ""
    return {"drawn": drawn(angles, titles), "plateau": plateau}


def _panel(axes: Axes, estimates: pd.DataFrame, method: str, measure: str, fitted: str) -> None:
    """What was measured, with its band, and the fit to it."""
    curve(axes, by_layer(estimates, measure, [method]), {**method_style(method), "linestyle": "-"})
    fit = by_layer(estimates, fitted, [method], optional=True).sort_values("layer")
    axes.plot(fit["layer"].to_numpy(dtype=float), fit["point"], **FIT)


def _note(axes: Axes, side: str, estimates: pd.DataFrame, lines: Mapping[str, tuple[str, str]]) -> None:
    """What the fits say, those that there are, with their intervals, in a corner of the panel."""
    own = estimates[estimates["setting"].isna() & estimates["contrast"].isna()].drop_duplicates("measure")
    found = own.set_index("measure")[["point", "lo", "hi"]].dropna(subset="point")
    texts = []
    for measure, (line, form) in lines.items():
        if measure in found.index:
            point, lo, hi = (format(value, form) for value in found.loc[measure])
            texts.append(line.format(point if lo == "nan" else f"{point} [{lo}, {hi}]"))
    behind = {"facecolor": "#ffffff", "edgecolor": "none", "alpha": 0.85, "pad": 1.0}  # no gridline through the words
    place = {"ha": side, "va": "top", "transform": axes.transAxes, "bbox": behind}
    axes.text(0.98 if side == "right" else 0.02, 0.97, "\n".join(texts), fontsize=7, **place)
