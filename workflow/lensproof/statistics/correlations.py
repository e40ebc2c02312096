"""Pearson's and Spearman's correlation over trials, by method and layer, when whole documents are resampled."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from lensproof.statistics.bootstrap import cluster_sums, weighted_sums
from lensproof.statistics.sample import ByLayer, Cells, Sample

CONSTANT = 1e-12
"""A variance below this share of the second moment is rounding: the variable does not vary."""
BLOCK = 2**16
"""Numbers in one temporary array of the ranks: they stay in the cache."""

Correlation = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def pearson(x: np.ndarray, y: np.ndarray, document: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Draws of Pearson's r.

    All resamples at once: r is a function of sums of 1, x, y, x², y² and xy over documents.

    Args:
        x: (trials,) finite.
        y: (trials,) finite.
        document: (trials,) number of each trial's document.
        weights: (draws, documents) how often each document counts.

    Returns:
        Array (draws,); not a number where x or y does not vary.
    """
    x, y = _centred(x), _centred(y)
    moments = [cluster_sums(v, document, weights.shape[1:]) for v in (np.ones_like(x), x, y, x * x, y * y, x * y)]
    n, sx, sy, sxx, syy, sxy = weighted_sums(weights, np.stack(moments, axis=1)).T
    with np.errstate(invalid="ignore", divide="ignore"):  # a resample without trials
        covariance = sxy - sx * sy / n
        return _ratio(covariance, _variance(sxx, sx, n), _variance(syy, sy, n))


def spearman(x: np.ndarray, y: np.ndarray, document: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Draws of Spearman's rank correlation; arguments and result as for :func:`pearson`.

    Every resample ranks its own trials, equal values sharing the mean of their ranks. A document drawn k times
    counts as k equal trials. One sort serves all resamples: ranks are cumulative weights.
    """
    rank_x, rank_y = _Ranking(x), _Ranking(y)
    found = []
    step = max(1, BLOCK // max(1, len(document)))
    for start in range(0, len(weights), step):
        mass = weights[start : start + step, document]
        rx, ry = rank_x.centred(mass), rank_y.centred(mass)
        weighted = mass * rx
        covariance = np.einsum("rt,rt->r", weighted, ry)
        variance_x = np.einsum("rt,rt->r", weighted, rx)
        variance_y = np.einsum("rt,rt,rt->r", mass, ry, ry)
        found.append(_ratio(covariance, variance_x, variance_y))
    return np.concatenate(found)


def correlations(
    sample: Sample, observations: pd.DataFrame, x: str, y: str, correlation: Correlation = pearson
) -> dict[str, ByLayer]:
    """Draws of the correlation of two columns over the trials of each method and layer.

    Args:
        sample: the documents and resamples, made from all observations of the experiment.
        observations: those to correlate; a part of the sample's.
        x: one column.
        y: the other.
        correlation: :func:`pearson` or :func:`spearman`.

    Returns:
        Method -> its correlation at each layer at which it has trials, methods in the tables' order.

    Raises:
        LensproofError: a value is missing or not finite.
    """
    cells = Cells.of(sample, observations)
    xs, ys, document = sample.values(observations, x), sample.values(observations, y), sample.document(observations)
    cell = cells.index % np.prod(cells.counts.shape[1:])
    draws = np.full((len(sample.weights), *cells.counts.shape[1:]), np.nan)
    flat = draws.reshape(len(draws), -1)
    order = np.argsort(cell, kind="stable")
    starts = np.flatnonzero(np.diff(cell[order], prepend=-1))
    for trials in np.split(order, starts[1:]):
        flat[:, cell[trials[0]]] = correlation(xs[trials], ys[trials], document[trials], sample.weights)
    return cells.split(draws)


def _centred(values: np.ndarray) -> np.ndarray:
    """Less their mean, so that sums of squares keep their digits."""
    values = np.asarray(values, dtype=np.float64)
    return values - values.mean()


def _variance(squares: np.ndarray, total: np.ndarray, n: np.ndarray) -> np.ndarray:
    variance = squares - total**2 / n
    return np.where(variance > CONSTANT * squares, variance, 0.0)


def _ratio(covariance: np.ndarray, variance_x: np.ndarray, variance_y: np.ndarray) -> np.ndarray:
    scale = np.sqrt(variance_x) * np.sqrt(variance_y)
    r = np.divide(covariance, scale, out=np.full(scale.shape, np.nan), where=scale > 0)
    return np.clip(r, -1, 1)


class _Ranking:
    """Values sorted once; their ranks in any resample follow from how often each trial counts."""

    def __init__(self, values: np.ndarray) -> None:
        values = np.asarray(values, dtype=np.float64)
        self._order = np.argsort(values, kind="stable")
        ordered = values[self._order]
        new = np.diff(ordered, prepend=np.nan) != 0  # NaN: the first is new
        self._starts = np.flatnonzero(new)
        self._group = np.empty(len(values), dtype=np.int64)
        self._group[self._order] = np.cumsum(new) - 1

    def centred(self, mass: np.ndarray) -> np.ndarray:
        """Mean ranks less their mean, for how often each trial counts (draws, trials)."""
        groups = np.add.reduceat(mass[:, self._order], self._starts, axis=1)
        middle = np.cumsum(groups, axis=1) - groups / 2
        return (middle - mass.sum(axis=1, keepdims=True) / 2)[:, self._group]
