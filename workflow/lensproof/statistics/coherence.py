"""The ceiling of fixed directions: how near one direction for all states can come to their native readouts.

LexFrame section 3.2, figures 7 and 8, appendix C.2 (equation 5). For a layer and a label, from the cosines of the
native readouts of pairs of states:

- ``fixed_direction_ceiling``: the root of k, the mean cosine over pairs from different documents (0 where k is
  negative): what the mean cosine of a fixed direction with many states tends to at best. In a resample a pair counts
  as often as one of its documents times the other, so that no state is paired with itself.
- ``mean_direction``: the length of the mean unit readout of the m states at hand, the root of 1/m + (1 - 1/m) times the
  mean cosine over all their pairs: no fixed direction has a higher mean cosine with these states. A resample holds
  states more than once, which agree with themselves: what that adds is taken off
  (:func:`lensproof.statistics.bootstrap.recentred`).

Both are then averaged over labels. The *plateau* is where the paper saw the ceiling level off: its slope, by least
squares, over the layers whose share of depth is that of layers 8 to 17 of 36.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from lensproof.statistics.bootstrap import cluster_sums, mean_draws, recentred
from lensproof.statistics.sample import ByLayer, Sample
from lensproof.statistics.table import Row, behind, contrasted, finish, overall, row

CEILING, MEAN = "fixed_direction_ceiling", "mean_direction"
NEEDED = ("sequence", "position", "label", "depth", "other_document", "other_sequence", "other_position", "cosine")
PLATEAU = (8, 17, 36)
"""First and last layer of the paper's plateau, and the depth of its model."""


def estimate(observations: pd.DataFrame, *, resamples: int, level: float, seed: int) -> pd.DataFrame:
    """Both ceilings by layer and as layer means, and the plateau's slope, for one checkpoint.

    Args:
        observations: trials of ``coherence``.
        resamples: bootstrap resamples over documents.
        level: of the intervals, 0.95 for 95%.
        seed: of the resamples.

    Returns:
        One row per estimate (``workflow/schemas/estimates.schema.yaml``); ``n`` counts pairs of states times labels.

    Raises:
        LensproofError: a column, a value or all but one document is missing.
    """
    sample = Sample.of(observations, resamples=resamples, level=level, seed=seed, needs=NEEDED)
    found, depth = ceilings(sample, observations), sample.depth
    rows = [*contrasted(sample, "cosine", "cosine", found, depth=depth), *plateau(sample, found, depth)]
    return finish(sample, "coherence", rows)


def ceilings(sample: Sample, observations: pd.DataFrame) -> dict[str, ByLayer]:
    """Draws of both ceilings at each layer.

    Args:
        sample: the documents and resamples.
        observations: trials of ``coherence``.

    Raises:
        LensproofError: a value is missing or not finite.
    """
    sums = Sums.of(sample, observations)
    across = sums.first != sums.second
    weights = sample.weights[:, sums.first] * sample.weights[:, sums.second]
    with np.errstate(invalid="ignore"):  # a resample of one document has no pair of two
        coherence = mean_draws(weights[:, across], sums.cosines[across], sums.counts[across])
    square = mean_draws(weights, sums.cosines, sums.counts)
    return {
        CEILING: ByLayer(sums.layers, _mean_root(coherence), tuple(sums.trials[across].sum(axis=0))),
        MEAN: ByLayer(sums.layers, recentred(_mean_root(square), 0, 1), tuple(sums.trials.sum(axis=0))),
    }


def plateau(sample: Sample, found: Mapping[str, ByLayer], depth: int) -> Iterator[Row]:
    """Rows of ``plateau_slope`` and, by layer, of the fitted line ``plateau_fit``.

    Args:
        sample: the documents and resamples.
        found: from :func:`ceilings`.
        depth: L.

    Yields:
        Nothing where fewer than two of the plateau's layers were observed.
    """
    first, last, of = PLATEAU
    values = found[CEILING]
    layers = [layer for layer in values.layers if first * depth <= layer * of <= last * depth]
    if len(layers) < 2:
        return
    part, x = values.at(layers), np.asarray(layers) - np.mean(layers)
    slope, n = part.draws @ x / (x @ x), min(part.n)
    yield from overall(sample, "plateau_slope", "cosine per layer", {CEILING: slope}, n=n, layers=layers)
    for place, layer in zip(x, layers, strict=True):
        fitted = part.mean() + slope * place
        yield row(sample, CEILING, fitted, measure="plateau_fit", unit="cosine", layer=layer, n=n, **behind(layers))


class Sums(NamedTuple):
    """Sums over ordered pairs of states, for each of P pairs of documents, S layers and C labels."""

    first: np.ndarray
    """(P,) running number of one document."""
    second: np.ndarray
    """(P,) of the other; the same where both states are of one."""
    layers: tuple[int, ...]
    cosines: np.ndarray
    """(P, S, C)."""
    counts: np.ndarray
    """(P, S, C)."""
    trials: np.ndarray
    """(P, S) rows behind them."""

    @classmethod
    def of(cls, sample: Sample, observations: pd.DataFrame) -> Sums:
        """From trials of ``coherence``: two states stand in one row and count twice, a state with itself once."""
        one = sample.document(observations)
        other = np.searchsorted(sample.documents, observations["other_document"].to_numpy())
        documents, pair = np.unique(one * len(sample.documents) + other, return_inverse=True)
        layers, layer = np.unique(observations["layer"].to_numpy(), return_inverse=True)
        labels, label = np.unique(observations["label"].to_numpy(), return_inverse=True)
        shape = (len(documents), len(layers), len(labels))
        cell = np.ravel_multi_index((pair, layer, label), shape)
        itself = np.ones(len(observations), dtype=bool)
        for name in ("sequence", "position"):
            itself &= observations[name].to_numpy() == observations[f"other_{name}"].to_numpy()
        times = np.where(itself, 1.0, 2.0)
        cosines = cluster_sums(times * sample.values(observations, "cosine"), cell, shape)
        trials = np.bincount(cell, minlength=int(np.prod(shape))).reshape(shape).sum(axis=-1)
        first, second = np.divmod(documents, len(sample.documents))
        return cls(first, second, tuple(map(int, layers)), cosines, cluster_sums(times, cell, shape), trials)


def _mean_root(squares: np.ndarray) -> np.ndarray:
    """Mean over labels, the last axis, of the roots; of a negative number the root is taken as 0."""
    return np.sqrt(np.maximum(squares, 0)).mean(axis=-1)
