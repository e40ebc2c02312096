"""No answer can be guessed: rules that see neither passage nor story are right as often as chance has it."""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from collections.abc import Callable, Sequence

import pytest
from benchmark_world import said, tokenizer
from scipy.stats import binom

from lensproof.corpora.benchmark import sets
from lensproof.corpora.benchmark.passages import OWN, load
from lensproof.corpora.benchmark.record import Record
from lensproof.experiments.catalogue import OF_FAMILY
from lensproof.specimens.planted import world

COUNT = 400
RARE = 1e-4
"""A rule that is right so often by chance in one of ten thousand sets: there are 216 of rule, set and arm."""
SETS = ("language", "tracking", "tracking_1swap", "planted")  # other wordings and variants have the same draws
CASES = [(name, arm) for name in SETS for arm in OF_FAMILY["tracking" if "tracking" in name else "language"]]

Rule = Callable[[Record, Sequence[Record]], str]
"""A record and others of its arm, whose answers are known -> the answer that is guessed."""


@functools.cache
def made(name: str) -> Sequence[Record]:
    """The records of a set, of held-out passages of our own or of a planted world."""
    if name == "planted":
        given = {"passages": world.passages(), "wordings": world.WORDINGS}
        return sets.build("language", world.tokenizer(), count=COUNT, seed=0, **given).records
    held_out = [passage for passage in load(OWN) if not passage.training]
    return sets.build(name, tokenizer(more=said()), count=COUNT, seed=0, passages=held_out).records


def of(arm: str, records: Sequence[Record]) -> list[Record]:
    return [record for record in records if record.condition == arm]


def place(number: int) -> Rule:
    """Always the candidate at one place of the legend, or of Yes and No."""
    return lambda record, others: record.candidate_answers[number % len(record.candidate_answers)]


def by_token(record: Record, others: Sequence[Record]) -> str:
    """The candidate with the lowest token."""
    return min(zip(record.candidate_token_ids, record.candidate_answers, strict=True))[1]


def often_right(record: Record, others: Sequence[Record]) -> str:
    """The candidate that is right most often where it can be."""
    right = Counter(other.gold_answer for other in others)
    there = Counter(answer for other in others for answer in other.candidate_answers)
    return max(record.candidate_answers, key=lambda answer: right[answer] / max(there[answer], 1))


def often_right_after(record: Record, others: Sequence[Record]) -> str:
    """What the very same instruction is answered with most often."""
    right = Counter(other.gold_answer for other in others if other.instruction == record.instruction)
    return max(record.candidate_answers, key=lambda answer: right[answer])


def place_of_first_letter(record: Record, others: Sequence[Record]) -> str:
    """Where the legend's first symbol in the alphabet stands, whatever is asked for."""
    symbols = list(record.meta["symbols"].values())
    return record.candidate_answers[symbols.index(min(symbols)) % len(record.candidate_answers)]


RULES: dict[str, Rule] = {
    **{f"place {number}": place(number) for number in range(4)},
    "first in the alphabet": lambda record, others: min(record.candidate_answers),
    "last in the alphabet": lambda record, others: max(record.candidate_answers),
    "shortest": lambda record, others: min(record.candidate_answers, key=len),
    "longest": lambda record, others: max(record.candidate_answers, key=len),
    "lowest token": by_token,
    "place of the first letter": place_of_first_letter,
    "often right": often_right,
    "often right after this instruction": often_right_after,
}


def guessed(chosen: Sequence[Record], rule: Rule) -> tuple[int, float]:
    """How often a rule is right, half of the records known to it as it guesses the other, and its chance of that."""
    halves = [[record for number, record in enumerate(chosen) if number // 2 % 2 == half] for half in (0, 1)]
    right = sum(
        rule(record, halves[1 - half]) == record.gold_answer for half, own in enumerate(halves) for record in own
    )
    chance = sum(1 / len(record.candidate_answers) for record in chosen) / len(chosen)
    return right, float(binom.sf(right - 1, len(chosen), chance))


@pytest.mark.parametrize(("name", "arm"), CASES, ids=[f"{name}-{arm}" for name, arm in CASES])
def test_no_blind_rule_is_right_more_often_than_chance(name, arm):
    chosen = of(arm, made(name))
    assert len(chosen) == COUNT
    found = {rule: guessed(chosen, decide) for rule, decide in RULES.items()}
    assert {rule: right for rule, (right, chance) in found.items() if chance < RARE} == {}


LEAKS = {
    "place 2": lambda record: {"candidate_answers": moved(record)},
    "often right": lambda record: {"gold_answer": min(record.candidate_answers)},
    "often right after this instruction": lambda record: {"instruction": f"{record.gold_answer}? {record.instruction}"},
}


def moved(record: Record) -> tuple[str, ...]:
    """The candidates with the right one at the third place."""
    others = [answer for answer in record.candidate_answers if answer != record.gold_answer]
    return (*others[:2], record.gold_answer, *others[2:])


@pytest.mark.parametrize("rule", LEAKS)
def test_what_gives_an_answer_away_is_found(rule):
    leaking = [dataclasses.replace(record, **LEAKS[rule](record)) for record in of("report", made("language"))]
    assert guessed(leaking, RULES[rule])[1] < RARE


def test_the_published_control_question_is_answered_blindly():
    published = sets.build(
        "language_as_published", world.tokenizer(), count=COUNT, seed=0,
        passages=world.passages(), wordings=world.WORDINGS,
    ).records  # fmt: skip
    assert guessed(of("control", published), RULES["place 1"])[0] == COUNT
