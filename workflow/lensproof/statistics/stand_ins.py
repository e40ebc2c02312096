"""Estimates of the ``stand_ins`` experiment: order 1 on what stands in for attention in order 0.

KL of the reading, cosine of the readouts with the native ones and correlation of block attribution with the ablation,
by layer and as layer means, every two stand-ins contrasted; and the KL of mean and regression calibrated on each text,
with the range over the texts as a share of their mean. Source: LexFrame appendix B, table 8.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pandas as pd

from lensproof.statistics.contrasts import ratio
from lensproof.statistics.correlations import correlations
from lensproof.statistics.means import means
from lensproof.statistics.sample import Sample
from lensproof.statistics.table import Row, contrasted, finish, of_mean, row

REGRESSION = "mean_and_regression"
NEEDS = ("calibration", "position", "label", "kl", "cosine", "effect", "score")


def estimate(observations: pd.DataFrame, *, resamples: int, level: float, seed: int) -> pd.DataFrame:
    """Estimates with bootstrap intervals over documents, for one checkpoint.

    Args:
        observations: trials of ``stand_ins``.
        resamples: bootstrap resamples.
        level: of the intervals, 0.95 for 95%.
        seed: of the resamples.

    Returns:
        One row per estimate (``workflow/schemas/estimates.schema.yaml``), ``setting`` null or ``calibration_<text>``.
        ``n`` counts positions, states times labels, or states.

    Raises:
        LensproofError: a column or all but one document is missing, or a value is not finite.
    """
    sample = Sample.of(observations, resamples=resamples, level=level, seed=seed, needs=NEEDS)
    labelled = observations["label"].notna()  # directions have a label, readings have none
    readings, own = observations[~labelled], observations["calibration"] == 1
    read, compared = observations[~labelled & own], observations[labelled & own]
    credited = read[read["position"] > 0]
    rows = itertools.chain(
        contrasted(sample, "kl", "nats", means(sample, read, "kl")),
        contrasted(sample, "cosine", "cosine", means(sample, compared, "cosine")),
        contrasted(sample, "attribution", "correlation", correlations(sample, credited, "score", "effect")),
        _by_text(sample, readings[readings["method"] == REGRESSION]),
    )
    return finish(sample, "stand_ins", rows)


def _by_text(sample: Sample, read: pd.DataFrame) -> Iterator[Row]:
    """KL by calibration text, and (largest - smallest) / mean of the texts' layer means."""
    found = []
    for text, part in read.groupby("calibration"):
        by_method = means(sample, part, "kl")
        yield from contrasted(sample, "kl", "nats", by_method, setting=f"calibration_{text}")
        found.append(by_method[REGRESSION])
    draws = np.stack([values.mean() for values in found])
    extent = draws.max(axis=0) - draws.min(axis=0)
    where = {**of_mean(found[0]), "unit": "share", "contrast": "relative_range", "numerator": float(extent[0])}
    yield row(sample, REGRESSION, ratio(extent, draws.mean(axis=0)), measure="kl", **where)
