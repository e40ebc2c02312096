"""What must hold of the records of one semantic instance (Gathered section 1 of the method).

Every contrast is within the instance, so whatever is not the demand must be the same in all arms, and nothing but the
passage may give z away. What records show by themselves is also checked in files; the rest is enforced where they are
made, and a record that breaks one is an error that says which.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import NamedTuple

from lensproof.corpora.benchmark.record import Record
from lensproof.corpora.benchmark.vocabulary import Vocabulary
from lensproof.corpora.benchmark.wording import SHARED_TAIL, SPAN_ARMS, Wording
from lensproof.errors import LensproofError


class Broken(NamedTuple):
    """An invariant that does not hold, and the record that breaks it."""

    record: Record
    invariant: str
    detail: str

    def __str__(self) -> str:
        return f"{self.invariant}: {self.detail}"


def enforce(records: Sequence[Record], vocabulary: Vocabulary, wording: Wording, passage: str, table: str) -> None:
    """Check an instance that was just made.

    Args:
        records: of all its arms.
        vocabulary: of the tokenizer that they are for.
        wording: that they are in.
        passage: the passage or story, without the legend.
        table: the legend's line.

    Raises:
        LensproofError: an invariant does not hold; the line names the record and the invariant.
    """
    if not records:
        raise LensproofError("empty set: an instance without records")
    checks = (
        label_absence(records, passage),
        unnamed(records, table),
        same_cue(records, wording),
        broken(records, vocabulary),
        spans(records, vocabulary) if wording.span else iter(()),
    )
    for found in (found for check in checks for found in check):
        raise LensproofError(f"{found.record.id}: {found}")


def broken(records: Sequence[Record], vocabulary: Vocabulary) -> Iterator[Broken]:
    """What the records of one instance break, as far as they show it themselves."""
    for check in (same_context, same_latent, answers, label_symmetry, dummy):
        yield from check(records)
    for check in (single_tokens, rivals, prefix):
        yield from check(records, vocabulary)


def same_context(records: Sequence[Record]) -> Iterator[Broken]:
    """The context is the same in all arms, byte for byte."""
    for record in records[1:]:
        if record.context != records[0].context:
            yield Broken(record, "equal contexts", f"its context is not that of {records[0].id}")


def same_latent(records: Sequence[Record]) -> Iterator[Broken]:
    """The latent variable has one value, and one record in each arm."""
    arms: set[str] = set()
    for record in records:
        if record.latent_value != records[0].latent_value:
            detail = f"z is {record.latent_value!r} here and {records[0].latent_value!r} in {records[0].id}"
            yield Broken(record, "one latent value", detail)
        if record.condition in arms:
            yield Broken(
                record, "one record an arm", f"{record.condition} occurs twice in {record.semantic_instance_id}"
            )
        arms.add(record.condition)


def answers(records: Sequence[Record]) -> Iterator[Broken]:
    """The right answer is a candidate; candidates and their tokens are distinct."""
    for record in records:
        names, ids = record.candidate_answers, record.candidate_token_ids
        if record.gold_answer not in names:
            yield Broken(
                record, "answers", f"{record.gold_answer!r} is not among {', '.join(names) or 'no candidates'}"
            )
        if len(names) != len(ids):
            yield Broken(record, "answers", f"{len(names)} candidates have {len(ids)} tokens")
        if len(set(names)) < len(names) or len(set(ids)) < len(ids):
            yield Broken(record, "answers", "two candidates are the same, or begin with the same token")


def label_symmetry(records: Sequence[Record]) -> Iterator[Broken]:
    """Where the legend is matched, the value of z stands in the prompt of every arm or of none."""
    if records[0].meta.get("variant") != "matched":
        return
    first = _occurs(records[0].latent_value, records[0].prompt)
    for record in records[1:]:
        if _occurs(record.latent_value, record.prompt) != first:
            where = f"stands in the prompt of {(record if not first else records[0]).id} alone"
            yield Broken(record, "label symmetry", f"{record.latent_value!r} {where}")


def dummy(records: Sequence[Record]) -> Iterator[Broken]:
    """What is supplied is never the value of z."""
    arms = {record.condition: record for record in records}
    supplied = arms.get("supplied")
    if supplied is None:
        return
    same = "flexible" in arms and supplied.gold_answer == arms["flexible"].gold_answer
    if same or supplied.meta.get("supplied") == supplied.latent_value:
        yield Broken(supplied, "dummy", f"the value that it supplies is z itself, {supplied.latent_value!r}")


def single_tokens(records: Sequence[Record], vocabulary: Vocabulary) -> Iterator[Broken]:
    """z and every answer is one token with its leading space, the one that the record says.

    Of a continuation (automatic arm of the language family) it is the first token of its first word.
    """
    for record in records:
        continues = record.family != "tracking" and record.condition == "automatic"
        words = [(record.latent_value, record.latent_token_id)]
        pairs = zip(record.candidate_answers, record.candidate_token_ids, strict=False)
        for place, (word, token) in enumerate([*words, *pairs]):
            expected = vocabulary.first(word) if continues and place else vocabulary.single(word)
            if expected is None:
                yield Broken(record, "single token", f"{word!r} with its leading space is not one token")
            elif expected != token:
                detail = f"{word!r} is token {expected} of this tokenizer; token {token} is {vocabulary.shown(token)}"
                yield Broken(record, "single token", detail)


def rivals(records: Sequence[Record], vocabulary: Vocabulary) -> Iterator[Broken]:
    """The rivals of M_z are other tokens than z, the same in every arm."""
    for record in records:
        outside = [token for token in record.control_token_ids if not 0 <= token < len(vocabulary)]
        if not record.control_token_ids:
            yield Broken(record, "rivals", "the set of other candidates is empty")
        elif outside:
            yield Broken(record, "rivals", f"token {outside[0]} is outside of this tokenizer's vocabulary")
        elif record.latent_token_id in record.control_token_ids:
            yield Broken(record, "rivals", f"{record.latent_value!r} is among its own rivals")
        elif sorted(record.control_token_ids) != sorted(records[0].control_token_ids):
            yield Broken(record, "rivals", f"they are not those of {records[0].id}")


def prefix(records: Sequence[Record], vocabulary: Vocabulary) -> Iterator[Broken]:
    """The context's tokens begin the prompt's: no token spans the boundary (known answer 14)."""
    context = vocabulary.encode(records[0].context)
    for record in records:
        ids = context if record.context == records[0].context else vocabulary.encode(record.context)
        if vocabulary.encode(record.prompt)[: len(ids)] != ids:
            detail = "the tokens of the context are not the first tokens of the prompt: a token spans the boundary"
            yield Broken(record, "context prefix", detail)


def label_absence(records: Sequence[Record], passage: str) -> Iterator[Broken]:
    """No candidate's name stands in the passage; in a story, which must name them, all stand equally often."""
    first = records[0]
    names = [str(name) for name in first.meta.get("symbols", [first.latent_value])]
    counts = {name: len(_found(name, passage)) for name in names}
    if first.family == "language":
        for name in (name for name, count in counts.items() if count):
            yield Broken(first, "label absence", f"{name!r} occurs in the passage")
    elif len(set(counts.values())) > 1:
        yield Broken(first, "label absence", f"candidates are named unequally often ({_listed(counts)})")


def unnamed(records: Sequence[Record], table: str) -> Iterator[Broken]:
    """No instruction names the value of z, other than in a legend."""
    for record in records:
        asked = record.instruction.replace(table, "") if table else record.instruction
        if _occurs(record.latent_value, asked):
            yield Broken(record, "unnamed value", f"the instruction names {record.latent_value!r}")


def same_cue(records: Sequence[Record], wording: Wording) -> Iterator[Broken]:
    """Every instruction ends in the answer cue, on a line of its own."""
    for record in records:
        if not record.instruction.endswith(f"\n{wording.cue}"):
            yield Broken(record, "answer cue", f"the instruction does not end in {wording.cue!r}")


def spans(records: Sequence[Record], vocabulary: Vocabulary) -> Iterator[Broken]:
    """Span arms have instructions of as many tokens, the last of them in common."""
    chosen = [record for record in records if record.condition in SPAN_ARMS]
    ids = [vocabulary.encode(record.prompt)[len(vocabulary.encode(record.context)) :] for record in chosen]
    for record, own in zip(chosen[1:], ids[1:], strict=True):
        if len(own) != len(ids[0]):
            detail = f"{len(own)} tokens after the context, {len(ids[0])} in {chosen[0].condition}"
            yield Broken(record, "matched length", detail)
    shared = sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, zip(*map(reversed, ids), strict=False)))
    if len(chosen) > 1 and shared < SHARED_TAIL:
        detail = f"span arms have the last {shared} tokens in common, {SHARED_TAIL} are needed"
        yield Broken(chosen[-1], "matched length", detail)


def _found(name: str, text: str) -> list[str]:
    return re.findall(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE)


def _occurs(name: str, text: str) -> bool:
    return bool(_found(name, text))


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())
