"""Prompts to train an adapter on and to validate it on, of training passages alone."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, NamedTuple

from lensproof.corpora.benchmark.draws import Draws
from lensproof.corpora.benchmark.passages import Passage
from lensproof.corpora.benchmark.record import Record
from lensproof.corpora.benchmark.sets import SETS, WORDINGS, RecordSet, build
from lensproof.corpora.benchmark.tokenised import tokenised
from lensproof.corpora.benchmark.wording import Wording
from lensproof.errors import LensproofError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

SHORT = "language_short"
"""The language records with a sentence for a passage: three times as many texts, each read in half the time."""
SHARES = {"language": 3, SHORT: 4, "language_length": 1, "language_unmatched": 1, "tracking_1swap": 1}
"""Set of records -> its share of the training prompts: mostly the default wording, and a little of what else is run."""
DECIDING = "language"
"""The set that is validated on while training goes on."""
ALSO = ("language_length", "language_unmatched", "tracking_1swap", "tracking")
"""Those that the finished adapter is validated on too; stories of three swaps are never trained on."""
HELD_BACK = 4
"""One training passage of so many is not trained on but validated on."""

Wordings = Mapping[str, Mapping[str, Wording]]


class Prompt(NamedTuple):
    """A record in tokens: its context, the rest of its prompt, its candidates, and which of them is right."""

    id: str
    passage: str
    family: str
    arm: str
    context: list[int]
    rest: list[int]
    candidates: tuple[int, ...]
    gold: int

    @property
    def answer(self) -> int:
        """The token that should come next."""
        return self.candidates[self.gold]


Instances = Sequence[Sequence[Prompt]]
"""Each as the prompts of its arms, which share their context."""


@dataclass(frozen=True)
class Material:
    """What an adapter is trained and validated on.

    Attributes:
        training: set of records -> instances.
        validation: the same.
        trained_on: ids of the passages of ``training``, sorted.
        validated_on: ids of the passages of ``validation``, sorted; no passage is in both.
    """

    training: Mapping[str, Instances]
    validation: Mapping[str, Instances]
    trained_on: Sequence[str]
    validated_on: Sequence[str]


def material(
    tokenizer: PreTrainedTokenizerBase,
    passages: Sequence[Passage],
    *,
    instances: int,
    validation: int,
    seed: int,
    wordings: Wordings = WORDINGS,
) -> Material:
    """Draw all prompts.

    Args:
        tokenizer: that they are for.
        passages: of any kind; only those for training are used.
        instances: to draw for one unit of :data:`SHARES`.
        validation: instances of each set to validate on.
        seed: of all draws.
        wordings: family -> name -> wording; a set whose wording is not there is left out.

    Raises:
        LensproofError: too few passages are for training, or what the builders of records refuse.
    """
    train, validate = divide(passages)
    there = {name for name in (*SETS, SHORT) if _set(name).wording in wordings.get(_set(name).family, {})}

    def drawn(name: str, role: str, count: int) -> Instances:
        # Seeds that no set of records is likely to have: tracking has no passages that keep training and test apart.
        own = Draws("adapter", role, seed).below(2**62)
        chosen = sentences(train) if name == SHORT else train if role == "train" else validate
        of = "language" if name == SHORT else name
        found = build(of, tokenizer, count=count, seed=own, passages=chosen, wordings=wordings)
        return _by_instance([prompt(tokenizer, record) for record in found.records])

    return Material(
        training={n: drawn(n, "train", share * instances) for n, share in SHARES.items() if n in there},
        validation={n: drawn(n, "validate", validation) for n in (DECIDING, *ALSO) if n in there},
        trained_on=sorted(passage.id for passage in train),
        validated_on=sorted(passage.id for passage in validate),
    )


def _set(name: str) -> RecordSet:
    return SETS["language" if name == SHORT else name]


def sentences(passages: Sequence[Passage]) -> list[Passage]:
    """Every sentence as a passage that the next one continues; passages without clear ends of sentences give none."""
    found = []
    for passage in passages:
        texts = {language: _ENDS.split(text) for language, text in passage.text.items()}
        if len({len(parts) for parts in texts.values()}) > 1:
            continue
        rows = [dict(zip(texts, row, strict=True)) for row in zip(*texts.values(), strict=True)]
        for place, (row, following) in enumerate(pairwise([*rows, passage.continuation])):
            found.append(replace(passage, id=f"{passage.id}.{place}", text=row, continuation=following))
    return found


_ENDS = re.compile(r"(?<=[.?!…])\s+")


def divide(passages: Sequence[Passage]) -> tuple[list[Passage], list[Passage]]:
    """Training passages to train on, and those to validate on: every fourth with a question, every fourth without.

    Raises:
        LensproofError: they are too few.
    """
    known = [passage for passage in passages if passage.training]
    asking = [passage for passage in known if any(map(passage.question, passage.text))]
    telling = [passage for passage in known if passage not in asking]
    if min(len(asking), len(telling)) < HELD_BACK:
        raise LensproofError(
            f"{len(asking)} training passages have a question and {len(telling)} have none, {HELD_BACK} of each are "
            "needed: adapters are trained and validated on training passages alone"
        )
    validate = [*asking[HELD_BACK - 1 :: HELD_BACK], *telling[HELD_BACK - 1 :: HELD_BACK]]
    return [passage for passage in known if passage not in validate], validate


def prompt(tokenizer: PreTrainedTokenizerBase, record: Record) -> Prompt:
    """A record in tokens.

    Raises:
        LensproofError: its context is no token prefix of its prompt, or the prompt is too long.
    """
    context, rest = tokenised(tokenizer, record)
    passage = str(record.meta.get("passage", ""))
    return Prompt(
        record.id, passage, record.family, record.condition, context, rest, record.candidate_token_ids, record.gold
    )


def _by_instance(prompts: Sequence[Prompt]) -> list[list[Prompt]]:
    """Those of an instance stand one after the other and share their context."""
    return [list(group) for _, group in groupby(prompts, lambda one: one.id.removesuffix(f"-{one.arm}"))]
