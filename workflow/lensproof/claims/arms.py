"""When a contrast of two arms means anything (Gathered section 4 of the method).

In the method's order: two arms at ceiling leave no difficulty to compare, an arm at its own chance has not done its
task, and arms of unequal accuracy are confounded with difficulty. The first of these that finds something decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lensproof.claims.catalogue import VISIBILITY, Level
from lensproof.claims.evidence import Estimate, Evidence, Missing, Quantity, number

Pair = tuple[str, str]
"""Two arms, of which the second is subtracted."""
ORDER = ("arms", "ceiling", "chance", "confounded")
"""Guards of a contrast; the first says that accuracies are missing."""
BY_CONSTRUCTION = "planted"
"""The level at which answers are right by construction, so that a ceiling is reported and decides nothing."""
ROUNDING = 1e-9
"""Shares of instances that differ by the limit may do so by a bit more in floating point."""


@dataclass(frozen=True)
class Checked:
    """A guard, and whether it passes."""

    guard: str
    asks: str
    found: str
    passes: bool


def of_contrast(evidence: Evidence, arms: Pair, records: str, level: Level) -> Iterator[Checked]:
    """The guards of one contrast on a record set, in order."""
    try:
        accuracies = [accuracy(evidence, arm, records) for arm in arms]
        limits = evidence.published["setup"]["guards"]
        yield _ceiling(arms, accuracies, limits["ceiling"], records, level)
        yield from (above_chance(evidence, arm, records) for arm in arms)
        yield _gap(arms, accuracies, limits["accuracy_gap"], records)
    except Missing as missing:
        yield Checked(ORDER[0], f"accuracies of {' and '.join(arms)}", str(missing), False)


def accuracy(evidence: Evidence, arm: str, records: str) -> Estimate:
    """Forced-choice accuracy of an arm."""
    return evidence.find(Quantity(measure="accuracy", method=arm, setting=records, experiment=VISIBILITY))


def _ceiling(arms: Pair, accuracies: list[Estimate], ceiling: float, records: str, level: Level) -> Checked:
    passes = min(estimate.point for estimate in accuracies) <= ceiling
    found = _both(arms, accuracies)
    if not passes and level == BY_CONSTRUCTION:
        passes, found = True, f"{found}: at ceiling by construction, which does not decide at this level"
    return Checked("ceiling", f"{_named(arms, records)} not both at ceiling, above {ceiling:g}", found, passes)


def above_chance(evidence: Evidence, arm: str, records: str) -> Checked:
    """Whether an arm is above its own chance: the lower end of its accuracy's interval. The published rule, which goes
    by the point, is reported beside it.

    Raises:
        Missing: the set, or the arm, was not estimated.
    """
    own = accuracy(evidence, arm, records)
    chance = evidence.find(Quantity(measure="chance", method=arm, setting=records, experiment=VISIBILITY)).point
    by_point = "passes" if own.point > chance else "does not pass"
    found = f"accuracy {own.words()}, chance {number(chance)}; by the published rule, its point alone, it {by_point}"
    return Checked("chance", f"{_named([arm], records)} above its own chance", found, own.lo > chance)


def _gap(arms: Pair, accuracies: list[Estimate], limit: float, records: str) -> Checked:
    gap = accuracies[0].point - accuracies[1].point
    asks = f"{_named(arms, records)} within {limit:g} of one another in accuracy, or difficulty confounds them"
    return Checked("confounded", asks, f"gap {number(gap)}: {_both(arms, accuracies)}", abs(gap) <= limit + ROUNDING)


def _named(arms: Sequence[str], records: str) -> str:
    return f"{' and '.join(arms)} ({records.replace('_', ' ')})"


def _both(arms: Pair, accuracies: list[Estimate]) -> str:
    return ", ".join(f"{arm} {number(estimate.point)}" for arm, estimate in zip(arms, accuracies, strict=True))
