"""Estimates of the ``training`` experiment: readings along a training series (LexFrame appendix B, figure 6)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from lensproof.errors import LensproofError
from lensproof.statistics.means import means
from lensproof.statistics.sample import FACTORS, ByLayer, Sample, whole
from lensproof.statistics.table import Row, between, contrasted, finish, of_mean, row

ROLES = ("initial", "trained", "least_of_trained", "trained_minus_initial")
"""Settings that are no checkpoint's name: a series' first checkpoint, its last, the least value of those after the
first, and the last less the first. Layer means only."""


def estimate(observations: pd.DataFrame, *, resamples: int, level: float, seed: int) -> pd.DataFrame:
    """KL and Top-1 at every checkpoint of a series, and how they change from its first to its last.

    Args:
        observations: trials of all checkpoints of one series, in the order of training.
        resamples: bootstrap resamples over documents, the same for every checkpoint.
        level: of the intervals, 0.95 for 95%.
        seed: of the resamples.

    Returns:
        Rows of the series' last checkpoint; ``setting`` is the checkpoint that was read, in the order of training, or
        one of :data:`ROLES`.

    Raises:
        LensproofError: a column or any trial is missing, or there is only one checkpoint.
    """
    needs = (*FACTORS, "kl", "agrees", "depth")
    series = list(dict.fromkeys(whole(observations, needs)["checkpoint"].astype(str)))
    if len(series) < 2:
        raise LensproofError(f"a training series has two checkpoints or more, not only {series[0]}")
    as_one = observations.assign(setting=observations["checkpoint"].astype(str), checkpoint=series[-1])
    sample = Sample.of(as_one, resamples=resamples, level=level, seed=seed)
    return finish(sample, "training", _rows(sample, as_one, series))


def _rows(sample: Sample, observations: pd.DataFrame, series: list[str]) -> Iterator[Row]:
    for measure, column, unit in (("kl", "kl", "nats"), ("top1", "agrees", "share")):
        found = {
            name: means(sample, observations[observations["setting"] == name], column) for name in series
        }  # fmt: skip
        for name, values in found.items():
            yield from contrasted(sample, measure, unit, values, depth=sample.depth, setting=name)
        yield from _roles(sample, measure, unit, [found[name] for name in series])


def _roles(sample: Sample, measure: str, unit: str, found: list[dict[str, ByLayer]]) -> Iterator[Row]:
    """What a claim asks of a series without knowing its checkpoints' names."""
    for method in found[-1]:
        middles = [between(values[method], sample.depth) for values in found if method in values]
        if len(middles) < len(found) or not middles[0].layers or len({middle.layers for middle in middles}) > 1:
            continue
        first, *later = (middle.mean() for middle in middles)
        for role, draws in zip(ROLES, (first, later[-1], np.min(later, axis=0), later[-1] - first), strict=True):
            yield row(sample, method, draws, measure=measure, unit=unit, setting=role, **of_mean(middles[-1]))
