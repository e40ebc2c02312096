"""Estimates of the ``long_context`` experiment: long sequences against short ones (LexFrame appendix B, figure 9)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from lensproof.statistics.means import means
from lensproof.statistics.sample import ByLayer, Sample
from lensproof.statistics.table import Row, between, contrasted, finish, of_mean, row

BINS = 8
"""Parts of equal width that positions of a sequence are gathered in."""


def estimate(observations: pd.DataFrame, *, resamples: int, level: float, seed: int) -> pd.DataFrame:
    """KL and Top-1 for each length of sequence, as a whole and by position.

    Args:
        observations: trials of one checkpoint.
        resamples: bootstrap resamples over documents, the same for every length.
        level: of the intervals, 0.95 for 95%.
        seed: of the resamples.

    Returns:
        ``setting`` is the length (``1024``), a part of it (``1024:128-255``: positions, both ends in it; layer means
        only), ``1024_minus_128``: the longest less the shortest, or ``late_minus_early``: second half of the longest
        less its first half, layer means only.
    """
    needs = ("length", "kl", "agrees", "depth")
    sample = Sample.of(observations, resamples=resamples, level=level, seed=seed, needs=needs)
    return finish(sample, "long_context", _rows(sample, observations))


def _rows(sample: Sample, observations: pd.DataFrame) -> Iterator[Row]:
    depth = sample.depth
    for measure, column, unit in (("kl", "kl", "nats"), ("top1", "agrees", "share")):
        whole = {}
        for length, trials in observations.groupby("length"):
            whole[length] = means(sample, trials, column)
            yield from contrasted(sample, measure, unit, whole[length], depth=depth, setting=str(length))
            yield from _by_position(sample, trials, int(length), measure, column, unit, depth)
        common = {"measure": measure, "unit": unit}
        short, long = min(whole), max(whole)
        if short < long:
            yield from _gap(sample, whole[long], whole[short], depth, **common, setting=f"{long}_minus_{short}")
        trials = observations[observations["length"] == long]
        early, late = (trials[(trials["position"] >= long // 2) == half] for half in (False, True))
        ends = (means(sample, part, column) for part in (late, early))
        yield from _gap(sample, *ends, depth, **common, setting="late_minus_early")


def _gap(
    sample: Sample, more: dict[str, ByLayer], less: dict[str, ByLayer], depth: int, **common: str
) -> Iterator[Row]:
    """Layer mean of each method in one part of the trials less that in another."""
    for method in more:
        one, other = between(more[method], depth), between(less[method], depth)
        if one.layers:
            yield row(sample, method, one.mean() - other.mean(), **common, **of_mean(one))


def _by_position(
    sample: Sample, trials: pd.DataFrame, length: int, measure: str, column: str, unit: str, depth: int
) -> Iterator[Row]:
    width = max(1, length // BINS)
    for part, inside in trials.groupby(np.minimum(trials["position"] // width, BINS - 1)):
        last = length - 1 if part == BINS - 1 else (part + 1) * width - 1
        setting = f"{length}:{part * width}-{last}"
        for method, values in means(sample, inside, column).items():
            middle = between(values, depth)
            if middle.layers:
                common = {"measure": measure, "unit": unit, "setting": setting, **of_mean(middle)}
                yield row(sample, method, middle.mean(), **common)
