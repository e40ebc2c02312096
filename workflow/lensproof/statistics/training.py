"""Estimates of the ``training`` experiment: readings along a training series (LexFrame appendix B, figure 6)."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from lensproof.errors import LensproofError
from lensproof.statistics.means import means
from lensproof.statistics.sample import ByLayer, Sample
from lensproof.statistics.table import Row, contrasted, finish, of_mean, row

CHANGE = "trained_minus_initial"


def estimate(observations: pd.DataFrame, *, resamples: int, level: float, seed: int) -> pd.DataFrame:
    """KL and Top-1 at every checkpoint of a series, and how they change from its first to its last.

    Args:
        observations: trials of all checkpoints of one series, in the order of training.
        resamples: bootstrap resamples over documents, the same for every checkpoint.
        level: of the intervals, 0.95 for 95%.
        seed: of the resamples.

    Returns:
        Rows of the series' last checkpoint; ``setting`` is the checkpoint that was read, in the order of training, or
        ``trained_minus_initial``.

    Raises:
        LensproofError: there is only one checkpoint.
    """
    series = list(dict.fromkeys(observations["checkpoint"].astype(str)))
    if len(series) < 2:
        raise LensproofError(f"a training series has two checkpoints or more, not only {series[0]}")
    whole = observations.assign(setting=observations["checkpoint"].astype(str), checkpoint=series[-1])
    sample = Sample.of(whole, resamples=resamples, level=level, seed=seed, needs=("kl", "agrees"))
    return finish(sample, "training", _rows(sample, whole, series))


def _rows(sample: Sample, observations: pd.DataFrame, series: list[str]) -> Iterator[Row]:
    for measure, column, unit in (("kl", "kl", "nats"), ("top1", "agrees", "share")):
        found = {
            name: means(sample, observations[observations["setting"] == name], column) for name in series
        }  # fmt: skip
        for name, values in found.items():
            depth = max(values["logit_lens"].layers)
            yield from contrasted(sample, measure, unit, values, depth=depth, setting=name)
        yield from _change(sample, measure, unit, found[series[0]], found[series[-1]])


def _change(
    sample: Sample, measure: str, unit: str, first: dict[str, ByLayer], last: dict[str, ByLayer]
) -> Iterator[Row]:
    """Layer mean at the end of training less that at its start."""
    for method in last:
        if method not in first:
            continue
        depth = max(first["logit_lens"].layers)
        middle = [layer for layer in last[method].layers if layer in first[method].layers and 0 < layer < depth]
        if middle:
            ends = last[method].at(middle), first[method].at(middle)
            change = ends[0].mean() - ends[1].mean()
            yield row(sample, method, change, measure=measure, unit=unit, setting=CHANGE, **of_mean(ends[0]))
