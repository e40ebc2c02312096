"""LexFrame's Figure 5: share of a readout's energy inside principal subspaces, by layer, one panel per checkpoint."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from lensproof.figures.panels import by_layer, curve, grid, layer_axis, legend
from lensproof.figures.style import method_style

SUBSPACES, REFERENCES = ("local_subspace", "global_subspace"), ("random_direction", "leading_over_width")


def draw(estimates: pd.DataFrame, titles: Mapping[str, str] | None = None) -> Figure:
    """Draw the figure inside :func:`lensproof.figures.style.styled`.

    Args:
        estimates: of ``subspaces``, one or more checkpoints.
        titles: checkpoint -> name to show.

    Raises:
        LensproofError: there are no energies by layer in the estimates.
    """
    inside = by_layer(estimates, "energy", SUBSPACES)
    rows = pd.concat([inside, by_layer(estimates, "energy", REFERENCES)])
    figure, panels = grid(inside, titles)
    for checkpoint, panel in panels.items():
        own = rows[rows["checkpoint"] == checkpoint]
        for method in SUBSPACES:
            curve(panel, own[own["method"] == method], method_style(method), marker="o", markersize=2.5)
        for method in REFERENCES:
            curve(panel, own[own["method"] == method], method_style(method))
        layer_axis(panel, int(own["layer"].max()), "layer (0 the embedding)")
        panel.set_ylim(0, 1.05 * rows["hi"].max())
        panel.yaxis.set_major_locator(MaxNLocator(6))
        panel.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    figure.supylabel("share of |b|\N{SUPERSCRIPT TWO} inside the subspace", fontsize=8)
    legend(figure, [*SUBSPACES, *REFERENCES], 4)
    return figure
