"""Relaxation: how fast the angle of order 1 to the native readout shrinks with depth. LexFrame appendix B, figure 8.

An exponential A exp(-r l) is fitted to the mean angle at layer l over the layers 1 .. L-2: the embedding is left out as
in layer means, and at L-1 and L order 1 is exact by construction. Then 1 - exp(-r) is the share of the remaining angle
that is lost per layer. Chosen: least squares in degrees, so that R2 is the share of the angle's variance over layers
that the fit explains. With setting ``logarithm`` stands the line through the logarithm of the angle instead, to which
the last layers, where the angle vanishes, matter most.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.optimize import least_squares

from lensproof.statistics.sample import ByLayer, Sample
from lensproof.statistics.table import Row, behind, overall, row

ORDER = 1
METHOD = f"lexframe_{ORDER}"


def relaxation(sample: Sample, angles: ByLayer, depth: int) -> Iterator[Row]:
    """Rows of ``relaxation_share``, ``relaxation_r2`` and, by layer, of the fitted angle ``angle_fit``.

    Args:
        sample: the documents and resamples.
        angles: mean angle of order 1 by layer, in degrees.
        depth: L.

    Yields:
        Nothing where fewer than three layers can be fitted: an exponential goes through any two.
    """
    layers = [layer for layer in angles.layers if 0 < layer < depth - ORDER]
    if len(layers) < 3:
        return
    part, x = angles.at(layers), np.asarray(layers, dtype=np.float64)
    where = {"n": min(part.n), "layers": layers}
    for setting, fit, scale in ((None, exponential, _same), ("logarithm", line, _log)):
        rate, fitted = fit(x, part.draws)
        share, r2 = {METHOD: 1 - np.exp(-rate)}, {METHOD: explained(scale(part.draws), scale(fitted))}
        yield from overall(sample, "relaxation_share", "share", share, setting=setting, **where)
        yield from overall(sample, "relaxation_r2", "share", r2, setting=setting, **where)
        for s, layer in enumerate(layers):
            common = {"measure": "angle_fit", "unit": "degrees", "setting": setting, "layer": layer}
            yield row(sample, METHOD, fitted[:, s], **common, n=where["n"], **behind(layers))


def exponential(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Least squares of A exp(-r x) with y.

    Args:
        x: (S,).
        y: (draws, S).

    Returns:
        r (draws,) and the fitted y (draws, S); not a number where y is not finite.
    """
    rates, fitted = np.full(len(y), np.nan), np.full(y.shape, np.nan)
    start = np.array([y[0].max(), 1 / len(x)])
    for draw, values in enumerate(y):
        if np.isfinite(values).all():
            found = least_squares(_miss, start, _miss_slope, args=(x, values), method="lm", x_scale="jac")
            rates[draw], fitted[draw] = found.x[1], values + found.fun
    return rates, fitted


def _miss(parameters: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    height, rate = parameters
    return height * np.exp(-rate * x) - y


def _miss_slope(parameters: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    height, rate = parameters
    shape = np.exp(-rate * x)
    return np.stack([shape, -height * x * shape], axis=1)


def line(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Least squares of log A - r x with log y; arguments and result as for :func:`exponential`, y above 0."""
    log = _log(y)
    mean, centred = log.mean(axis=1), x - x.mean()
    slope = log @ centred / (centred @ centred)
    return -slope, np.exp(mean[:, None] + slope[:, None] * centred)


def explained(y: np.ndarray, fitted: np.ndarray) -> np.ndarray:
    """R2 (draws,): share of the variance of y (draws, S) over S that the fit leaves no residual of."""
    left = ((y - fitted) ** 2).sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):  # y is the same everywhere
        return 1 - left / ((y - y.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)


def _same(values: np.ndarray) -> np.ndarray:
    return values


def _log(values: np.ndarray) -> np.ndarray:
    """The logarithm, not a number where there is none."""
    return np.log(np.where(values > 0, values, np.nan))
