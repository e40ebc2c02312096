"""Estimates of the ``readings`` experiment: how close each reading is to the model's own output.

By layer and as the mean over layers 1..L-1, each layer weighing the same, with every pair of methods contrasted
on the same resamples. Source: LexFrame section 4.1, table 1 and figure 4.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

import pandas as pd

from lensproof.statistics.calibration import calibration_errors
from lensproof.statistics.contrasts import share_lower
from lensproof.statistics.means import means
from lensproof.statistics.methods import MODEL
from lensproof.statistics.sample import ByLayer, Sample
from lensproof.statistics.table import Row, between, contrasted, finish, less_layer, of_mean, row
from lensproof.statistics.trials import Trials

UNITS = {"kl": "nats", "top1": "share", "ece": "share", "accuracy": "share", "readback": "share"}
"""Measures: KL(model || reading), agreement with the model's top token, calibration error and accuracy against
the true next token, and how often the top token is the token that was read (where that was observed)."""

EXACT = 1e-6
"""Nats. A reading this close is the model's own output up to rounding, so no other can be closer."""


def estimate(observations: pd.DataFrame, *, resamples: int, level: float, seed: int) -> pd.DataFrame:
    """Estimates with bootstrap intervals over documents, for one checkpoint.

    Args:
        observations: trials of ``readings`` (``workflow/schemas/observations_readings.schema.yaml``).
        resamples: bootstrap resamples.
        level: of the intervals, 0.95 for 95%.
        seed: of the resamples.

    Returns:
        One row per estimate (``workflow/schemas/estimates.schema.yaml``). ``n`` counts positions; at a layer mean
        the same positions were read at every layer.

    Raises:
        LensproofError: the observations are not whole: a column, a trial or all but one document is missing.
    """
    sample, readings, depth = Trials.of(observations, resamples=resamples, level=level, seed=seed)
    judged = observations[observations["correct"].notna()]
    found = {
        "kl": means(sample, readings, "kl"),
        "top1": means(sample, readings, "agrees"),
        "ece": calibration_errors(sample, judged),
        "accuracy": means(sample, judged, "correct"),
    }
    if "reads_input" in observations.columns:
        found["readback"] = means(sample, observations, "reads_input")
    return finish(sample, "readings", (r for measure in found for r in _rows(sample, measure, found[measure], depth)))


def _rows(sample: Sample, measure: str, found: Mapping[str, ByLayer], depth: int) -> Iterator[Row]:
    common = {"measure": measure, "unit": UNITS[measure]}
    yield from contrasted(sample, **common, found=found, depth=depth, drop=measure == "kl")
    middle = {method: values for method, all_ in found.items() if (values := between(all_, depth)).layers}
    for method, values in middle.items():
        if MODEL in found:
            gap = values.mean() - found[MODEL].mean()
            yield row(sample, method, gap, **common, **of_mean(values), reference=MODEL, contrast="difference")
        if 0 in found[method].layers:
            yield less_layer(sample, method, found[method], 0, depth, **common)
    if measure == "kl":
        yield from _share_lower(sample, middle)


def _share_lower(sample: Sample, middle: Mapping[str, ByLayer]) -> Iterator[Row]:
    """Share of middle layers at which the later method's KL is lower; layers with an exact reference do not count."""
    for reference, method in itertools.combinations(middle, 2):
        base, value = middle[reference], middle[method]
        exact = dict(zip(base.layers, base.draws[0] <= EXACT, strict=True))
        layers = [layer for layer in value.layers if not exact.get(layer, True)]
        if layers:
            share = share_lower(value.at(layers).draws, base.at(layers).draws)
            where = {**of_mean(value.at(layers)), "unit": "share of layers", "reference": reference}
            yield row(sample, method, share, measure="kl", **where, contrast="share_lower")
