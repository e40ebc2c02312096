"""LexFrame's Figure 1: angle of each lens's direction to the native readout by layer, one panel per checkpoint."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from lensproof.figures.captions import drawn, shows_last
from lensproof.figures.panels import by_layer, curve, grid, layer_axis, legend, linear_axis
from lensproof.figures.style import method_style

METHODS = ("logit_lens", "jacobian_lens", "jacobian_lens_normed", "lexframe_1")
CAPTION = (
    "Mean angle between each lens's direction for a label and the model's native readout of it, by layer, on "
    "{checkpoints}. A lens has one direction per label and layer, whatever the state: the logit lens the output row "
    "less the mean row, the Jacobian lens its mean linear map of that. Read through the final norm, the Jacobian lens "
    "has a gradient that depends on the state; LexFrame[1] stands beside them. At 90 degrees a direction says nothing "
    "of the native one. Lines are means over states and labels, bands {level} percentile bootstrap intervals over "
    "{documents} ({resamples} resamples). Layers drawn: {drawn}.{exact}"
)
EXACT = " At the last layer only what goes through the final norm is exact."


def draw(estimates: pd.DataFrame, titles: Mapping[str, str] | None = None) -> Figure:
    """Draw the figure inside :func:`lensproof.figures.style.styled`.

    Args:
        estimates: of ``directions``, one or more checkpoints.
        titles: checkpoint -> name to show.

    Raises:
        LensproofError: there are no angles by layer in the estimates.
    """
    rows = _shown(estimates)
    figure, panels = grid(rows, titles)
    for checkpoint, panel in panels.items():
        own = rows[rows["checkpoint"] == checkpoint]
        for method in METHODS:
            curve(panel, own[own["method"] == method], method_style(method))
        layer_axis(panel, own)
    linear_axis(list(panels.values()), rows, 0, 90, 15)
    figure.supylabel("mean angle to the native readout, degrees", fontsize=8)
    legend(figure, METHODS, 4 if len(panels) > 1 else 2)
    return figure


def words(estimates: pd.DataFrame, titles: Mapping[str, str] | None = None) -> dict[str, str]:
    """What the caption says of the layers."""
    rows = _shown(estimates)
    return {"drawn": drawn(rows, titles), "exact": EXACT if shows_last(rows) else ""}


def _shown(estimates: pd.DataFrame) -> pd.DataFrame:
    return by_layer(estimates, "angle", METHODS)
