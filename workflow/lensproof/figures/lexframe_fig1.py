"""LexFrame's Figure 1: angle of each lens's direction to the native readout by layer, one panel per checkpoint."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MultipleLocator

from lensproof.figures.panels import by_layer, curve, grid, layer_axis, legend
from lensproof.figures.style import method_style

METHODS = ("logit_lens", "jacobian_lens", "jacobian_lens_normed", "lexframe_1")


def draw(estimates: pd.DataFrame, titles: Mapping[str, str] | None = None) -> Figure:
    """Draw the figure inside :func:`lensproof.figures.style.styled`.

    Args:
        estimates: of ``directions``, one or more checkpoints.
        titles: checkpoint -> name to show.

    Raises:
        LensproofError: there are no angles by layer in the estimates.
    """
    rows = by_layer(estimates, "angle", METHODS)
    figure, panels = grid(rows, titles)
    for checkpoint, panel in panels.items():
        own = rows[rows["checkpoint"] == checkpoint]
        for method in METHODS:
            curve(panel, own[own["method"] == method], method_style(method))
        layer_axis(panel, int(own["layer"].max()))
        panel.set_ylim(0, 95)
        panel.yaxis.set_major_locator(MultipleLocator(15))
    figure.supylabel("mean angle to the native readout, degrees", fontsize=8)
    legend(figure, METHODS, 4 if len(panels) > 1 else 2)
    return figure
