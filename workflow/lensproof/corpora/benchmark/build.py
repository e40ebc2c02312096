"""What the builders of both families share: an instance and its records, and drawing until there are enough."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lensproof.corpora.benchmark import invariants
from lensproof.corpora.benchmark.record import Record
from lensproof.corpora.benchmark.tokenised import LONGEST
from lensproof.corpora.benchmark.vocabulary import Vocabulary
from lensproof.corpora.benchmark.wording import Wording
from lensproof.errors import LensproofError

CANDIDATES = 4
"""Values that one instance chooses between."""
MATCHED, UNMATCHED = "matched", "unmatched"
"""The legend stands in the context of every arm, or only in the instructions that need it."""
_PATIENCE = 20


class Skip(Exception):
    """The instance that was drawn cannot be used; the message says why, in words that are counted."""


@dataclass
class Attrition:
    """What became of the draws.

    Attributes:
        draws: instances drawn.
        instances: those that were kept.
        skipped: reason -> draws that were not.
        redrawn: reason -> kept instances whose values were drawn again.
        dropped: ``arm: reason`` -> kept instances that lack the arm.
    """

    draws: int = 0
    instances: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    redrawn: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)

    def as_dict(self) -> dict[str, Any]:
        """Plain types, for provenance."""
        return {
            "draws": self.draws, "instances": self.instances,
            "skipped": dict(self.skipped), "redrawn": dict(self.redrawn), "dropped": dict(self.dropped),
        }  # fmt: skip

    def __str__(self) -> str:
        reasons = [f"{count} skipped, {reason}" for reason, count in sorted(self.skipped.items())]
        reasons += [f"{count} drawn again, {reason}" for reason, count in sorted(self.redrawn.items())]
        reasons += [f"{count} without {reason}" for reason, count in sorted(self.dropped.items())]
        return "; ".join([f"{self.instances} instances from {self.draws} draws", *reasons])


class Built(NamedTuple):
    """Records, instance by instance, and what was lost on the way."""

    records: list[Record]
    attrition: Attrition


class Drawn(NamedTuple):
    """The records of one instance, why an arm is not among them, and why its values are not those first drawn."""

    records: list[Record]
    dropped: Mapping[str, str]
    redrawn: str | None = None


def collect(count: int, draw: Callable[[int, int], Drawn]) -> Built:
    """Draw until ``count`` instances are kept.

    Args:
        count: instances.
        draw: number of the draw and number of the instance, if it is kept -> its records; or raises :class:`Skip`.

    Raises:
        LensproofError: too few draws can be used, or none are asked for.
    """
    if count < 1:
        raise LensproofError(f"{count} instances are asked for: a set of records must not be empty")
    records, attrition = [], Attrition()
    while attrition.instances < count:
        if attrition.draws >= _PATIENCE * (count + 1):
            raise LensproofError(f"{count} instances are asked for, and too many draws cannot be used: {attrition}")
        attrition.draws += 1
        try:
            drawn = draw(attrition.draws - 1, attrition.instances)
        except Skip as reason:
            attrition.skipped[str(reason)] += 1
            continue
        attrition.instances += 1
        attrition.redrawn.update([drawn.redrawn] if drawn.redrawn else [])
        attrition.dropped.update(f"{arm}: {why}" for arm, why in drawn.dropped.items())
        records += drawn.records
    return Built(records, attrition)


@dataclass(frozen=True)
class Setting:
    """What all instances of a set have in common.

    Attributes:
        vocabulary: of the tokenizer that the records are for.
        wording: of the prompts.
        variant: where the legend stands, ``matched`` or ``unmatched``.
        as_published: whether published weaknesses are kept.
        seed: of all draws.
        arms: to make.
    """

    vocabulary: Vocabulary
    wording: Wording
    variant: str
    as_published: bool
    seed: int
    arms: Sequence[str]

    def __post_init__(self) -> None:
        if self.variant not in (MATCHED, UNMATCHED):
            raise LensproofError(f"a legend is {MATCHED} or {UNMATCHED}, not {self.variant!r}")
        unknown = [arm for arm in self.arms if arm not in self.wording.instructions]
        if unknown or not self.arms:
            raise LensproofError(
                f"no records can be made of {', '.join(unknown) or 'no arms'}: the wording {self.wording.name} has "
                f"instructions for {', '.join(self.wording.instructions)}"
            )

    @property
    def symbols(self) -> list[str]:
        """What tables may give.

        Raises:
            LensproofError: too few are one token.
        """
        return self.vocabulary.suited(self.wording.symbols, CANDIDATES, "symbols")

    @property
    def meta(self) -> dict[str, Any]:
        """What every record says of how it was made."""
        return {
            "variant": self.variant, "wording": self.wording.name, "as_published": self.as_published, "seed": self.seed,
        }  # fmt: skip


@dataclass(frozen=True)
class Instance:
    """One latent world, from which the records of all arms are made.

    Attributes:
        setting: of its set.
        id: of the semantic instance.
        family: ``language`` or ``tracking``.
        latent: what the latent variable is called.
        value: its value z.
        symbols: candidate -> symbol, in the order of the legend.
        passage: the passage or story.
        meta: what every record of the instance says besides.
    """

    setting: Setting
    id: str
    family: str
    latent: str
    value: str
    symbols: Mapping[str, str]
    passage: str
    meta: Mapping[str, Any]

    @property
    def table(self) -> str:
        """The legend's line."""
        return self.setting.wording.table(self.symbols)

    @property
    def context(self) -> str:
        """What all arms share."""
        return self.setting.wording.context(self.passage, self.table if self.setting.variant == MATCHED else "")

    def record(self, arm: str, gold: str, answers: Iterable[str], looks_up: bool = False, **names: str) -> Record:
        """The record of an arm.

        Args:
            arm: its name.
            gold: the right answer.
            answers: what forced choice decides between.
            looks_up: whether the arm needs the lookup table.
            names: what the instruction mentions; what it supplies goes into ``meta`` too.
        """
        vocabulary, wording = self.setting.vocabulary, self.setting.wording
        legend = self.table if looks_up and self.setting.variant == UNMATCHED else ""
        answers = tuple(answers)
        return Record(
            id=f"{self.id}-{arm}",
            family=self.family,
            condition=arm,
            semantic_instance_id=self.id,
            template_id=f"{self.family}/{arm}/{wording.name}",
            context=self.context,
            instruction=wording.instruction(arm, legend, **names),
            latent_name=self.latent,
            latent_value=self.value,
            latent_token_id=vocabulary.token(self.value),
            control_token_ids=tuple(vocabulary.token(name) for name in self.symbols if name != self.value),
            gold_answer=gold,
            candidate_answers=answers,
            candidate_token_ids=tuple(vocabulary.opening(answer) for answer in answers),
            operator_family="lookup" if looks_up else "none",
            operator_id=", ".join(f"{name}={symbol}" for name, symbol in self.symbols.items()) if looks_up else "none",
            meta={**self.meta, **self.setting.meta, **({"supplied": names["label"]} if "label" in names else {})},
        )

    def finished(self, records: Sequence[Record], dropped: Mapping[str, str] | None = None) -> Drawn:
        """The instance's records, once every invariant holds.

        Raises:
            Skip: a prompt is too long.
            LensproofError: an invariant does not hold; the line names the record and the invariant.
        """
        vocabulary = self.setting.vocabulary
        if any(len(vocabulary.encode(record.prompt)) > LONGEST for record in records):
            raise Skip(f"prompts over {LONGEST} tokens")
        invariants.enforce(records, vocabulary, self.setting.wording, self.passage, self.table)
        return Drawn(list(records), dropped or {})


def identity(family: str, index: int, *variations: str) -> str:
    """Name of a semantic instance; sorted names are in the order of drawing."""
    return "-".join([family, *variations, f"{index:05d}"])
