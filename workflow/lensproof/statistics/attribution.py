"""Estimates of the ``attribution`` experiment: how closely each attribution follows the measured ablation.

Pearson's correlation of score and effect over states, by layer and as the mean over layers, for blocks, attention
writes and MLP writes, with every pair of methods contrasted on the same resamples. ``mlp_minus_attention`` is what such
a contrast is larger by for MLP writes. Source: LexFrame section 4.4, table 6.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

import pandas as pd

from lensproof.statistics.correlations import correlations
from lensproof.statistics.sample import ByLayer, Sample
from lensproof.statistics.table import Row, contrasted, finish, of_mean, row

COMPONENTS = ("layer", "attention", "mlp")
MEASURE = {"measure": "pearson", "unit": "correlation"}


def estimate(observations: pd.DataFrame, *, resamples: int, level: float, seed: int) -> pd.DataFrame:
    """Estimates with bootstrap intervals over documents, for one checkpoint.

    Args:
        observations: trials of ``attribution``.
        resamples: bootstrap resamples.
        level: of the intervals, 0.95 for 95%.
        seed: of the resamples.

    Returns:
        One row per estimate (``workflow/schemas/estimates.schema.yaml``), ``setting`` the component. ``n`` counts
        states; at a layer mean the same positions stand at every layer.

    Raises:
        LensproofError: a column or all but one document is missing, or a value is not finite.
    """
    needs = ("component", "effect", "score")
    sample = Sample.of(observations, resamples=resamples, level=level, seed=seed, needs=needs)
    found = {
        component: correlations(sample, observations[observations["component"] == component], "score", "effect")
        for component in COMPONENTS
    }
    by_component = (contrasted(sample, **MEASURE, found=found[name], setting=name) for name in COMPONENTS)
    rows = itertools.chain(*by_component, _larger_for_mlp(sample, found["mlp"], found["attention"]))
    return finish(sample, "attribution", rows)


def _larger_for_mlp(sample: Sample, mlp: Mapping[str, ByLayer], attention: Mapping[str, ByLayer]) -> Iterator[Row]:
    """The contrast of every two methods for MLP writes less the same for attention writes, in layer means."""
    gaps = {method: mlp[method].mean() - attention[method].mean() for method in mlp}
    for reference, method in itertools.combinations(gaps, 2):
        where = {**of_mean(mlp[method]), "setting": "mlp_minus_attention", "reference": reference}
        yield row(sample, method, gaps[method] - gaps[reference], **MEASURE, **where, contrast="difference")
