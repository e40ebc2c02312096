"""Estimates of the ``directions`` experiment: how near each direction comes to the native readout.

Sources: LexFrame sections 3.2, 4.1 and 4.3, figures 1, 7 and 8, appendix B and C.

- ``cosine`` and ``angle`` (degrees): means over states and labels, by layer and as layer means;
- the ceilings that ``coherence`` measured on the same texts stand among the cosines, paired with the methods;
- ``inner_product``: Pearson's correlation of <b, x> with the centred coefficient over states and labels, method
  ``native_readout``;
- ``relaxation_share``, ``relaxation_r2``, ``angle_fit`` (:mod:`lensproof.statistics.relaxation`) and ``plateau_slope``
  (:mod:`lensproof.statistics.coherence`).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from lensproof.errors import LensproofError
from lensproof.statistics import coherence, relaxation
from lensproof.statistics.correlations import correlations
from lensproof.statistics.means import means
from lensproof.statistics.sample import Sample
from lensproof.statistics.table import Row, contrasted, finish

NATIVE = "native_readout"
NEEDED = (*coherence.NEEDED, "inner_product", "coefficient")


def estimate(observations: pd.DataFrame, *, resamples: int, level: float, seed: int) -> pd.DataFrame:
    """Estimates with bootstrap intervals over documents, for one checkpoint.

    Args:
        observations: trials of ``directions`` and of ``coherence``.
        resamples: bootstrap resamples.
        level: of the intervals, 0.95 for 95%.
        seed: of the resamples.

    Returns:
        One row per estimate (``workflow/schemas/estimates.schema.yaml``); ``n`` counts states times labels, at the
        ceilings pairs of states times labels.

    Raises:
        LensproofError: a column, a value, all trials of either experiment or all but one document is missing.
    """
    sample = Sample.of(observations, resamples=resamples, level=level, seed=seed, needs=NEEDED)
    pairs = observations["other_document"].notna()
    if not pairs.any() or pairs.all():
        raise LensproofError(f"{sample.checkpoint}: give the observations of both directions and coherence")
    return finish(sample, "directions", _rows(sample, observations[~pairs], observations[pairs], sample.depth))


def _rows(sample: Sample, trials: pd.DataFrame, pairs: pd.DataFrame, depth: int) -> Iterator[Row]:
    native = trials["method"] == NATIVE
    compared, own = trials[~native], trials[native]
    angles = means(sample, compared.assign(angle=np.degrees(np.arccos(compared["cosine"]))), "angle")
    limits = coherence.ceilings(sample, pairs)
    yield from contrasted(sample, "cosine", "cosine", {**means(sample, compared, "cosine"), **limits}, depth=depth)
    yield from contrasted(sample, "angle", "degrees", angles, depth=depth)
    products = correlations(sample, own, "inner_product", "coefficient")
    yield from contrasted(sample, "inner_product", "correlation", products, depth=depth)
    yield from coherence.plateau(sample, limits, depth)
    if relaxation.METHOD in angles:
        yield from relaxation.relaxation(sample, angles[relaxation.METHOD], depth)
