"""LexFrame's Figure 5: share of a readout's energy inside principal subspaces, by layer, one panel per checkpoint."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from lensproof.figures.panels import by_layer, curve, grid, layer_axis, legend
from lensproof.figures.style import method_style

SUBSPACES, REFERENCES = ("local_subspace", "global_subspace"), ("leading_over_width", "random_direction")
MARKERS = ("o", "s")
CAPTION = (
    "How much of a native readout b lies where the states of its layer vary most, on {checkpoints}: the share of "
    "|b|² inside the span of the first principal directions of the nearest states (local: dark, solid, round marks) "
    "and of all states (global: yellow, dashed, square marks). Dotted: what random directions have inside the same "
    "subspaces; pale and wide: what they have on average, the subspaces' share of all dimensions. Lines are means "
    "over states and labels, bands {level} percentile bootstrap intervals over {documents} ({resamples} resamples)."
)


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
        for method in REFERENCES:
            curve(panel, own[own["method"] == method], method_style(method))
        for method, marker in zip(SUBSPACES, MARKERS, strict=True):
            curve(panel, own[own["method"] == method], method_style(method), marker=marker, markersize=3)
        layer_axis(panel, int(own["layer"].max()), "layer (0 the embedding)")
        panel.set_ylim(0, 1.05 * rows["hi"].max())
        panel.yaxis.set_major_locator(MaxNLocator(6))
        panel.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    figure.supylabel("share of |b|\N{SUPERSCRIPT TWO} inside the subspace", fontsize=8)
    legend(figure, [*SUBSPACES, *REFERENCES[::-1]], 4)
    return figure
