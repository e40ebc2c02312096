"""Estimates of the ``translators`` experiment: the tuned lens and its controls, by corpus."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from lensproof.statistics.means import means
from lensproof.statistics.sample import FACTORS, Sample, whole
from lensproof.statistics.table import Row, contrasted, finish


def estimate(observations: pd.DataFrame, *, resamples: int, level: float, seed: int) -> pd.DataFrame:
    """KL and Top-1 of every translator, by layer and as layer means, with paired differences.

    Args:
        observations: trials of one checkpoint.
        resamples: bootstrap resamples over documents, drawn within each corpus.
        level: of the intervals, 0.95 for 95%.
        seed: of the resamples.

    Returns:
        ``setting`` is the corpus trained on, by its name, or ``held_out``.
    """
    tables = []
    needs = (*FACTORS, "corpus", "kl", "agrees")
    for corpus, trials in whole(observations, needs).groupby("corpus", sort=False, observed=True):
        sample = Sample.of(trials, resamples=resamples, level=level, seed=seed)
        tables.append(finish(sample, "translators", _rows(sample, trials, str(corpus))))
    return pd.concat(tables, ignore_index=True)


def _rows(sample: Sample, trials: pd.DataFrame, corpus: str) -> Iterator[Row]:
    yield from contrasted(sample, "kl", "nats", means(sample, trials, "kl"), setting=corpus, drop=True)
    yield from contrasted(sample, "top1", "share", means(sample, trials, "agrees"), setting=corpus)
