"""Estimates of the ``sensitivity`` experiment: each open point decided otherwise, beside what was chosen.

A row without ``setting`` is the chosen way; with one it is that variant; and with ``contrast`` their difference, on the
same resamples. All are means over the observed layers among 1 to L-1, or numbers of all layers together. Besides the
variants that were observed (:mod:`lensproof.experiments.sensitivity`), choices of statistics are made otherwise here:

- ``first_position_in_readings``: position 0 left out of the KL; ``first_position_in_directions``: counted among the
  states whose directions are compared, as often as it would be drawn;
- ``layers_0_and_L``: both ends in the mean of the KL, weighing as one layer each among L + 1;
- ``ece_10_bins``, ``ece_20_bins``, ``ece_equal_mass``: 15 bins of equal width otherwise;
- ``exit_halves``: the other half of the documents sets the threshold of the exit;
- ``resample_sequences``: the bootstrap draws sequences, not documents.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from lensproof.errors import LensproofError
from lensproof.statistics import exits
from lensproof.statistics.bootstrap import cluster_sums, recentred
from lensproof.statistics.calibration import BINS, error_draws
from lensproof.statistics.correlations import correlations, pearson, spearman
from lensproof.statistics.means import means
from lensproof.statistics.methods import MODEL
from lensproof.statistics.sample import ByLayer, Cells, Sample
from lensproof.statistics.table import Row, behind, between, finish, of_mean, row

CHOSEN = "chosen"
NEEDS = (
    "variant", "sequence", "position", "label", "kl", "agrees", "confidence", "correct", "cosine", "success", "reached",
    "clean", "effect", "score", "distance",
)  # fmt: skip
ORDER1 = "lexframe_1"
READINGS = ("lexframe_0", ORDER1)

LARGE = 0.1
"""As a share of the chosen way's value: a difference of as much whose interval leaves out 0 is called large."""

Statistic = Callable[[Sample, pd.DataFrame], Mapping[str, ByLayer]]


def _of(column: str) -> Statistic:
    return lambda sample, trials: means(sample, trials, column)


def _cosines(sample: Sample, trials: pd.DataFrame) -> dict[str, ByLayer]:
    return means(sample, trials[trials["position"] > 0], "cosine")


def _attributions(sample: Sample, trials: pd.DataFrame) -> dict[str, ByLayer]:
    return correlations(sample, trials, "score", "effect", pearson)


def _distances(sample: Sample, trials: pd.DataFrame) -> dict[str, ByLayer]:
    return correlations(sample, trials, "distance", "effect", spearman)


class Kind(NamedTuple):
    """One kind of trials, told from the others by its factors: a value that is missing among them is refused."""

    methods: tuple[str, ...]
    labelled: bool
    """Whether each is of one label."""

    def of(self, observations: pd.DataFrame) -> pd.DataFrame:
        """Its trials."""
        return observations[
            observations["method"].isin(self.methods) & (observations["label"].notna() == self.labelled)
        ]


READ, COMPARED = Kind(READINGS, False), Kind(("logit_lens", ORDER1), True)
MOVED, FLIPPED = Kind(("lexframe_1_basis",), True), Kind(("lexframe_1_basis",), False)
CREDITED = Kind(("lexframe_1_difference",), False)
EXCHANGED = Kind(("principal_subspace", "geodesic", "mahalanobis"), False)

OBSERVED: tuple[tuple[str, str, Kind, Statistic], ...] = (
    ("kl", "nats", READ, _of("kl")),
    ("cosine", "cosine", COMPARED, _cosines),
    ("success", "share", MOVED, _of("success")),
    ("reach", "share", FLIPPED, _of("reached")),
    ("clean", "share", FLIPPED, _of("clean")),
    ("pearson", "correlation", CREDITED, _attributions),
    ("spearman", "correlation", EXCHANGED, _distances),
)
"""Measure, unit, the kind of its trials, and how one way's trials make numbers by method."""


class Number(NamedTuple):
    """One number of one method, decided one way: draws (resamples + 1,) and what the row says of them."""

    draws: np.ndarray
    about: Row


Numbers = dict[tuple[str, str, str], dict[str, Number]]
"""(measure, unit, method) -> variant -> number, the chosen way first."""


def estimate(observations: pd.DataFrame, *, resamples: int, level: float, seed: int) -> pd.DataFrame:
    """Estimates with bootstrap intervals over documents, for one checkpoint.

    Args:
        observations: trials of ``sensitivity``.
        resamples: bootstrap resamples.
        level: of the intervals, 0.95 for 95%.
        seed: of the resamples.

    Returns:
        One row per estimate (``workflow/schemas/estimates.schema.yaml``), ``setting`` null or the variant.

    Raises:
        LensproofError: a column, a trial, the chosen way or all but one document is missing, or a value is not finite.
    """
    sample = Sample.of(observations, resamples=resamples, level=level, seed=seed, needs=NEEDS)
    chosen = observations[observations["variant"] == CHOSEN]
    model = chosen[chosen["method"] == MODEL]
    if model.empty:
        raise LensproofError(f"{sample.checkpoint}: the observations hold nothing of the model itself")
    found: Numbers = {}
    for measure, unit, kind, statistic in OBSERVED:
        for variant, part in _variants(kind.of(observations)):
            _put(found, measure, unit, variant, statistic(sample, part))
    readings, last = READ.of(chosen), int(model["position"].max())
    order1 = readings[readings["method"] == ORDER1]
    _put_readings(found, sample, readings, depth=int(model["layer"].max()))
    _put_calibration(found, sample, order1[order1["position"] < last])  # no token follows the last
    _put_directions(found, sample, COMPARED.of(chosen), length=1 + last)
    settings = {"resamples": resamples, "level": level, "seed": seed}
    exit_rows = _exit_rows(pd.concat([order1, model]), **settings)
    table = finish(sample, "sensitivity", itertools.chain(_rows(sample, found), exit_rows))
    return pd.concat([table, _by_sequence(order1, **settings)], ignore_index=True)


def large(difference: Mapping[str, Any], chosen: float) -> bool:
    """Whether a difference (a row with ``point``, ``lo``, ``hi``) is large beside the chosen way's value."""
    away = difference["lo"] > 0 or difference["hi"] < 0
    return bool(away and abs(difference["point"]) >= LARGE * abs(chosen))


def _variants(observations: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Each way and its trials, the chosen one first."""
    names = sorted(set(observations["variant"]), key=lambda name: (name != CHOSEN, name))
    yield from ((name, observations[observations["variant"] == name]) for name in names)


def _put(found: Numbers, measure: str, unit: str, variant: str, values: Mapping[str, ByLayer]) -> None:
    """Add layer means by method."""
    for method, by_layer in values.items():
        middle = between(by_layer, None)
        if middle.layers:
            found.setdefault((measure, unit, method), {})[variant] = Number(middle.mean(), of_mean(middle))


def _put_readings(found: Numbers, sample: Sample, read: pd.DataFrame, depth: int) -> None:
    """The KL without position 0, and with layers 0 and L."""
    _put(found, "kl", "nats", "first_position_in_readings", means(sample, read[read["position"] > 0], "kl"))
    for method, values in means(sample, read, "kl").items():
        if 0 in values.layers:
            middle = between(values, None)
            # At L there is nothing to read: every KL is 0.
            draws = ((depth - 1) * middle.mean() + values.at([0]).mean()) / (depth + 1)
            about = {**of_mean(middle), **behind((0, *middle.layers, depth))}
            found["kl", "nats", method]["layers_0_and_L"] = Number(draws, about)


def _put_calibration(found: Numbers, sample: Sample, judged: pd.DataFrame) -> None:
    """The calibration error with other bins."""
    confidence = sample.values(judged, "confidence")
    edges = np.quantile(confidence, np.linspace(0, 1, BINS + 1)[1:-1])
    bins = {CHOSEN: _equal_width(confidence, BINS)}
    bins |= {f"ece_{count}_bins": _equal_width(confidence, count) for count in (10, 20)}
    bins |= {"ece_equal_mass": np.searchsorted(edges, confidence, side="left")}
    for variant, index in bins.items():
        _put(found, "ece", "share", variant, _errors(sample, judged, index))


def _equal_width(confidence: np.ndarray, count: int) -> np.ndarray:
    return np.clip(np.ceil(confidence * count).astype(np.int64) - 1, 0, count - 1)


def _errors(sample: Sample, judged: pd.DataFrame, index: np.ndarray) -> dict[str, ByLayer]:
    """Calibration errors, recentred, with trials in the given bins (trials,)."""
    cells, bins = Cells.of(sample, judged), int(index.max()) + 1
    gap = sample.values(judged, "confidence") - sample.values(judged, "correct")
    gaps = cluster_sums(gap, cells.index * bins + index, (*cells.counts.shape, bins))
    return cells.split(recentred(error_draws(sample.weights, gaps, cells.counts), 0, 1))


def _put_directions(found: Numbers, sample: Sample, compared: pd.DataFrame, length: int) -> None:
    """Cosines with position 0 among the ``length`` positions that states are drawn from."""
    first = means(sample, compared[compared["position"] == 0], "cosine")
    for method, values in _cosines(sample, compared).items():
        own, other = between(values, None), between(first[method], None)
        draws = (own.mean() * (length - 1) + other.mean()) / length
        found["cosine", "cosine", method]["first_position_in_directions"] = Number(draws, of_mean(own))


def _exit_rows(read: pd.DataFrame, **settings: Any) -> Iterator[Row]:
    """Layers skipped by the threshold exit of order 1, with either half of the documents to set the threshold."""
    number = np.unique(read["document"], return_inverse=True)[1]
    for variant, document in {None: number, "exit_halves": number ^ 1}.items():
        table = exits.estimate(read.assign(document=document), **settings)
        skipped = table[(table["measure"] == "skipped") & table["contrast"].isna()]
        yield {**skipped.iloc[0].to_dict(), "setting": variant}


def _by_sequence(read: pd.DataFrame, **settings: Any) -> pd.DataFrame:
    """The KL of order 1 when sequences are drawn, not documents."""
    read = read.assign(document=read["sequence"])
    sample = Sample.of(read, **settings)
    middle = between(means(sample, read, "kl")[ORDER1], None)
    where = {**of_mean(middle), "measure": "kl", "unit": "nats", "setting": "resample_sequences"}
    return finish(sample, "sensitivity", [row(sample, ORDER1, middle.mean(), **where)])


def _rows(sample: Sample, found: Numbers) -> Iterator[Row]:
    for (measure, unit, method), ways in found.items():
        for variant, number in ways.items():
            setting = None if variant == CHOSEN else variant
            common = {"measure": measure, "unit": unit, "setting": setting, **number.about}
            yield row(sample, method, number.draws, **common)
            if setting is not None:
                gap = number.draws - ways[CHOSEN].draws
                yield row(sample, method, gap, **common, reference=method, contrast="difference")
