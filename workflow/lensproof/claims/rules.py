"""The kinds of rule that decide a claim. A rule is data; each kind knows its words and how it decides.

Rules decide on intervals, not on points: *reproduced* when the whole interval lies where the claim says,
*contradicted* when none of it does, *inconclusive* when it crosses the threshold, *not testable* when the
estimate is not there or not defined.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, model_validator

from lensproof.claims import arms
from lensproof.claims.arms import Checked, Pair
from lensproof.claims.catalogue import Level
from lensproof.claims.evidence import (
    MEASURES,
    Estimate,
    Evidence,
    Experiment,
    Measure,
    Missing,
    Quantity,
    Strict,
    number,
)
from lensproof.claims.published import values

Verdict = Literal["reproduced", "contradicted", "inconclusive", "not testable", "not run"]
WORDS = {
    "reproduced": "it holds",
    "contradicted": "it does not hold",
    "inconclusive": "the interval does not decide",
}


class PerLevel(Strict):
    """A threshold for each level of evidence."""

    smoke: float
    desk: float
    paper: float
    planted: float | None = Field(default=None, description="none: as at desk")


Threshold = float | PerLevel


def at_level(threshold: Threshold, level: Level) -> float:
    """The threshold that holds at a level."""
    if not isinstance(threshold, PerLevel):
        return threshold
    own = getattr(threshold, level)
    return threshold.desk if own is None else own


@dataclass(frozen=True)
class Part:
    """One estimate held against one threshold."""

    quantity: Quantity
    verdict: Verdict
    reason: str
    estimate: Estimate | None = None
    margin: float = math.inf
    """Distance from the nearer end of the interval to the threshold, in the estimate's unit."""
    layers: tuple[int, ...] = ()
    """Those that the estimate is made from."""
    by_layer: tuple[tuple[int, Estimate], ...] = ()
    """Of a mean over layers, the quantity at each, where that was estimated."""
    apart: str = ""
    """In words, that single layers by themselves would decide otherwise than their mean; empty where none would."""


@dataclass(frozen=True)
class Outcome:
    """What a rule says of one checkpoint, with every part that it looked at."""

    verdict: Verdict
    parts: tuple[Part, ...]

    @property
    def decisive(self) -> Part:
        """The part that the verdict hangs on: of those that share it, the one nearest to its threshold."""
        agreeing = [part for part in self.parts if part.verdict == self.verdict]
        return min(agreeing or self.parts, key=lambda part: part.margin)


Decide = Callable[[Estimate], tuple[Verdict, str, float]]
"""What an estimate says: verdict, threshold in words and margin."""


def _test(quantity: Quantity, evidence: Evidence, decide: Decide, *, each_layer: bool = True) -> Part:
    """Look an estimate up and hold it against ``decide``; ``each_layer``: the same can be asked of a single layer."""
    try:
        estimate = evidence.find(quantity)
        verdict, threshold, margin = decide(estimate)
    except Missing as missing:
        return Part(quantity, "not testable", str(missing))
    by_layer = tuple(evidence.behind(quantity).items())
    layers = tuple(evidence.layers(quantity))
    here = f" (here layer {estimate.layer})" if isinstance(quantity.layer, str) else ""
    found = f"{quantity.words()}{here} is {estimate.words()}"
    if math.isnan(estimate.point):
        return Part(quantity, "not testable", found, estimate, layers=layers, by_layer=by_layer)
    apart = _apart(verdict, [(at.point, decide(at)[0]) for _, at in by_layer]) if each_layer else ""
    reason = "; ".join(filter(None, (f"{found}; claimed: {threshold}; {WORDS[verdict]}", apart)))
    return Part(quantity, verdict, reason, estimate, margin, layers, by_layer, apart)


def _apart(verdict: Verdict, at_layers: Sequence[tuple[float, Verdict]]) -> str:
    """The range over layers where some, of whose points and verdicts, decide against the verdict on their mean."""
    against = {"reproduced": ["contradicted"], "contradicted": ["reproduced"]}
    points, verdicts = [point for point, _ in at_layers], [turn for _, turn in at_layers]
    counted = [
        f"{turn} at {verdicts.count(turn)} of {len(verdicts)}"
        for turn in against.get(verdict, ["reproduced", "contradicted"])
        if turn in verdicts
    ]
    return f"by layer {number(min(points))} to {number(max(points))}, {' and '.join(counted)}" if counted else ""


def _above(estimate: Estimate, threshold: float) -> tuple[Verdict, float]:
    """Is the whole interval at or above the threshold? With the margin."""
    margin = min(abs(estimate.lo - threshold), abs(estimate.hi - threshold))
    if estimate.lo >= threshold:
        return "reproduced", margin
    return ("contradicted", margin) if estimate.hi < threshold else ("inconclusive", margin)


def _below(estimate: Estimate, threshold: float) -> tuple[Verdict, float]:
    """Is the whole interval at or below the threshold? With the margin."""
    return _above(dataclasses.replace(estimate, lo=-estimate.hi, hi=-estimate.lo), -threshold)


def _inside(estimate: Estimate, low: float, high: float) -> tuple[Verdict, float]:
    """Is the whole interval between ``low`` and ``high``? With the margin."""
    margin = min(abs(end - side) for end in (estimate.lo, estimate.hi) for side in (low, high))
    if low <= estimate.lo and estimate.hi <= high:
        return "reproduced", margin
    outside = estimate.hi < low or estimate.lo > high
    return ("contradicted", margin) if outside else ("inconclusive", margin)


class Sign(Strict):
    """A quantity is positive, or negative."""

    kind: Literal["sign"]
    quantity: Quantity
    sign: Literal["positive", "negative"]

    def words(self, level: Level) -> str:
        return f"{self.quantity.words()} is {'above' if self.sign == 'positive' else 'below'} 0"

    def decide(self, evidence: Evidence, level: Level) -> Outcome:
        def compare(estimate: Estimate) -> tuple[Verdict, str, float]:
            margin = min(abs(estimate.lo), abs(estimate.hi))
            above, below = estimate.lo > 0, estimate.hi < 0
            holds, fails = (above, below) if self.sign == "positive" else (below, above)
            verdict = "reproduced" if holds else "contradicted" if fails else "inconclusive"
            return verdict, "above 0" if self.sign == "positive" else "below 0", margin

        return _single(_test(self.quantity, evidence, compare))


class Order(Strict):
    """A measure rises from method to method, each pair compared on the same resamples."""

    kind: Literal["order"]
    measure: Measure
    rising: list[str] = Field(min_length=2, description="methods, the lowest first")
    setting: str | None = None
    experiment: Experiment | None = None

    def words(self, level: Level) -> str:
        about = self._difference(*self.rising[:2])
        return f"{_measured(about)}: {' < '.join(self.rising)}, in every paired difference"

    def decide(self, evidence: Evidence, level: Level) -> Outcome:
        pairs = zip(self.rising, self.rising[1:], strict=False)
        signs = [Sign(kind="sign", quantity=self._difference(*pair), sign="negative") for pair in pairs]
        return _all([rule.decide(evidence, level) for rule in signs])

    def _difference(self, low: str, high: str) -> Quantity:
        return Quantity(
            measure=self.measure, method=low, reference=high, contrast="difference", setting=self.setting,
            experiment=self.experiment,
        )  # fmt: skip


class Exceeds(Strict):
    """A measure is higher for each of some methods than for each of others, compared on the same resamples."""

    kind: Literal["exceeds"]
    measure: Measure
    methods: list[str] = Field(min_length=1, description="the higher ones")
    references: list[str] = Field(min_length=1, description="the lower ones")
    settings: list[str | None] = Field(default=[None], min_length=1, description="it holds in each")
    experiment: Experiment | None = None

    def words(self, level: Level) -> str:
        settings = " and ".join(setting for setting in self.settings if setting)
        name = _measured(next(self._differences()).model_copy(update={"setting": settings or None}))
        each = "each of " if len(self.methods) > 1 else ""
        of = "each of " if len(self.references) > 1 else ""
        return f"{name}: {each}{', '.join(self.methods)} exceeds {of}{', '.join(self.references)}, paired"

    def decide(self, evidence: Evidence, level: Level) -> Outcome:
        signs = [Sign(kind="sign", quantity=quantity, sign="positive") for quantity in self._differences()]
        return _all([rule.decide(evidence, level) for rule in signs])

    def _differences(self) -> Iterator[Quantity]:
        for setting, method, reference in itertools.product(self.settings, self.methods, self.references):
            yield Quantity(
                measure=self.measure, method=method, reference=reference, contrast="difference", setting=setting,
                experiment=self.experiment,
            )  # fmt: skip


def _measured(quantity: Quantity) -> str:
    """What is compared, without the methods."""
    about = MEASURES[quantity.measure]
    setting = f" ({quantity.setting})" if quantity.setting else ""
    of = f" in {quantity.experiment}" if quantity.experiment else ""
    return f"{about.over}{about.words}{setting}{of}"


class AtLeast(Strict):
    """A quantity is at least a value."""

    kind: Literal["at_least"]
    quantity: Quantity
    value: Threshold

    def words(self, level: Level) -> str:
        return f"{self.quantity.words()} is at least {number(at_level(self.value, level))}{self.quantity.unit}"

    def decide(self, evidence: Evidence, level: Level) -> Outcome:
        def compare(estimate: Estimate) -> tuple[Verdict, str, float]:
            value = at_level(self.value, level)
            verdict, margin = _above(estimate, value)
            return verdict, f"at least {number(value)}{self.quantity.unit}", margin

        return _single(_test(self.quantity, evidence, compare))


class AtMost(Strict):
    """A quantity is at most a value."""

    kind: Literal["at_most"]
    quantity: Quantity
    value: Threshold

    def words(self, level: Level) -> str:
        return f"{self.quantity.words()} is at most {number(at_level(self.value, level))}{self.quantity.unit}"

    def decide(self, evidence: Evidence, level: Level) -> Outcome:
        def compare(estimate: Estimate) -> tuple[Verdict, str, float]:
            value = at_level(self.value, level)
            verdict, margin = _below(estimate, value)
            return verdict, f"at most {number(value)}{self.quantity.unit}", margin

        return _single(_test(self.quantity, evidence, compare))


class RatioAtLeast(AtLeast):
    """A ratio is at least a value; where its denominator is below 0.001 it is not defined and not testable."""

    kind: Literal["ratio_at_least"]

    @model_validator(mode="after")
    def _is_ratio(self) -> RatioAtLeast:
        if self.quantity.contrast != "relative_drop":
            raise ValueError("ratio_at_least needs a quantity with `contrast: relative_drop`")
        return self


class Within(Strict):
    """A quantity agrees with the paper's own value for the same checkpoint."""

    kind: Literal["within"]
    quantity: Quantity
    published: str = Field(description="dotted path of the value")
    absolute: Annotated[float, Field(ge=0)] = Field(default=0.0, description="tolerance in the quantity's unit")
    relative: Annotated[float, Field(ge=0)] = Field(default=0.0, description="tolerance as a share of the value")

    def words(self, level: Level) -> str:
        return f"{self.quantity.words()} is the published value within {_tolerance(self.absolute, self.relative)}"

    def decide(self, evidence: Evidence, level: Level) -> Outcome:
        def compare(estimate: Estimate) -> tuple[Verdict, str, float]:
            stated = values(evidence.published, self.published)
            if evidence.checkpoint not in stated:
                raise Missing(f"the paper states no value for {evidence.checkpoint}")
            value = stated[evidence.checkpoint]
            reach = self.absolute + self.relative * abs(value)
            verdict, margin = _inside(estimate, value - reach, value + reach)
            return verdict, f"{number(value)} within {number(reach)}", margin

        return _single(_test(self.quantity, evidence, compare))


class Column(Strict):
    """One column of a published table: what it measures, and how near its values must come."""

    key: str | None = Field(default=None, description="its name in the table; none: methods hold their value directly")
    measure: Measure
    setting: str | None = None
    absolute: Annotated[float, Field(ge=0)] = 0.0
    relative: Annotated[float, Field(ge=0)] = 0.0


class WithinTable(Strict):
    """Every value of a table agrees with the paper's own for the same checkpoint."""

    kind: Literal["within_table"]
    table: str = Field(description="dotted path; below it stand the methods, and below these the columns' keys")
    methods: list[str] = Field(min_length=1)
    columns: list[Column] = Field(min_length=1)

    def words(self, level: Level) -> str:
        columns = ", ".join(
            " ".join(filter(None, (MEASURES[column.measure].words, column.setting and f"({column.setting})")))
            + f" within {_tolerance(column.absolute, column.relative)}"
            for column in self.columns
        )
        return f"each published value of {self.table.partition('.')[2]}: {columns}"

    def decide(self, evidence: Evidence, level: Level) -> Outcome:
        return _all([rule.decide(evidence, level) for rule in self.rules()])

    def rules(self) -> Iterator[Within]:
        """One rule for each value."""
        for method, column in itertools.product(self.methods, self.columns):
            yield Within(
                kind="within",
                quantity=Quantity(measure=column.measure, method=method, setting=column.setting),
                published=".".join(filter(None, (self.table, method, column.key))),
                absolute=column.absolute,
                relative=column.relative,
            )


def _tolerance(absolute: float, relative: float) -> str:
    return " plus ".join(([f"{absolute:g}"] if absolute else []) + ([f"{relative:.0%} of it"] if relative else []))


class Equivalence(Strict):
    """A difference is smaller than a margin in either direction."""

    kind: Literal["equivalence"]
    quantity: Quantity
    margin: Threshold

    def words(self, level: Level) -> str:
        margin = number(at_level(self.margin, level))
        return f"{self.quantity.words()} is within {margin} of 0"

    def decide(self, evidence: Evidence, level: Level) -> Outcome:
        def compare(estimate: Estimate) -> tuple[Verdict, str, float]:
            reach = at_level(self.margin, level)
            verdict, margin = _inside(estimate, -reach, reach)
            return verdict, f"within {number(reach)} of 0", margin

        return _single(_test(self.quantity, evidence, compare))


class Beyond(Strict):
    """A quantity is farther from 0 than a margin, in either direction: what contradicts an equivalence."""

    kind: Literal["beyond"]
    quantity: Quantity
    margin: Threshold

    def words(self, level: Level) -> str:
        margin = number(at_level(self.margin, level))
        return f"{self.quantity.words()} is farther than {margin} from 0"

    def decide(self, evidence: Evidence, level: Level) -> Outcome:
        def compare(estimate: Estimate) -> tuple[Verdict, str, float]:
            reach = at_level(self.margin, level)
            inside, margin = _inside(estimate, -reach, reach)
            opposite: dict[Verdict, Verdict] = {"reproduced": "contradicted", "contradicted": "reproduced"}
            return opposite.get(inside, inside), f"farther than {number(reach)} from 0", margin

        return _single(_test(self.quantity, evidence, compare))


class Says(Strict):
    """The token of which a quantity is the probability is the one that the paper gives."""

    kind: Literal["says"]
    quantity: Quantity
    token: str = Field(min_length=1, description="without spaces around it")

    def words(self, level: Level) -> str:
        return f"{self.quantity.words()} is that of {self.token!r}"

    def decide(self, evidence: Evidence, level: Level) -> Outcome:
        def compare(estimate: Estimate) -> tuple[Verdict, str, float]:
            found = evidence.token(self.quantity)
            verdict = "reproduced" if found == self.token else "contradicted"
            return verdict, f"of {self.token!r}, here of {found!r}", math.inf

        return _single(_test(self.quantity, evidence, compare))


class Identity(Strict):
    """A quantity equals a value whatever the data; only rounding may part them, so no interval decides."""

    kind: Literal["identity"]
    quantity: Quantity
    value: float
    tolerance: Threshold

    def words(self, level: Level) -> str:
        tolerance = at_level(self.tolerance, level)
        return f"{self.quantity.words()} is {number(self.value)} up to rounding ({tolerance:g})"

    def decide(self, evidence: Evidence, level: Level) -> Outcome:
        def compare(estimate: Estimate) -> tuple[Verdict, str, float]:
            tolerance = at_level(self.tolerance, level)
            off = max(abs(end - self.value) for end in (estimate.point, estimate.lo, estimate.hi))
            verdict = "reproduced" if off <= tolerance else "contradicted"
            return verdict, f"{number(self.value)} within {tolerance:g}", abs(tolerance - off)

        return _single(_test(self.quantity, evidence, compare, each_layer=False))


class HalfWidthAtMost(Strict):
    """Half of a quantity's interval is at most a published width: how sharp the estimate is."""

    kind: Literal["half_width_at_most"]
    quantity: Quantity
    published: str = Field(description="dotted path of the width, one for all checkpoints")
    share: bool = Field(default=True, description="the width is a share of the quantity's value, or in its own unit")

    def words(self, level: Level) -> str:
        of = " share of its value" if self.share else " width"
        return f"half of the interval of {self.quantity.words()} is at most the published{of}"

    def decide(self, evidence: Evidence, level: Level) -> Outcome:
        def compare(estimate: Estimate) -> tuple[Verdict, str, float]:
            width = max(values(evidence.published, self.published).values())
            half, allowed = (estimate.hi - estimate.lo) / 2, width * abs(estimate.point) if self.share else width
            verdict = "reproduced" if half <= allowed else "contradicted"
            return verdict, f"known within {f'{width:.0%}' if self.share else number(width)}", abs(allowed - half)

        return _single(_test(self.quantity, evidence, compare, each_layer=False))


class GuardFires(Strict):
    """A guard refuses the contrast of two arms, and none before it does: for claims that the guard is needed."""

    kind: Literal["guard_fires"]
    guard: Literal["chance", "confounded"]
    arms: Pair
    records: str = Field(default="language", description="record set")

    def words(self, level: Level) -> str:
        why = {"chance": "one is at its own chance", "confounded": "their accuracies differ too much"}[self.guard]
        return f"the contrast of {' and '.join(self.arms)} ({self.records.replace('_', ' ')}) is refused: {why}"

    def decide(self, evidence: Evidence, level: Level) -> Outcome:
        checked = list(arms.of_contrast(evidence, self.arms, self.records, level))
        fired = next((guard for guard in checked if not guard.passes), None)

        def compare(estimate: Estimate) -> tuple[Verdict, str, float]:
            if fired and arms.ORDER.index(fired.guard) < arms.ORDER.index(self.guard):
                raise Missing(f"another guard comes first: needs {fired.asks} (here: {fired.found})")
            verdict = "reproduced" if fired and fired.guard == self.guard else "contradicted"
            limit = evidence.published["setup"]["guards"]["accuracy_gap"]
            too = f"farther than {limit:g} from 0" if self.guard == "confounded" else "not above 0 by its lower end"
            return verdict, f"{too}, so that the contrast is refused", math.inf

        return _single(_test(self._quantity(checked), evidence, compare))

    def _quantity(self, checked: list[Checked]) -> Quantity:
        """What the guard looks at: the accuracy gap, or an arm's distance from chance, of one at chance if any is."""
        one, other = self.arms
        gap = Quantity(measure="accuracy", method=one, reference=other, contrast="difference", setting=self.records)
        if self.guard == "confounded":
            return gap
        own = [guard for guard in checked if guard.guard == "chance"]
        at_chance = [arm for arm, guard in zip(self.arms, own, strict=False) if not guard.passes]
        return gap.model_copy(update={"method": (at_chance or self.arms)[0], "reference": "chance"})


class AllOf(Strict):
    """Every rule holds."""

    kind: Literal["all_of"]
    rules: list[Rule] = Field(min_length=2)

    def words(self, level: Level) -> str:
        return "; and ".join(rule.words(level) for rule in self.rules)

    def decide(self, evidence: Evidence, level: Level) -> Outcome:
        return _all([rule.decide(evidence, level) for rule in self.rules])


class AnyOf(Strict):
    """At least one rule holds."""

    kind: Literal["any_of"]
    rules: list[Rule] = Field(min_length=2)

    def words(self, level: Level) -> str:
        return "; or ".join(rule.words(level) for rule in self.rules)

    def decide(self, evidence: Evidence, level: Level) -> Outcome:
        return _any([rule.decide(evidence, level) for rule in self.rules])


Rule = Annotated[
    Sign
    | Order
    | Exceeds
    | AtLeast
    | AtMost
    | RatioAtLeast
    | Within
    | WithinTable
    | Equivalence
    | Beyond
    | Says
    | Identity
    | HalfWidthAtMost
    | GuardFires
    | AllOf
    | AnyOf,
    Field(discriminator="kind"),
]
AllOf.model_rebuild()
AnyOf.model_rebuild()


def published_paths(rule: Rule) -> Iterator[str]:
    """The published values that a rule compares with."""
    if isinstance(rule, AllOf | AnyOf):
        for inner in rule.rules:
            yield from published_paths(inner)
    elif isinstance(rule, WithinTable):
        yield from (inner.published for inner in rule.rules())
    elif isinstance(rule, Within | HalfWidthAtMost):
        yield rule.published


def _single(part: Part) -> Outcome:
    return Outcome(part.verdict, (part,))


def _all(outcomes: Iterable[Outcome]) -> Outcome:
    return _join(outcomes, ("contradicted", "not testable", "inconclusive", "reproduced"))


def _any(outcomes: Iterable[Outcome]) -> Outcome:
    return _join(outcomes, ("reproduced", "not testable", "inconclusive", "contradicted"))


def _join(outcomes: Iterable[Outcome], ranking: tuple[Verdict, ...]) -> Outcome:
    """Join outcomes; the verdict is the first of ``ranking`` that any of them has."""
    outcomes = list(outcomes)
    verdict = min((outcome.verdict for outcome in outcomes), key=ranking.index)
    return Outcome(verdict, tuple(part for outcome in outcomes for part in outcome.parts))
