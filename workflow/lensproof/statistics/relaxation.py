"""Relaxation: how fast the angle of order 1 to the native readout shrinks with depth. LexFrame appendix B, figure 8.

The mean angle a(l) at layer l is fitted by an exponential, log a(l) = a0 - r l, by least squares over the layers 1 ..
L-2: the embedding is left out as in layer means, and at L-1 and L order 1 is exact by construction. Then 1 - exp(-r) is
the share of the remaining angle that is lost per layer. Chosen: the fit and its R2 are those of the logarithm, in which
an exponential is a line and every layer weighs the same.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lensproof.statistics.sample import ByLayer, Sample
from lensproof.statistics.table import Row, overall, row

ORDER = 1
METHOD = f"lexframe_{ORDER}"


def relaxation(sample: Sample, angles: ByLayer, depth: int) -> Iterator[Row]:
    """Rows of ``relaxation_share``, ``relaxation_r2`` and, by layer, of the fitted angle ``angle_fit``.

    Args:
        sample: the documents and resamples.
        angles: mean angle of order 1 by layer, in degrees.
        depth: L.

    Yields:
        Nothing where fewer than three layers can be fitted: two points are always on a line.
    """
    layers = [layer for layer in angles.layers if 0 < layer < depth - ORDER]
    if len(layers) < 3:
        return
    part = angles.at(layers)
    share, r2, fitted = exponential(np.asarray(layers, dtype=np.float64), part.draws)
    where = {"n": min(part.n), "layers": len(layers)}
    yield from overall(sample, "relaxation_share", "share", {METHOD: share}, **where)
    yield from overall(sample, "relaxation_r2", "share", {METHOD: r2}, **where)
    for s, layer in enumerate(layers):
        yield row(sample, METHOD, fitted[:, s], measure="angle_fit", unit="degrees", layer=layer, **where)


def exponential(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Least-squares line through log y.

    Args:
        x: (S,).
        y: (draws, S) positive; a draw with another value is not defined.

    Returns:
        Share of y lost per unit of x (draws,), R2 of the logarithm (draws,), fitted y (draws, S).
    """
    log = np.log(np.where(y > 0, y, np.nan))
    mean = log.mean(axis=1, keepdims=True)
    centred = x - x.mean()
    slope = (log - mean) @ centred / (centred @ centred)
    line = mean + slope[:, None] * centred
    residual, total = ((log - part) ** 2 for part in (line, mean))
    with np.errstate(invalid="ignore", divide="ignore"):  # y is the same at every x
        r2 = 1 - residual.sum(axis=1) / total.sum(axis=1)
    return 1 - np.exp(slope), r2, np.exp(line)
