"""Estimates of the ``subspaces`` experiment: share of a readout's energy inside principal subspaces of the states.

Means over states and labels, by layer and as the mean over layers, beside those of random directions in the same
subspaces, and what these have if they are equal in all directions: ``leading_over_width``, k / d, without an interval.
Source: LexFrame section 4.2, figure 5.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pandas as pd

from lensproof.statistics.means import means
from lensproof.statistics.sample import Sample
from lensproof.statistics.table import Row, between, contrasted, finish, of_mean, row

REFERENCE = "leading_over_width"


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
    sample = Sample.of(observations, resamples=resamples, level=level, seed=seed, needs=("energy", "dimensions"))
    rows = contrasted(sample, "energy", "share", means(sample, observations, "energy"))
    return finish(sample, "subspaces", itertools.chain(rows, _reference(sample, observations)))


def _reference(sample: Sample, observations: pd.DataFrame) -> Iterator[Row]:
    """The share of all dimensions that the subspaces have: given, not estimated."""
    common = {"measure": "energy", "unit": "share"}
    (values,) = means(sample, observations.assign(method=REFERENCE), "dimensions").values()
    known = {"lo": np.nan, "hi": np.nan}
    for s, layer in enumerate(values.layers):
        yield row(sample, REFERENCE, values.draws[:, s], **common, layer=layer, n=values.n[s]) | known
    middle = between(values, None)
    if middle.layers:
        yield row(sample, REFERENCE, middle.mean(), **common, **of_mean(middle)) | known
