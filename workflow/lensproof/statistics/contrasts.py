"""Comparisons of two statistics on the same resamples. Inputs are draws (see ``bootstrap``)."""

from __future__ import annotations

import numpy as np

SMALLEST_DENOMINATOR = 1e-3
"""A ratio over less than this says nothing: it is reported as not defined, its numerator beside it."""


def ratio(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """``numerator / denominator``, not a number where the denominator is below 1e-3 in absolute value."""
    numerator, denominator = np.broadcast_arrays(numerator, denominator)
    defined = np.abs(denominator) >= SMALLEST_DENOMINATOR
    return np.divide(numerator, denominator, out=np.full(denominator.shape, np.nan), where=defined)


def relative_drop(value: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """By what share ``value`` is below ``reference``: 1 - value / reference, where that is defined."""
    return ratio(reference - value, reference)


def share_lower(values: np.ndarray, references: np.ndarray) -> np.ndarray:
    """Share of layers at which ``values`` is below ``references``; both (draws, layers), result (draws,)."""
    return (values < references).mean(axis=1)
