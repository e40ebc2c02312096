"""Estimates of the ``readings`` experiment: how close each reading is to the model's own output.

By layer and as the mean over layers 1..L-1, each layer weighing the same, with every pair of methods contrasted
on the same resamples. Source: LexFrame section 4.1, table 1 and figure 4.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from lensproof.errors import LensproofError
from lensproof.statistics.bootstrap import Interval, cluster_sums, mean_draws, resampling_weights, summarise
from lensproof.statistics.calibration import error_draws, gap_sums
from lensproof.statistics.contrasts import relative_drop, share_lower
from lensproof.statistics.methods import MODEL, in_order

UNITS = {"kl": "nats", "top1": "share", "ece": "share", "accuracy": "share"}
"""Measures: KL(model || reading), agreement with the model's top token, calibration error and accuracy against
the true next token."""

EXACT = 1e-6
"""Nats. A reading this close is the model's own output up to rounding, so no other can be closer."""

OBSERVED = (
    "checkpoint", "document", "sequence", "position", "layer", "method", "kl", "agrees", "confidence", "correct"
)  # fmt: skip
COLUMNS = (
    "checkpoint", "experiment", "measure", "method", "reference", "contrast", "layer", "summary", "layers",
    "point", "lo", "hi", "numerator", "n", "clusters", "resamples", "level", "seed", "unit",
)  # fmt: skip


class Trials(NamedTuple):
    """What all estimates need of the observations: sums over the trials of each document.

    D documents, M methods, S layers read.
    """

    methods: list[str]
    layers: list[int]
    depth: int
    counts: np.ndarray  # (D,) positions
    judged: np.ndarray  # (D,) positions whose next token is known
    sums: dict[str, np.ndarray]  # kl, top1, accuracy: (D, M, S)
    gaps: np.ndarray  # (D, M, S, 15)
    model_sums: np.ndarray  # (D,) correct next tokens of the model itself
    model_gaps: np.ndarray  # (D, 15)


def estimate_readings(observations: pd.DataFrame, *, resamples: int, level: float, seed: int) -> pd.DataFrame:
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
    checkpoint = _checked(observations)
    trials = _trials(observations)
    weights = resampling_weights(len(trials.counts), resamples, seed)
    draws = _draws(weights, trials)
    table = pd.DataFrame(_rows(trials, draws, level))
    table = table.assign(
        checkpoint=checkpoint, experiment="readings", clusters=len(trials.counts), resamples=resamples, level=level,
        seed=seed,
    )  # fmt: skip
    return table[list(COLUMNS)].astype({"layer": "Int16", "layers": "int16", "reference": "str", "contrast": "str"})


def _checked(observations: pd.DataFrame) -> str:
    missing = [column for column in OBSERVED if column not in observations.columns]
    if missing:
        raise LensproofError(f"the observations lack {', '.join(missing)}: build them again with this version")
    checkpoints = sorted(set(observations["checkpoint"]))
    if len(checkpoints) != 1:
        raise LensproofError(
            f"observations of one checkpoint are needed, not of {len(checkpoints)} ({', '.join(checkpoints)})"
        )
    for column in ("kl", "confidence"):
        broken = ~np.isfinite(observations[column].to_numpy(dtype=np.float64))
        if broken.any():
            first = observations[broken].iloc[0]
            raise LensproofError(
                f"{checkpoints[0]}: {column} is not finite in {broken.sum()} trials, first {first['method']} at layer "
                f"{first['layer']}: the reading overflowed; read with precision float32"
            )
    return str(checkpoints[0])


def _trials(observations: pd.DataFrame) -> Trials:
    names = observations["method"].astype(str)
    model = (names == MODEL).to_numpy()
    methods = in_order(names[~model])
    documents, document = np.unique(observations["document"], return_inverse=True)
    if not model.any() or not methods:
        raise LensproofError("the observations need trials of the model itself and of at least one reading")
    if len(documents) < 2:
        raise LensproofError("observations of at least 2 documents are needed: raise readings.sequences in the config")
    values = _values(observations)
    known = values.pop("known")

    layers, layer = np.unique(observations["layer"], return_inverse=True)
    method = pd.Index(methods).get_indexer(names)
    shape = (len(documents), len(methods), len(layers))
    cell = np.ravel_multi_index((document, np.where(model, 0, method), layer), shape)
    read = np.isin(np.arange(len(layers)), layer[~model])  # the model's own layer L may not have been read

    def sums(name: str, rows: np.ndarray) -> np.ndarray:
        return cluster_sums(values[name][rows], cell[rows], shape)[:, :, read]

    def of_model(name: str, rows: np.ndarray) -> np.ndarray:
        return cluster_sums(values[name][rows], document[rows], shape[:1])

    reading, own = ~model & known, model & known
    confidence, accuracy = values["confidence"], values["accuracy"]
    trials = Trials(
        methods=methods,
        layers=[int(layer) for layer in layers[read]],
        depth=int(observations["layer"][model].max()),
        counts=of_model("one", model),
        judged=of_model("one", own),
        sums={measure: sums(measure, ~model) for measure in ("kl", "top1", "accuracy")},
        gaps=gap_sums(confidence[reading], accuracy[reading], cell[reading], shape)[:, :, read],
        model_sums=of_model("accuracy", own),
        model_gaps=gap_sums(confidence[own], accuracy[own], document[own], shape[:1]),
    )
    _whole(observations[model], trials, sums("one", ~model))
    return trials


def _values(observations: pd.DataFrame) -> dict[str, np.ndarray]:
    correct = observations["correct"].astype("boolean")
    return {
        "one": np.ones(len(observations)),
        "kl": observations["kl"].to_numpy(dtype=np.float64),
        "top1": observations["agrees"].to_numpy(dtype=np.float64),
        "confidence": observations["confidence"].to_numpy(dtype=np.float64),
        "accuracy": correct.to_numpy(dtype=np.float64, na_value=0.0),
        "known": correct.notna().to_numpy(),
    }


def _whole(own: pd.DataFrame, trials: Trials, counts: np.ndarray) -> None:
    """Paired contrasts need every position read once by every method at every layer.

    Args:
        own: the model's own trials, one per position.
        counts: (D, M, S) trials of the readings.
    """
    if own[["document", "sequence", "position"]].duplicated().any():
        raise LensproofError("the observations hold a position twice: give each shard once")
    wrong = counts != trials.counts[:, None, None]
    if wrong.any():
        _, method, layer = np.argwhere(wrong)[0]
        raise LensproofError(
            f"the observations are not whole: {trials.methods[method]} at layer {trials.layers[layer]} has not exactly "
            "one trial per position; remove the observations and build them again"
        )


def _draws(weights: np.ndarray, trials: Trials) -> dict[str, np.ndarray]:
    """Draws of each measure, (draws, M, S); under ``model_ece`` and ``model_accuracy`` the model's own, (draws,)."""
    known = np.broadcast_to(trials.judged[:, None, None], trials.sums["kl"].shape)
    counts = np.broadcast_to(trials.counts[:, None, None], known.shape)
    return {
        "kl": mean_draws(weights, trials.sums["kl"], counts),
        "top1": mean_draws(weights, trials.sums["top1"], counts),
        "ece": error_draws(weights, trials.gaps, known),
        "accuracy": mean_draws(weights, trials.sums["accuracy"], known),
        "model_ece": error_draws(weights, trials.model_gaps, trials.judged),
        "model_accuracy": mean_draws(weights, trials.model_sums, trials.judged),
    }


def _rows(trials: Trials, draws: dict[str, np.ndarray], level: float) -> Iterator[dict[str, Any]]:
    positions, judged = int(trials.counts.sum()), int(trials.judged.sum())
    n = {"kl": positions, "top1": positions, "ece": judged, "accuracy": judged}
    middle = [index for index, layer in enumerate(trials.layers) if 0 < layer < trials.depth]
    if not middle:
        raise LensproofError("no layer between the embedding and the last was read: widen readings.layers")
    for measure in UNITS:
        for row in itertools.chain(
            _by_layer(measure, trials, draws, level),
            _layer_means(measure, trials, draws[measure][:, :, middle], draws, level),
            _embedding(measure, trials, draws[measure], middle, level),
        ):
            yield {"measure": measure, "n": n[measure], "unit": UNITS[measure], **row}


def _row(method: str, interval: Interval, **more: Any) -> dict[str, Any]:
    point, lo, hi = (float(value) for value in interval)
    empty = {"reference": None, "contrast": None, "layer": None, "summary": "layer", "layers": 1, "numerator": np.nan}
    return {**empty, "method": method, "point": point, "lo": lo, "hi": hi, **more}


def _by_layer(measure: str, trials: Trials, draws: dict[str, np.ndarray], level: float) -> Iterator[dict[str, Any]]:
    intervals = summarise(draws[measure], level)
    for m, method in enumerate(trials.methods):
        for s, layer in enumerate(trials.layers):
            yield _row(method, Interval(*(values[m, s] for values in intervals)), layer=layer)
    if f"model_{measure}" in draws:
        yield _row(MODEL, summarise(draws[f"model_{measure}"], level), layer=trials.depth)


def _layer_means(
    measure: str, trials: Trials, middle: np.ndarray, draws: dict[str, np.ndarray], level: float
) -> Iterator[dict[str, Any]]:
    """Layer means, and the contrasts of every pair: the later in the table's order less the earlier.

    Args:
        middle: draws (draws, M, layers of the mean).
    """
    summary = {"summary": "layer_mean", "layers": middle.shape[2]}
    means = dict(zip(trials.methods, middle.mean(axis=2).T, strict=True))
    for method, values in means.items():
        yield _row(method, summarise(values, level), **summary)
        if f"model_{measure}" in draws:
            gap = values - draws[f"model_{measure}"]
            yield _row(method, summarise(gap, level), reference=MODEL, contrast="difference", **summary)
    for (i, reference), (j, method) in itertools.combinations(enumerate(trials.methods), 2):
        pair = {"reference": reference, **summary}
        difference = summarise(means[method] - means[reference], level)
        yield _row(method, difference, contrast="difference", **pair)
        if measure == "kl":
            drop = summarise(relative_drop(means[method], means[reference]), level)
            yield _row(method, drop, contrast="relative_drop", **pair, unit="share", numerator=-difference.point)
            yield from _share_lower(method, middle[:, j], middle[:, i], level, pair)


def _share_lower(
    method: str, values: np.ndarray, references: np.ndarray, level: float, pair: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """Share of middle layers at which the method's KL is lower; layers where the reference is exact do not count."""
    open_layers = references[0] > EXACT
    if open_layers.any():
        share = summarise(share_lower(values[:, open_layers], references[:, open_layers]), level)
        layers = int(open_layers.sum())
        yield _row(method, share, contrast="share_lower", **{**pair, "layers": layers}, unit="share of layers")


def _embedding(
    measure: str, trials: Trials, draws: np.ndarray, middle: list[int], level: float
) -> Iterator[dict[str, Any]]:
    """The layer mean less the value at the embedding."""
    if 0 not in trials.layers:
        return
    gap = summarise(draws[:, :, middle].mean(axis=2) - draws[:, :, trials.layers.index(0)], level)
    for m, method in enumerate(trials.methods):
        interval = Interval(*(values[m] for values in gap))
        yield _row(method, interval, contrast="layer_mean_minus_layer", layer=0, layers=len(middle))
