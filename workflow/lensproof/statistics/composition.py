"""Estimates of the ``composition`` experiment: how often a token gains most when a state moves along its direction.

The share of moves that succeed, by layer and as the mean over layers, with every pair of methods contrasted on the same
resamples. Source: LexFrame section 4.3, table 3.
"""

from __future__ import annotations

import pandas as pd

from lensproof.statistics.means import means
from lensproof.statistics.sample import Sample
from lensproof.statistics.table import contrasted, finish


def estimate(observations: pd.DataFrame, *, resamples: int, level: float, seed: int) -> pd.DataFrame:
    """Estimates with bootstrap intervals over documents, for one checkpoint.

    Args:
        observations: trials of ``composition``.
        resamples: bootstrap resamples.
        level: of the intervals, 0.95 for 95%.
        seed: of the resamples.

    Returns:
        One row per estimate (``workflow/schemas/estimates.schema.yaml``); ``n`` counts states times tokens.

    Raises:
        LensproofError: a column or all but one document is missing.
    """
    needs = ("position", "label", "success", "depth")
    sample = Sample.of(observations, resamples=resamples, level=level, seed=seed, needs=needs)
    found = means(sample, observations, "success")
    return finish(sample, "composition", contrasted(sample, "success", "share", found, depth=sample.depth))
