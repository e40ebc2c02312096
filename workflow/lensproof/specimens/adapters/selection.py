"""Which checkpoint of a training is kept, when training ends, and how often each arm is drawn. Nothing runs a model.

Two arms at ceiling cannot be compared: both are right whatever the state says. So the first checkpoint is kept whose
flexible arm, and as far as possible whose other arms, are answered well and not perfectly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

FLOOR, CEILING = 0.90, 0.985
"""Validation accuracies between which an arm should be, both included."""
FIRST, OTHERS = "flexible", ("report", "control", "supplied")
WEIGHTS = {"automatic": 1, "report": 2, "flexible": 6, "control": 2, "supplied": 2}
"""How likely an arm is drawn, to begin with. The flexible one comes about twice as often as another; the automatic one,
whose loss stays large because text can go on in many ways, seldom, or its gradient would drown the others'."""
KNOWN = 1
"""How likely an arm is drawn that the last validation found over the ceiling: it must not be forgotten."""
EVERY, OFTEN, NEAR = 30, 10, 0.75
"""Steps between validations, and between those after one in which the flexible arm reached ``NEAR``."""
PATIENCE = 20
"""Steps after the kept checkpoint without a better one, at which training ends."""


class Validation(NamedTuple):
    """Accuracy of each arm after so many steps."""

    step: int
    accuracy: Mapping[str, float]


def gap(accuracy: float) -> float:
    """How far an accuracy is from the band between floor and ceiling."""
    return max(FLOOR - accuracy, accuracy - CEILING, 0.0)


def kept(curve: Sequence[Validation]) -> int | None:
    """Index of the checkpoint to keep, if there is one so far; step 0 is the model without an adapter.

    The flexible arm comes first: it must reach the floor, and be as little over the ceiling as can be had. Then as few
    of the others as possible are below the floor, since an arm near chance makes every contrast with it untestable;
    then as few as possible are outside of the band, by as little as possible; then the earliest is taken.
    """
    candidates = [index for index, found in enumerate(curve) if found.step and found.accuracy[FIRST] >= FLOOR]
    return min(candidates, key=lambda index: _misfit(curve[index].accuracy), default=None)


def _misfit(accuracy: Mapping[str, float]) -> tuple[float, int, int, float]:
    gaps = [gap(accuracy[arm]) for arm in OTHERS]
    return gap(accuracy[FIRST]), _unlearnt(accuracy), sum(part > 0 for part in gaps), sum(gaps)


def _unlearnt(accuracy: Mapping[str, float]) -> int:
    """How many of the other arms are below the floor."""
    return sum(accuracy[arm] < FLOOR for arm in OTHERS)


def finished(curve: Sequence[Validation]) -> bool:
    """Whether training can end: every arm is learnt, and nothing better can come, or has come for long."""
    best = kept(curve)
    if best is None or _unlearnt(curve[best].accuracy):
        return False
    ideal = not any(_misfit(curve[best].accuracy))
    return ideal or curve[-1].step - curve[best].step >= PATIENCE


def due(curve: Sequence[Validation], step: int, steps: int) -> bool:
    """Whether to validate after ``step`` of ``steps`` steps; oftener when the flexible arm is about to arrive."""
    near = bool(curve) and curve[-1].accuracy[FIRST] >= NEAR
    return step == steps or step % (OFTEN if near else EVERY) == 0


def weights(curve: Sequence[Validation]) -> dict[str, int]:
    """How likely each arm is drawn: seldom where the last validation found it over the ceiling."""
    accuracy = curve[-1].accuracy if curve else {}
    return {arm: weight if accuracy.get(arm, 0) <= CEILING else KNOWN for arm, weight in WEIGHTS.items()}
