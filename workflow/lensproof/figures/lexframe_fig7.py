"""LexFrame's Figure 7: cosine of each direction with the native readout by layer, one panel per checkpoint."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from lensproof.figures.captions import drawn
from lensproof.figures.panels import by_layer, curve, grid, layer_axis, legend, linear_axis
from lensproof.figures.style import method_style
from lensproof.statistics.methods import in_order

CEILING = "fixed_direction_ceiling"
FIXED = ("logit_lens", "jacobian_lens", "ridge_probe")
CAPTION = (
    "Mean cosine of each method's direction for a label with the model's native readout of it, by layer, on "
    "{checkpoints}. The dotted grey line is the ceiling of fixed directions: no direction that is the same for all "
    "states can have a higher mean cosine with many of them. The ridge probe is fitted on other documents. Order n is "
    "exact where at most n blocks are left. Lines are means over states and labels, bands {level} percentile bootstrap"
    " intervals over {documents} ({resamples} resamples). Layers drawn: {drawn}."
)


def draw(estimates: pd.DataFrame, titles: Mapping[str, str] | None = None) -> Figure:
    """Draw the figure inside :func:`lensproof.figures.style.styled`.

    Args:
        estimates: of ``directions``, one or more checkpoints.
        titles: checkpoint -> name to show.

    Raises:
        LensproofError: there are no cosines by layer in the estimates.
    """
    orders = [method for method in in_order(estimates["method"]) if method.removeprefix("lexframe_").isdigit()]
    compared = by_layer(estimates, "cosine", [*FIXED, *orders])
    ceiling = by_layer(estimates, "cosine", [CEILING])
    rows = pd.concat([compared, ceiling])
    figure, panels = grid(rows, titles)
    for checkpoint, panel in panels.items():
        own = rows[rows["checkpoint"] == checkpoint]
        for method in (*FIXED, *orders, CEILING):
            curve(panel, own[own["method"] == method], method_style(method))
        layer_axis(panel, own)
    linear_axis(list(panels.values()), rows, 0, 1, 0.2)
    figure.supylabel("mean cosine with the native readout", fontsize=8)
    legend(figure, [*FIXED, *orders, CEILING], 4 if len(panels) > 1 else 3)
    return figure


def words(estimates: pd.DataFrame, titles: Mapping[str, str] | None = None) -> dict[str, str]:
    """What the caption says of the layers."""
    return {"drawn": drawn(by_layer(estimates, "cosine", FIXED), titles)}
