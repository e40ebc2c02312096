"""LexFrame's Figure 4: KL of each reading by layer, one panel per checkpoint."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from lensproof.errors import LensproofError
from lensproof.figures.captions import documents, drawn, shows_last
from lensproof.figures.panels import MARK, curve, divergence_axis, grid, layer_axis, legend, scale
from lensproof.figures.style import method_style
from lensproof.statistics.methods import MODEL, in_order

TUNED = ("tuned_lens", "held_out")
"""The tuned lens on the corpus that the others are read on, from the ``translators`` experiment."""
CAPTION = (
    "How far each reading is from the model's own output, by layer, on {checkpoints}: KL(model ‖ reading) in nats. "
    "Lines are means over positions, bands {level} percentile bootstrap intervals ({resamples} resamples) over "
    "{documents}. Marks stand where a tuned lens was trained. Equal steps are equal ratios: the axis is {scale}. Order "
    "n reaches 0, the model's own reading, where at most n blocks are left; every method does at the last layer. "
    "Layers drawn: {drawn}.{ends}"
)


def draw(estimates: pd.DataFrame, titles: Mapping[str, str] | None = None) -> Figure:
    """Draw the figure inside :func:`lensproof.figures.style.styled`.

    Args:
        estimates: of ``readings``, one or more checkpoints, and of ``translators`` where there is a tuned lens; that
            was trained for some layers, which are marked.
        titles: checkpoint -> name to show.

    Raises:
        LensproofError: there is no KL by layer in the estimates.
    """
    (rows, tuned), (method, _) = _shown(estimates), TUNED
    if rows.empty:
        raise LensproofError("the estimates hold no KL by layer: give those of the readings experiment")
    figure, panels = grid(pd.concat([rows, tuned]), titles)
    for checkpoint, panel in panels.items():
        own = rows[rows["checkpoint"] == checkpoint]
        for name in in_order(own["method"]):
            curve(panel, own[own["method"] == name], method_style(name))
        marked = tuned[tuned["checkpoint"] == checkpoint]
        if not marked.empty:
            curve(panel, marked, method_style(method), **MARK)
        layer_axis(panel, own)
    divergence_axis(list(panels.values()), pd.concat([rows, tuned]))
    figure.supylabel("KL(model \N{DOUBLE VERTICAL LINE} reading), nats", fontsize=8)
    methods = in_order([*rows["method"], *tuned["method"]])
    columns = min(len(methods), 3) if len(panels) == 1 or len(methods) > 5 else 5
    legend(figure, methods, columns, marked=[method])
    return figure


def words(estimates: pd.DataFrame, titles: Mapping[str, str] | None = None) -> dict[str, str]:
    """What the caption says of the sample, the layers and the axis."""
    rows, tuned = _shown(estimates)
    ends = [*(["layer 0"] if (rows["layer"] == 0).any() else []), *(["the last layer"] if shows_last(rows) else [])]
    left = f" Of these, {' and '.join(ends)} {'are' if len(ends) > 1 else 'is'} left out of the means of Table 1."
    both = pd.concat([rows, tuned])
    sample = {"documents": documents(both, titles), "scale": scale(both)}
    return {**sample, "drawn": drawn(rows, titles), "ends": left if ends else ""}


def _shown(estimates: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The readings by layer, and those of the tuned lens."""
    by_layer = estimates[
        (estimates["measure"] == "kl") & (estimates["summary"] == "layer") & estimates["contrast"].isna()
        & (estimates["method"] != MODEL)
    ]  # fmt: skip
    method, setting = TUNED
    tuned = by_layer[(by_layer["method"] == method) & (by_layer["setting"] == setting)]
    readings = by_layer[by_layer["experiment"] == "readings"]
    return readings, tuned[tuned["checkpoint"].isin(set(readings["checkpoint"]))]
