"""LexFrame's Figure 5: share of a readout's energy inside principal subspaces, by layer, one panel per checkpoint."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from lensproof.figures.captions import drawn, told
from lensproof.figures.names import method_title
from lensproof.figures.panels import by_layer, curve, grid, layer_axis, legend
from lensproof.figures.style import method_style

SUBSPACES, REFERENCES = ("local_subspace", "global_subspace"), ("leading_over_width", "random_direction")
LOOKS = {
    "local_subspace": {"marker": "o", "markersize": 3},
    "global_subspace": {"marker": "s", "markersize": 3},
    "random_direction": {"marker": "x", "markersize": 4, "linestyle": ""},
    "leading_over_width": {"linewidth": 1.0},
}
"""What stands besides each one's colour and dashes; the references lie upon one another, so one is marks only."""
CAPTION = (
    "How much of a native readout b lies where the states of its layer vary most, on {checkpoints}: the share of ‖b‖² "
    "inside the span of the first principal directions of the nearest states (local: dark, solid, round marks) and of "
    "all states (global: yellow, dashed, square marks). Crosses: what random directions have inside the same "
    "subspaces, {random} of them per layer, half in either kind; thin line: what they have on average, the subspaces' "
    "share of all dimensions. Lines are means over states and labels, bands {level} percentile bootstrap intervals "
    "over {documents} ({resamples} resamples). Layers drawn: {drawn}."
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
        for method, look in LOOKS.items():
            curve(panel, own[own["method"] == method], method_style(method), **look)
        layer_axis(panel, own)
        panel.set_ylim(0, 1.05 * rows["hi"].max())
        panel.yaxis.set_major_locator(MaxNLocator(6))
        panel.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    figure.supylabel("share of ‖b‖² inside the subspace", fontsize=8)
    lines = {method_title(method): {**method_style(method), **look} for method, look in LOOKS.items()}
    legend(figure, [], 4 if len(panels) > 1 else 2, **lines)
    return figure


def words(estimates: pd.DataFrame, titles: Mapping[str, str] | None = None) -> dict[str, str]:
    """What the caption says of the layers and of the random directions."""
    random = by_layer(estimates, "energy", [REFERENCES[1]])
    numbers = {name: f"{own['n'].max():,}" for name, own in random.groupby("checkpoint", sort=False, observed=True)}
    return {"drawn": drawn(random, titles), "random": told(numbers, titles or {})}
