"""Estimates of the ``steering`` experiment: Reach, Side and Clean. LexFrame section 4.4, table 5.

- ``reach``: share of the tested predictions that turn within the longest move;
- ``side``: mean over those that turn of their side effect in nats, every other token weighing the same;
  ``side_weighted``: by the model's probabilities. A mean over layers is one over all predictions that turn at layers
  1 .. L-1: a layer at which few do says little;
- ``clean``: share of **all** tested predictions that turn with a side effect below 0.1 nats;
- ``lsmr_error`` (relative) and ``lsmr_cosine``: how far the basis directions of 30 LSMR steps are from the regularised
  solution, on the few documents in which that was worked out.

Every pair of methods is contrasted on the same resamples.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pandas as pd

from lensproof.statistics.means import means
from lensproof.statistics.sample import Sample
from lensproof.statistics.table import Row, contrasted, finish, of_all, row

LIMIT = 0.1
"""Nats. A side effect below it is clean."""
CHECKS = {"lsmr_error": "ratio", "lsmr_cosine": "cosine"}
"""Measure and column -> unit."""


def estimate(observations: pd.DataFrame, *, resamples: int, level: float, seed: int) -> pd.DataFrame:
    """Estimates with bootstrap intervals over documents, for one checkpoint.

    Args:
        observations: trials of ``steering``.
        resamples: bootstrap resamples.
        level: of the intervals, 0.95 for 95%.
        seed: of the resamples.

    Returns:
        One row per estimate (``workflow/schemas/estimates.schema.yaml``). ``n`` counts tested predictions, for
        ``side`` those that turn.

    Raises:
        LensproofError: a column or all but one document is missing, or a side effect is not finite.
    """
    needs = ("position", "reached", "side", "side_weighted", "depth", "checked", *CHECKS)
    settings = {"resamples": resamples, "level": level, "seed": seed}
    sample = Sample.of(observations, **settings, needs=needs)
    depth = sample.depth
    tables = [finish(sample, "steering", _rows(sample, observations, depth))]
    checked = observations[observations["checked"]]
    if checked["document"].nunique() > 1:
        few = Sample.of(checked, **settings)
        rows = [contrasted(few, name, unit, means(few, checked, name), depth=depth) for name, unit in CHECKS.items()]
        tables.append(finish(few, "steering", itertools.chain.from_iterable(rows)))
    return pd.concat(tables, ignore_index=True)


def _rows(sample: Sample, observations: pd.DataFrame, depth: int) -> Iterator[Row]:
    reached = observations["reached"]
    tested = observations.assign(reach=reached, clean=reached & (observations["side"] < LIMIT))
    for measure in ("reach", "clean"):
        yield from contrasted(sample, measure, "share", means(sample, tested, measure), depth=depth)
    if reached.any():
        for measure in ("side", "side_weighted"):
            yield from _over_turned(sample, observations[reached], measure, depth)


def _over_turned(sample: Sample, turned: pd.DataFrame, measure: str, depth: int) -> Iterator[Row]:
    """Means over predictions that turn: by layer, and over those of all layers 1 .. L-1 together."""
    common = {"measure": measure, "unit": "nats"}
    for method, values in means(sample, turned, measure).items():
        for s, layer in enumerate(values.layers):
            yield row(sample, method, values.draws[:, s], **common, layer=layer, n=values.n[s])
    middle = turned[(turned["layer"] > 0) & (turned["layer"] < depth)]
    layers, pooled = sorted(set(middle["layer"])), {}
    if layers:
        pooled = means(sample, middle.assign(layer=0), measure)  # as if of one layer
    common |= of_all(layers)
    for method, values in pooled.items():
        yield row(sample, method, values.mean(), **common, n=values.n[0])
    for reference, method in itertools.combinations(pooled, 2):
        one, other = pooled[method], pooled[reference]
        where = {**common, "n": min(*one.n, *other.n), "reference": reference, "contrast": "difference"}
        yield row(sample, method, one.mean() - other.mean(), **where)
