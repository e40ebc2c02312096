"""Expected calibration error: how far a reading's confidence is from how often it is right."""

from __future__ import annotations

import numpy as np
import pandas as pd

from lensproof.statistics.bootstrap import cluster_sums, recentred, weighted_sums
from lensproof.statistics.sample import ByLayer, Cells, Sample

BINS = 15


def confidence_bin(confidence: np.ndarray) -> np.ndarray:
    """Index of the equal-width bin (i/15, (i+1)/15] of each confidence in [0, 1]; 0 falls into the first."""
    return np.clip(np.ceil(np.asarray(confidence, dtype=np.float64) * BINS).astype(np.int64) - 1, 0, BINS - 1)


def gap_sums(confidence: np.ndarray, correct: np.ndarray, cell: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Sums of confidence minus correctness by cell and bin, all that a calibration error needs of the trials.

    Args:
        confidence: (trials,) probability of the top token.
        correct: (trials,) whether that token came next.
        cell: (trials,) index into the flattened ``shape``.
        shape: clusters first, then any factors.

    Returns:
        Array (*shape, 15).
    """
    gap = np.asarray(confidence, dtype=np.float64) - correct
    return cluster_sums(gap, cell * BINS + confidence_bin(confidence), (*shape, BINS))


def error_draws(weights: np.ndarray, gaps: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Draws of the calibration error.

    Sum over bins of the bin's share of trials times |mean confidence - mean correctness|, which is
    |sum of gaps| / trials. Being a sum of absolute values it is biased upwards in small samples, alike for all
    readings of the same positions: compare it with the model's own, not with zero. Resampling adds as much again:
    see :func:`lensproof.statistics.bootstrap.recentred`.

    Args:
        weights: (draws, clusters).
        gaps: (clusters, ..., 15), from :func:`gap_sums`.
        counts: (clusters, ...) trials.

    Returns:
        Array (draws, ...).
    """
    return np.abs(weighted_sums(weights, gaps)).sum(axis=-1) / weighted_sums(weights, counts)


def calibration_errors(sample: Sample, observations: pd.DataFrame) -> dict[str, ByLayer]:
    """Draws of the calibration error by method and layer, recentred.

    Args:
        sample: the documents and resamples, made from all observations of the experiment.
        observations: trials whose next token is known, with ``confidence`` and ``correct``; a part of the sample's.

    Returns:
        Method -> its error at each layer at which it has trials, methods in the tables' order.

    Raises:
        LensproofError: a value is missing or not finite.
    """
    cells = Cells.of(sample, observations)
    confidence, correct = sample.values(observations, "confidence"), sample.values(observations, "correct")
    gaps = gap_sums(confidence, correct, cells.index, cells.counts.shape)
    with np.errstate(invalid="ignore"):  # a resample without trials
        return cells.split(recentred(error_draws(sample.weights, gaps, cells.counts), 0, 1))
