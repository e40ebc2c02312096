"""Estimates of the ``readings`` experiment: how close each reading is to the model's own output.

By layer and as the mean over layers 1..L-1, each layer weighing the same, with every pair of methods contrasted
on the same resamples. Source: LexFrame section 4.1, table 1 and figure 4.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd

from lensproof.errors import LensproofError
from lensproof.statistics.calibration import calibration_errors
from lensproof.statistics.contrasts import share_lower
from lensproof.statistics.means import means
from lensproof.statistics.methods import MODEL
from lensproof.statistics.sample import ByLayer, Cells, Sample
from lensproof.statistics.table import Row, between, contrasted, finish, of_mean, row

UNITS = {"kl": "nats", "top1": "share", "ece": "share", "accuracy": "share", "readback": "share"}
"""Measures: KL(model || reading), agreement with the model's top token, calibration error and accuracy against
the true next token, and how often the top token is the token that was read (where that was observed)."""

EXACT = 1e-6
"""Nats. A reading this close is the model's own output up to rounding, so no other can be closer."""

NEEDED = ("sequence", "position", "kl", "agrees", "confidence", "correct")


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
    sample = Sample.of(observations, resamples=resamples, level=level, seed=seed, needs=NEEDED)
    depth = whole(sample, observations)
    readings = observations[observations["method"] != MODEL]
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


def whole(sample: Sample, observations: pd.DataFrame) -> int:
    """Check that paired statistics are right: each method read every position once at each of its layers.

    Args:
        sample: the documents.
        observations: trials of ``readings``.

    Returns:
        L, the layer at which the model itself was read.

    Raises:
        LensproofError: a method, a trial or every middle layer is missing, or a trial stands twice.
    """
    model = (observations["method"] == MODEL).to_numpy()
    if not model.any() or model.all():
        raise LensproofError("the observations need trials of the model itself and of at least one reading")
    own = observations[model]
    if own[["document", "sequence", "position"]].duplicated().any():
        raise LensproofError("the observations hold a position twice: give each shard once")
    cells = Cells.of(sample, observations[~model])
    positions = np.bincount(sample.document(own), minlength=len(sample.documents))
    wrong = (cells.counts != positions[:, None, None]) & cells.counts.any(axis=0)
    if wrong.any():
        _, method, layer = np.argwhere(wrong)[0]
        raise LensproofError(
            f"the observations are not whole: {cells.methods[method]} at layer {cells.layers[layer]} has not exactly "
            "one trial per position; remove the observations and build them again"
        )
    depth = int(own["layer"].max())
    if not any(0 < layer < depth for layer in cells.layers):
        raise LensproofError("no layer between the embedding and the last was read: widen readings.layers")
    return depth


def _rows(sample: Sample, measure: str, found: Mapping[str, ByLayer], depth: int) -> Iterator[Row]:
    common = {"measure": measure, "unit": UNITS[measure]}
    yield from contrasted(sample, **common, found=found, depth=depth, drop=measure == "kl")
    middle = {method: values for method, all_ in found.items() if (values := between(all_, depth)).layers}
    for method, values in middle.items():
        if MODEL in found:
            gap = values.mean() - found[MODEL].mean()
            yield row(sample, method, gap, **common, **of_mean(values), reference=MODEL, contrast="difference")
        if 0 in found[method].layers:
            gap = values.mean() - found[method].at([0]).mean()
            where = {**of_mean(values), "summary": "layer", "layer": 0}
            yield row(sample, method, gap, **common, **where, contrast="layer_mean_minus_layer")
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
