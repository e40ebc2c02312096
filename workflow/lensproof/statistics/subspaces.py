"""Estimates of the ``subspaces`` experiment: share of a readout's energy inside principal subspaces of the states.

Means over states and labels, by layer and as the mean over layers, beside those of random directions in the same
subspaces. Source: LexFrame section 4.2, figure 5.
"""

from __future__ import annotations

import pandas as pd

from lensproof.statistics.means import means
from lensproof.statistics.sample import Sample
from lensproof.statistics.table import contrasted, finish


def estimate(observations: pd.DataFrame, *, resamples: int, level: float, seed: int) -> pd.DataFrame:
    """Estimates with bootstrap intervals over documents, for one checkpoint.

    Args:
        observations: trials of ``subspaces``.
        resamples: bootstrap resamples.
        level: of the intervals, 0.95 for 95%.
        seed: of the resamples.

    Returns:
        One row per estimate (``workflow/schemas/estimates.schema.yaml``). ``n`` counts directions: a state and a label,
        for random directions in both of the subspaces.

    Raises:
        LensproofError: a column or all but one document is missing, or a value is not finite.
    """
    sample = Sample.of(observations, resamples=resamples, level=level, seed=seed, needs=("energy",))
    rows = contrasted(sample, "energy", "share", means(sample, observations, "energy"))
    return finish(sample, "subspaces", rows)
