"""How the intervals of LexFrame's table 1 shrink with the number of documents.

From the observations of ``readings``: the half-width of a layer mean's percentile interval when only n documents had
been read, for n = 4, 8, 16, ... and all of them. Many random sets of n documents are bootstrapped each for itself;
their half-widths are averaged as variances are, by their root mean square. ``lo`` and ``hi`` are percentiles over these
sets, not a bootstrap interval: they say how much the half-width depends on which documents one happens to read, too
little where n is close to all, and nothing where there is only one set, at all documents.

Independent documents give half-widths in proportion to n^-0.5, once √(n / (n - 1)) has made good that a percentile
interval of a mean of n is by so much too narrow. The power is fitted with that factor; the half-widths are as a table
of n documents would show them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from lensproof.statistics.bootstrap import cluster_sums, mean_draws, resampling_weights, summarise
from lensproof.statistics.sample import Cells, Sample
from lensproof.statistics.table import Row, behind, finish, row
from lensproof.statistics.trials import Trials

MEASURES = {"kl": ("kl", "nats"), "top1": ("agrees", "share")}
"""Measure -> its column in the observations, and the unit."""
SETS = 50
"""Random sets of documents of each size."""
SMALLEST = 4
FEWEST = 3
"""Numbers of documents that a power is fitted to at least: it goes through any two."""


def estimate(observations: pd.DataFrame, *, resamples: int, level: float, seed: int) -> pd.DataFrame:
    """Half-widths by number of documents, and the power of that number that fits them, for one checkpoint.

    Args:
        observations: trials of ``readings`` (``workflow/schemas/observations_readings.schema.yaml``).
        resamples: bootstrap resamples of each set of documents.
        level: of the intervals, 0.95 for 95%.
        seed: of the sets and of the resamples.

    Returns:
        One row per estimate (``workflow/schemas/estimates.schema.yaml``). Measures: ``half_width_kl`` and
        ``half_width_top1`` with ``setting`` the number of documents; ``shrinkage_exponent_kl`` and
        ``shrinkage_exponent_top1``, where there are three numbers of documents or more.

    Raises:
        LensproofError: the observations are not whole.
    """
    trials = Trials.of(observations, resamples=resamples, level=level, seed=seed)
    rows = (r for measure in MEASURES for r in _rows(trials, measure))
    return finish(trials.sample, "intervals", rows)


def sizes(documents: int) -> list[int]:
    """Numbers of documents to look at: 4, 8, 16, ... below ``documents``, and that number itself."""
    powers = [SMALLEST * 2**k for k in range(documents.bit_length()) if SMALLEST * 2**k < documents]
    return [*powers, documents]


def half_widths(sample: Sample, sums: np.ndarray, counts: np.ndarray, size: int) -> np.ndarray:
    """Half-widths of the mean's interval in random sets of ``size`` documents.

    Args:
        sample: the documents, and how to resample them.
        sums: (D, M) sums over each document's trials.
        counts: (D, M) its trials.
        size: documents in a set, at least 2.

    Returns:
        Array (sets, M); all documents are one set, bootstrapped as in the table itself.
    """
    if size == len(sums):
        return _half_width(sample.weights, sums, counts, sample.level)[None]
    found = []
    for index in range(SETS):
        chosen = np.random.default_rng([sample.seed, size, index]).choice(len(sums), size, replace=False)
        weights = resampling_weights(size, sample.resamples, [sample.seed, size, index, 1])
        found.append(_half_width(weights, sums[chosen], counts[chosen], sample.level))
    return np.stack(found)


def root_mean_square(widths: np.ndarray) -> np.ndarray:
    """Over sets, the first axis."""
    return np.sqrt((np.asarray(widths) ** 2).mean(axis=0))


def exponent(numbers: Sequence[int], widths: np.ndarray) -> np.ndarray:
    """The power of n that fits half-widths times √(n / (n - 1)) best: least squares of the logarithms.

    Args:
        numbers: (N,) numbers of documents, at least two.
        widths: (..., N) half-widths.

    Returns:
        Array (...); not a number where a half-width is 0.
    """
    n, widths = np.asarray(numbers, dtype=np.float64), np.asarray(widths, dtype=np.float64)
    x = np.log(n) - np.log(n).mean()
    y = np.log(widths * np.sqrt(n / (n - 1)), out=np.full(widths.shape, np.nan), where=widths > 0)
    return (y @ x) / (x @ x)


def _rows(trials: Trials, measure: str) -> Iterator[Row]:
    sample, readings, depth = trials
    column, unit = MEASURES[measure]
    middle = readings[readings["layer"].between(1, depth - 1)]
    cells = Cells.of(sample, middle)
    sums = cluster_sums(sample.values(middle, column), cells.index, cells.counts.shape).sum(axis=2)
    counts = cells.counts.sum(axis=2)  # a document's positions weigh alike at each layer: so do the layers

    numbers = sizes(len(sample.documents))
    found = [half_widths(sample, sums, counts, size) for size in numbers]
    for m, method in enumerate(cells.methods):
        layers = [cells.layers[s] for s in np.flatnonzero(cells.counts[:, m].any(axis=0))]
        common = {"summary": "layer_mean", **behind(layers)}
        positions = counts[:, m].sum() / len(layers)
        for size, widths in zip(numbers, found, strict=True):
            n = round(positions * size / len(counts))
            more = {"measure": f"half_width_{measure}", "unit": unit, "setting": str(size), "n": n}
            yield row(sample, method, _over_sets(widths[:, m]), **common, **more)
        if len(numbers) >= FEWEST:
            sets = np.stack([np.broadcast_to(widths[:, m], SETS) for widths in found], axis=1)
            powers = np.append(exponent(numbers, root_mean_square(sets)), exponent(numbers, sets))
            more = {"measure": f"shrinkage_exponent_{measure}", "unit": "exponent", "n": round(positions)}
            yield row(sample, method, powers, **common, **more)


def _half_width(weights: np.ndarray, sums: np.ndarray, counts: np.ndarray, level: float) -> np.ndarray:
    _, lo, hi = summarise(mean_draws(weights, sums, counts), level)
    return (hi - lo) / 2


def _over_sets(values: np.ndarray) -> np.ndarray:
    """As draws: the mean of sets, then each set's; one set says nothing about how sets vary."""
    return np.append(root_mean_square(values), values if len(values) > 1 else np.nan)
