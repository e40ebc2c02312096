"""How often each arm of the benchmark is answered rightly: forced choice, the whole vocabulary, and chance.

One number for each record, whatever the layer. Source: Gathered section 2 of the method (forced choice) and section 4
(guards).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd

from lensproof.statistics.means import means
from lensproof.statistics.sample import Sample
from lensproof.statistics.table import Row, row

Draws = Mapping[str, np.ndarray]
"""Arm -> draws (resamples + 1,)."""
MEASURES = {
    "accuracy": ("correct", "share"),
    "open_accuracy": ("open_correct", "share"),
    "choice_margin": ("choice_margin", "nats"),
    "chance": ("chance", "share"),
}
"""Measure -> column and unit; ``open_accuracy`` is that of the whole vocabulary's first token."""
NEEDS = ("correct", "open_correct", "choice_margin", "choices")
ALL_ARMS, SECOND = "all_arms", "second_highest_arm"
LENGTH = "_length"


def answers(sample: Sample, rows: pd.DataFrame) -> dict[str, Draws]:
    """Every measure of one record set, arm by arm; ``rows`` may hold a record at several layers."""
    one = rows[rows["layer"] == rows["layer"].min()].assign(chance=lambda table: 1 / table["choices"])
    return {
        measure: {arm: values.mean() for arm, values in means(sample, one, column).items()}
        for measure, (column, _) in MEASURES.items()
    }


def of_set(sample: Sample, found: Mapping[str, Draws], about: Row) -> Iterator[Row]:
    """Rows of a set's answers: every arm, and every arm less every other.

    Besides, accuracy less chance and less that of the whole vocabulary, also as a mean over arms; and the second
    highest accuracy, for where it is at ceiling two arms are.
    """
    for measure, (_, unit) in MEASURES.items():
        yield from plain_and_pairs(sample, measure, found[measure], {**about, "unit": unit})
    share = {**about, "measure": "accuracy", "unit": "share"}
    accuracy = _with_mean(found["accuracy"])
    yield row(sample, ALL_ARMS, accuracy[ALL_ARMS], **share)
    for measure, reference in (("chance", "chance"), ("open_accuracy", "open_vocabulary")):
        for arm, draws in _with_mean(found[measure]).items():
            yield row(sample, arm, accuracy[arm] - draws, reference=reference, contrast="difference", **share)
    if len(found["accuracy"]) > 1:
        yield row(sample, SECOND, np.sort(list(found["accuracy"].values()), axis=0)[-2], **share)


def _with_mean(found: Draws) -> dict[str, np.ndarray]:
    return {**found, ALL_ARMS: np.mean(list(found.values()), axis=0)}


def of_length(sample: Sample, accuracy: Mapping[str, Draws], family: str, n: int) -> Iterator[Row]:
    """What the wording of matched length does to accuracy.

    Args:
        sample: of the family.
        accuracy: record set -> accuracy.
        family: whose set of matched length is compared with its own.
        n: instances.
    """
    if {family, family + LENGTH} <= set(accuracy):
        about = {"measure": "accuracy", "unit": "share", "summary": "all_layers", "n": n}
        setting = f"{family + LENGTH}_minus_{family}"
        yield from gained(sample, accuracy[family + LENGTH], accuracy[family], {**about, "setting": setting})


def plain_and_pairs(sample: Sample, measure: str, found: Draws, about: Row) -> Iterator[Row]:
    """Every arm, and every arm less every other."""
    for arm, draws in found.items():
        yield row(sample, arm, draws, measure=measure, **about)
    for arm, reference in itertools.permutations(found, 2):
        gap = found[arm] - found[reference]
        yield row(sample, arm, gap, measure=measure, reference=reference, contrast="difference", **about)


def gained(sample: Sample, one: Draws, other: Draws, about: Row) -> Iterator[Row]:
    """What one set has more than another, for each arm that both have."""
    for arm in one:
        if arm in other:
            yield row(sample, arm, one[arm] - other[arm], **about)
