"""Estimates of the ``substitution`` experiment: what predicts the effect of putting one state in another's place.

Spearman's rank correlation of each distance with the effect, by layer, as the mean over layers, and as that mean less
the embedding's, with every pair of predictors contrasted on the same resamples. Targets' documents are resampled; a
donor counts with its target. Source: LexFrame section 4.2, table 2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pandas as pd

from lensproof.errors import LensproofError
from lensproof.statistics.correlations import correlations, spearman
from lensproof.statistics.sample import ByLayer, Cells, Sample
from lensproof.statistics.table import Row, between, contrasted, finish, less_layer

MEASURE = {"measure": "spearman", "unit": "correlation"}
EMBEDDING = 0


def estimate(observations: pd.DataFrame, *, resamples: int, level: float, seed: int) -> pd.DataFrame:
    """Estimates with bootstrap intervals over documents, for one checkpoint.

    Args:
        observations: trials of ``substitution``.
        resamples: bootstrap resamples.
        level: of the intervals, 0.95 for 95%.
        seed: of the resamples.

    Returns:
        One row per estimate (``workflow/schemas/estimates.schema.yaml``). ``n`` counts pairs; every layer has pairs of
        its own, as many as the others.

    Raises:
        LensproofError: a column, a trial or all but one document is missing, or a value is not finite.
    """
    sample = Sample.of(observations, resamples=resamples, level=level, seed=seed, needs=("distance", "effect"))
    _refuse_gaps(sample, observations)
    found = correlations(sample, observations, "distance", "effect", spearman)
    return finish(sample, "substitution", _rows(sample, found))


def _rows(sample: Sample, found: Mapping[str, ByLayer]) -> Iterator[Row]:
    yield from contrasted(sample, **MEASURE, found=found)
    for method, values in found.items():
        if EMBEDDING in values.layers and between(values, None).layers:
            yield less_layer(sample, method, values, EMBEDDING, **MEASURE)


def _refuse_gaps(sample: Sample, observations: pd.DataFrame) -> None:
    """Differences are paired only where every method has a trial of every pair."""
    counts = Cells.of(sample, observations).counts
    if (counts != counts[:, :1]).any():
        raise LensproofError(
            f"{sample.checkpoint}: the observations are not whole: not every method has every pair of states; remove "
            "them and build them again"
        )
