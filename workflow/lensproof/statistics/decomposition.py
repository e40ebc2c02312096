"""Estimates of the ``decomposition`` experiment: how near output rows times a vector come to the model's output.

KL(model || reading) and agreement with the model's top token, by layer and as the mean over layers, with every pair of
methods contrasted on the same resamples. The scales of the fixed maps were fitted once, on the whole sample, in their
favour; resamples keep them. Source: LexFrame section 4.3, table 4.
"""

from __future__ import annotations

import itertools

import pandas as pd

from lensproof.statistics.means import means
from lensproof.statistics.sample import Sample
from lensproof.statistics.table import contrasted, finish

MEASURES = {"kl": ("kl", "nats"), "top1": ("agrees", "share")}
"""Measure -> column and unit."""


def estimate(observations: pd.DataFrame, *, resamples: int, level: float, seed: int) -> pd.DataFrame:
    """Estimates with bootstrap intervals over documents, for one checkpoint.

    Args:
        observations: trials of ``decomposition``.
        resamples: bootstrap resamples.
        level: of the intervals, 0.95 for 95%.
        seed: of the resamples.

    Returns:
        One row per estimate (``workflow/schemas/estimates.schema.yaml``); ``n`` counts positions.

    Raises:
        LensproofError: a column or all but one document is missing, or a value is not finite.
    """
    needs = ("position", "kl", "agrees", "depth")
    sample = Sample.of(observations, resamples=resamples, level=level, seed=seed, needs=needs)
    rows = (
        contrasted(sample, measure, unit, means(sample, observations, column), depth=sample.depth, drop=measure == "kl")
        for measure, (column, unit) in MEASURES.items()
    )
    return finish(sample, "decomposition", itertools.chain.from_iterable(rows))
