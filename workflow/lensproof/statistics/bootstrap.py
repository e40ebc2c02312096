"""Percentile bootstrap that resamples whole clusters.

A *cluster* is a document: its positions are not independent, so a resample takes all of them or none. Every
statistic here is a function of sums over clusters, and a resample only changes how often each cluster counts.
All resamples are therefore one matrix product, and every statistic computed from the same weights is paired.

*Draws* are arrays whose first axis has ``resamples + 1`` entries: entry 0 is the sample itself, the others are
the resamples. Arithmetic on draws (a difference, a mean over layers) gives the draws of the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Interval(NamedTuple):
    """Point estimates with the ends of their intervals; arrays of one shape."""

    point: np.ndarray
    lo: np.ndarray
    hi: np.ndarray


def resampling_weights(clusters: int, resamples: int, seed: int | Sequence[int]) -> np.ndarray:
    """How often each cluster counts: once in row 0, and as drawn with replacement in the other rows.

    Args:
        clusters: number of clusters, at least 2.
        resamples: number of resamples.
        seed: of the generator, a number or several; the same seed gives the same resamples, hence paired statistics.

    Returns:
        Array (resamples + 1, clusters).

    Raises:
        ValueError: fewer than two clusters say nothing about how clusters vary.
    """
    if clusters < 2:
        raise ValueError(f"a bootstrap over clusters needs at least 2 of them, not {clusters}")
    generator = np.random.default_rng(seed)
    drawn = generator.multinomial(clusters, np.full(clusters, 1 / clusters), size=resamples)
    return np.vstack([np.ones(clusters), drawn])


def cluster_sums(values: np.ndarray, cell: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Sum ``values`` within cells.

    Args:
        values: (trials,), summed in float64.
        cell: (trials,) index into the flattened ``shape``.
        shape: clusters first, then any factors (method, layer, bin).

    Returns:
        Array of ``shape``.
    """
    return np.bincount(cell, weights=values, minlength=int(np.prod(shape))).reshape(shape)


def weighted_sums(weights: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """Draws of a sum: (draws, clusters) and (clusters, ...) give (draws, ...)."""
    return (weights @ sums.reshape(len(sums), -1)).reshape(len(weights), *sums.shape[1:])


def mean_draws(weights: np.ndarray, sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Draws of a mean over trials (clusters count by their size); ``sums`` and ``counts`` are (clusters, ...)."""
    return weighted_sums(weights, sums) / weighted_sums(weights, counts)


def recentred(draws: np.ndarray, low: float, high: float) -> np.ndarray:
    """Draws of a statistic that resampling itself pushes to one side, moved back by as much.

    A sum of absolute values, or the length of a mean, grows when trials are drawn twice: its resamples lie above the
    sample's own value, at times all of them, and neither a percentile interval nor a bias-corrected or a pivotal one
    then holds that value. Here the resamples are moved by the bootstrap's estimate of that bias, the mean resample less
    the sample's value, so that their mean is that value. What is left says how much the statistic scatters among
    samples of this size. The statistic's own bias, which is about as large, stays in point and interval alike: compare
    it with what is biased alike, not with zero. Differences and means of such draws are differences and means of the
    moved ones. Source: B. Efron and R. Tibshirani, An Introduction to the Bootstrap (1993), chapter 10.

    Args:
        draws: (resamples + 1, ...).
        low: of the statistic's range, which no draw leaves.
        high: likewise.
    """
    centred = draws[1:] - (draws[1:].mean(axis=0) - draws[0])
    return np.concatenate([draws[:1], centred.clip(low, high)])


def summarise(draws: np.ndarray, level: float) -> Interval:
    """Point and percentile interval of draws (resamples + 1, ...).

    An interval is not a number where any of its resamples is not defined: leaving those out would narrow it.
    """
    tails = [(1 - level) / 2, (1 + level) / 2]
    lo, hi = np.quantile(draws[1:], tails, axis=0)
    return Interval(draws[0], lo, hi)
