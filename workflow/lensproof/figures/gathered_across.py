"""Gathered's figure across checkpoints: what demand and what the operator alone do to visibility.

Of the paper's three panels this is the last, for every checkpoint of the run.
"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lensproof.figures.arms import WIDTH, Contrast, by_checkpoint, key, of_contrast, select
from lensproof.figures.style import GREY

CONTRASTS = {"latent demand": Contrast("flexible", "supplied"), "operator alone": Contrast("supplied", "control")}
CAPTION = (
    "Differences in visibility R_z at the query position, as a mean over the band, between arms on the same passages: "
    "latent demand, flexible less supplied, where the operator is the same and its input has to be inferred or is "
    "given; and operator alone, supplied less control, on {checkpoints}. Marks are means, lines {level} percentile "
    "bootstrap intervals over passages ({resamples} resamples; {instances}). Whether a contrast means anything depends "
    "on the arms' accuracies, which this picture does not show: see the table of contrasts and the claims."
)
APART = 0.22
"""Between the two marks of a checkpoint, in lines."""


def draw(estimates: pd.DataFrame, titles: Mapping[str, str] | None = None) -> Figure:
    """Draw the figure inside :func:`lensproof.figures.style.styled`.

    Args:
        estimates: of ``visibility``, one or more checkpoints.
        titles: checkpoint -> name to show.

    Raises:
        LensproofError: a checkpoint has not both contrasts.
    """
    select(estimates, experiment="visibility", measure="rz", summary="band_mean", contrast="difference")
    checkpoints = list(by_checkpoint(estimates))[::-1]
    figure = Figure(figsize=(0.75 * WIDTH, 0.36 * len(checkpoints) + 1.15), layout="constrained")
    axes = figure.add_subplot()
    for line, (_, own) in enumerate(checkpoints):
        for place, contrast in zip((APART / 2, -APART / 2), CONTRASTS.values(), strict=True):
            _mark(axes, own, contrast, line + place)
    axes.axvline(0, color=GREY, linewidth=0.8)
    axes.set_yticks(range(len(checkpoints)), [(titles or {}).get(name, name) for name, _ in checkpoints])
    axes.set_ylim(-0.6, len(checkpoints) - 0.4)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("Δ $R_z$ at the query position, mean over the band")
    key(figure, (), **{f"{name} ({contrast.title})": _look(contrast) for name, contrast in CONTRASTS.items()})
    return figure


def _look(contrast: Contrast) -> dict:
    return {**contrast.style, "markersize": 5}


def _mark(axes: Axes, own: pd.DataFrame, contrast: Contrast, place: float) -> None:
    row = of_contrast(own, contrast, "rz")
    span = [[row["point"] - row["lo"]], [row["hi"] - row["point"]]]
    axes.errorbar(row["point"], place, xerr=span, elinewidth=1.1, **_look(contrast))
