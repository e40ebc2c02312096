"""Estimates of the ``availability`` experiment: probe accuracy against a floor that pays for choosing the best layer.

Per split, the best layer's accuracy on held-out instances; then mean and standard deviation over splits. The floor is
the same of permuted labels: the same best-of-layers rule, averaged over arms and splits. Intervals resample splits,
which share instances, so they speak of the split alone; the standard deviation over splits (``spread``) stands
beside them. Source: Gathered section 5 of the method.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd

from lensproof.errors import LensproofError
from lensproof.statistics.contrasts import ratio
from lensproof.statistics.sample import Sample, whole
from lensproof.statistics.table import Row, finish, of_all, row

JOINT = "joint"
ALL_ARMS, LOWEST = "all_arms", "lowest_arm"
NEEDS = ("records", "split", "permuted", "trained_on", "centred", "instance", "classes", "correct")


def estimate(observations: pd.DataFrame, *, resamples: int, level: float, seed: int) -> pd.DataFrame:
    """Accuracy of joint and per-arm probes, the floor, and accuracy over floor.

    Args:
        observations: trials of one checkpoint.
        resamples: draws of splits.
        level: of the intervals, 0.95 for 95%.
        seed: of the draws.

    Returns:
        ``method`` is the arm tested, ``setting`` the record set, followed by ``:<arm>`` (and ``:centred``) where the
        probe was fitted on one arm. Measures: ``probe`` (accuracy), ``floor``, ``over_floor``, ``spread`` (of splits),
        ``above_floor_sds`` (accuracy less floor, in standard deviations over splits, pooled over arms and over true and
        permuted labels), ``evenness`` (the lowest arm's accuracy over the highest's) and ``floor_over_chance``. What is
        over or above the floor is also given for ``lowest_arm``, the least of all arms.

    Raises:
        LensproofError: a column or any trial is missing, there is one split only, or no permuted labels.
    """
    parts = []
    for name, rows in whole(observations, NEEDS).groupby("records", sort=True, observed=True):
        sample = Sample.of(rows, resamples=resamples, level=level, seed=seed)
        parts.append(finish(sample, "availability", _of_set(sample, rows, str(name))))
    return pd.concat(parts, ignore_index=True)


def _of_set(sample: Sample, rows: pd.DataFrame, name: str) -> Iterator[Row]:
    best = best_layers(rows)
    layers, n = sorted(set(rows["layer"])), rows["instance"].nunique()
    chance = (1 / rows[rows["permuted"]].groupby("split")["classes"].first()).to_numpy()
    for (trained_on, centred), own in best.groupby(["trained_on", "centred"], observed=True):
        suffix = "" if trained_on == JOINT else f":{trained_on}" + (":centred" if centred else "")
        about = {"setting": name + suffix, "n": n, "unit": "share", **of_all(layers)}
        yield from _probes(sample, own, chance, about)


def best_layers(rows: pd.DataFrame) -> pd.DataFrame:
    """Accuracy at the best layer: a row for each probe, arm, split, and true or permuted labels."""
    keys = ["trained_on", "centred", "permuted", "split", "method"]
    by_layer = rows.groupby([*keys, "layer"], observed=True)["correct"].mean()
    return by_layer.groupby(keys, observed=True).max().rename("accuracy").reset_index()


def _probes(sample: Sample, best: pd.DataFrame, chance: np.ndarray, about: Row) -> Iterator[Row]:
    accuracy = best[~best["permuted"]].pivot(index="split", columns="method", values="accuracy")
    permuted = best[best["permuted"]].pivot(index="split", columns="method", values="accuracy")
    if len(accuracy) < 2 or permuted.empty:
        raise LensproofError(f"{sample.checkpoint}: the probe needs at least two splits, each with permuted labels")
    weights = _splits(len(accuracy), sample)
    floor = weights @ permuted.mean(axis=1).to_numpy()
    yield row(sample, ALL_ARMS, floor, measure="floor", **about)
    found = {arm: weights @ values.to_numpy() for arm, values in accuracy.items()}
    spread = accuracy.std(ddof=1)
    for arm, draws in found.items():
        yield row(sample, arm, draws, measure="probe", **about)
        yield row(sample, arm, draws - floor, measure="probe", reference="floor", contrast="difference", **about)
        yield row(sample, arm, np.full(len(draws), spread[arm]), measure="spread", **about)
    pooled = float(np.sqrt(pd.concat([spread, permuted.std(ddof=1)]).pow(2).mean()))
    yield from _above_floor(sample, found, floor, pooled, about)
    over_chance = {**about, "unit": "ratio", "numerator": float(floor[0])}
    yield row(sample, ALL_ARMS, ratio(floor, weights @ chance), measure="floor_over_chance", **over_chance)


def _above_floor(
    sample: Sample, found: Mapping[str, np.ndarray], floor: np.ndarray, pooled: float, about: Row
) -> Iterator[Row]:
    """Accuracy over floor, and above it in pooled standard deviations, for each arm and the one where it is least."""
    over = {arm: ratio(draws, floor) for arm, draws in found.items()}
    above = {arm: ratio(draws - floor, np.array(pooled)) for arm, draws in found.items()}
    for arm, draws in found.items():
        share = {**about, "unit": "ratio", "numerator": float(draws[0])}
        yield row(sample, arm, over[arm], measure="over_floor", **share)
        share = {**about, "unit": "standard deviations", "numerator": float(draws[0] - floor[0])}
        yield row(sample, arm, above[arm], measure="above_floor_sds", **share)
    for measure, unit, values in (("over_floor", "ratio", over), ("above_floor_sds", "standard deviations", above)):
        yield row(sample, LOWEST, np.min(list(values.values()), axis=0), measure=measure, **{**about, "unit": unit})
    lowest, highest = (pick(list(found.values()), axis=0) for pick in (np.min, np.max))
    even = {**about, "unit": "ratio", "numerator": float(lowest[0])}
    yield row(sample, ALL_ARMS, ratio(lowest, highest), measure="evenness", **even)


def _splits(count: int, sample: Sample) -> np.ndarray:
    """(resamples + 1, count) weights of the splits, row 0 all alike: resamples draw splits."""
    generator = np.random.default_rng(sample.seed)
    drawn = generator.multinomial(count, np.full(count, 1 / count), size=sample.resamples)
    return np.vstack([np.ones(count), drawn]) / count
