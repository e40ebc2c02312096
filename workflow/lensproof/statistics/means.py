"""Means over trials by method and layer."""

from __future__ import annotations

import numpy as np
import pandas as pd

from lensproof.statistics.bootstrap import cluster_sums, mean_draws
from lensproof.statistics.methods import in_order
from lensproof.statistics.sample import ByLayer, Cells, Sample


def means(sample: Sample, observations: pd.DataFrame, column: str, weight: str | None = None) -> dict[str, ByLayer]:
    """Draws of the mean of a column over trials, documents counting by their trials.

    Args:
        sample: the documents and resamples, made from all observations of the experiment.
        observations: those to average; a part of the sample's.
        column: numbers, or booleans for a share.
        weight: column of non-negative weights of the trials; without it, all weigh the same.

    Returns:
        Method -> its mean at each layer at which it has trials, methods in the tables' order. Not a number in
        resamples that draw no document with a trial there.

    Raises:
        LensproofError: a value is missing or not finite.
    """
    cells = Cells.of(sample, observations)
    values, masses = sample.values(observations, column), cells.counts
    if weight is not None:
        weights = sample.values(observations, weight)
        values, masses = values * weights, cluster_sums(weights, cells.index, cells.counts.shape)
    with np.errstate(invalid="ignore"):  # 0 / 0
        draws = mean_draws(sample.weights, cluster_sums(values, cells.index, cells.counts.shape), masses)
    return cells.split(draws)


def medians(sample: Sample, observations: pd.DataFrame, column: str) -> dict[str, np.ndarray]:
    """Draws (resamples + 1,) of the median of a column over each method's trials, which count as often as their
    documents are drawn.

    Raises:
        LensproofError: a value is missing or not finite.
    """
    methods = in_order(observations["method"].astype(str))
    return {name: _median(sample, observations[observations["method"] == name], column) for name in methods}


def _median(sample: Sample, trials: pd.DataFrame, column: str) -> np.ndarray:
    values = sample.values(trials, column)
    order = values.argsort()
    reached = sample.weights[:, sample.document(trials)[order]].cumsum(axis=1)
    half = reached[:, -1:] / 2
    # The middle value, or the mean of the two in the middle.
    low, high = (reached >= half).argmax(axis=1), (reached > half).argmax(axis=1)
    middle = values[order]
    return np.where(reached[:, -1] > 0, (middle[low] + middle[high]) / 2, np.nan)
