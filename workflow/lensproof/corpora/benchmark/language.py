"""The language family: z is the language that a passage is written in (Gathered section 1 of the method).

In the published benchmark the control question is answered No almost always. Ours is answered Yes in half of the
instances, and passages with and without a question are dealt out evenly. ``as_published`` keeps the weakness: passages
are drawn freely, of those without a question.

Nor are all of its instances complete: where first words of continuations begin with the same token, the automatic arm's
candidates cannot be told apart, and the arm is dropped. Ours draw other languages for the passage then, and drop the
arm only where no draw helps; ``as_published`` always does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from lensproof.corpora.benchmark.build import (
    CANDIDATES,
    MATCHED,
    Built,
    Drawn,
    Instance,
    Setting,
    Skip,
    collect,
    identity,
)
from lensproof.corpora.benchmark.draws import Deck, Draws
from lensproof.corpora.benchmark.invariants import label_absence
from lensproof.corpora.benchmark.passages import Passage, named
from lensproof.corpora.benchmark.record import ARMS
from lensproof.corpora.benchmark.vocabulary import Vocabulary
from lensproof.corpora.benchmark.wording import Wording
from lensproof.errors import LensproofError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

FAMILY = "language"
ATTEMPTS = 50
"""Draws of languages for a passage before the automatic arm is given up."""


def build(
    passages: Sequence[Passage],
    wording: Wording,
    tokenizer: PreTrainedTokenizerBase,
    *,
    count: int,
    seed: int = 0,
    languages: Sequence[str] | None = None,
    variant: str = MATCHED,
    as_published: bool = False,
    arms: Sequence[str] = ARMS,
) -> Built:
    """Records of ``count`` instances.

    An instance draws four languages and which of them is z, a passage, and four symbols. The same seed draws the same
    instances in every wording and variant, and with every tokenizer that has the same languages and symbols as tokens,
    but for those instances in which a tokenizer cannot tell the automatic arm's candidates apart.

    Args:
        passages: to draw from.
        wording: of the prompts.
        tokenizer: that the records are for.
        count: instances to keep.
        seed: of all draws.
        languages: to draw from, in any order; those of the passages by default. Those whose name is more than one
            token are left out.
        variant: ``matched`` (the legend in the context of every arm) or ``unmatched`` (in the instructions that need
            it).
        as_published: keep the published weaknesses, of the control question and of the automatic arm.
        arms: to make. Leaving ``supplied`` out changes nothing in the others.

    Raises:
        LensproofError: too few languages, symbols or passages can be used, or an invariant does not hold; the line
            names it.
    """
    setting = Setting(Vocabulary(tokenizer), wording, variant, as_published, seed, arms)
    choice = named(languages or passages[0].text, passages)
    pool = sorted(setting.vocabulary.suited(choice, CANDIDATES, "names of languages"))
    symbols = setting.symbols
    passage_of = _published(passages, pool) if as_published else _balanced(passages, pool, seed)
    variations = ["published"] if as_published else []

    def draw(number: int, index: int) -> Drawn:
        key = (seed, FAMILY, *variations, number)
        draws = Draws(*key)
        first = _World.drawn(draws, pool, symbols)
        passage = passage_of(draws, index)
        worlds = (first,) if as_published else _worlds(first, key, pool, symbols)
        world = next((world for world in worlds if not _collision(world.table, passage, setting.vocabulary)), first)
        asked = wording.verdicts[0 if passage.question(world.gold) else 1]
        four = list(world.table)
        meta = {"passage": passage.id, "languages": four, "symbols": world.table, "control_answer": asked}
        text, name = passage.text[world.gold], identity(FAMILY, index, *variations)
        instance = Instance(setting, name, FAMILY, "language", world.gold, world.table, text, meta)
        # From a stream of its own: with or without the supplied arm, everything else is the same.
        dummy = Draws(*key, "supplied").choice([other for other in four if other != world.gold])
        made = _records(instance, passage, dummy)
        return made if world is first else made._replace(redrawn=_collision(first.table, passage, setting.vocabulary))

    return collect(count, draw)


class _World(NamedTuple):
    """Language -> symbol of four languages, and which of them is z."""

    table: dict[str, str]
    gold: str

    @classmethod
    def drawn(cls, draws: Draws, languages: Sequence[str], symbols: Sequence[str]) -> _World:
        four = draws.sample(languages, CANDIDATES)
        gold = draws.choice(four)
        return cls(dict(zip(four, draws.sample(symbols, CANDIDATES), strict=True)), gold)


def _worlds(
    first: _World, key: Sequence[str | int], languages: Sequence[str], symbols: Sequence[str]
) -> Iterator[_World]:
    """The first draw, then others from streams of their own, so that a collision moves nothing in other instances."""
    yield first
    for attempt in range(ATTEMPTS):
        yield _World.drawn(Draws(*key, "again", attempt), languages, symbols)


def _records(instance: Instance, passage: Passage, dummy: str) -> Drawn:
    """The instance's records; the automatic arm is left out where its candidates cannot be told apart."""
    arms, wording, vocabulary = instance.setting.arms, instance.setting.wording, instance.setting.vocabulary
    z, table = instance.value, instance.symbols
    openings = _openings(table, passage)
    make = {
        "automatic": lambda: instance.record("automatic", openings[z], openings.values()),
        "report": lambda: instance.record("report", z, table),
        "flexible": lambda: instance.record("flexible", table[z], table.values(), looks_up=True),
        "control": lambda: instance.record("control", instance.meta["control_answer"], wording.verdicts),
        "supplied": lambda: instance.record("supplied", table[dummy], table.values(), looks_up=True, label=dummy),
    }
    collision = _collision(table, passage, vocabulary) if "automatic" in arms else None
    dropped = {"automatic": collision} if collision else {}
    records = [make[arm]() for arm in ARMS if arm in arms and arm not in dropped]
    if not records:
        raise Skip("no arm is left")
    if any(label_absence(records, instance.passage)):
        raise Skip("the passage contains a candidate's name")
    return instance.finished(records, dropped)


def _openings(languages: Iterable[str], passage: Passage) -> dict[str, str]:
    """Language -> the first word of the passage's continuation."""
    return {language: _first_word(passage.continuation[language]) for language in languages}


def _collision(languages: Iterable[str], passage: Passage, vocabulary: Vocabulary) -> str | None:
    """Why the automatic arm's candidates cannot be told apart, if they cannot."""
    tokens = [vocabulary.first(word) for word in _openings(languages, passage).values()]
    if None in tokens:
        return "a first word is unknown"
    return "first tokens collide" if len(set(tokens)) < len(tokens) else None


def _first_word(sentence: str) -> str:
    """The first word, without the punctuation around it."""
    word = sentence.split()[0]
    inside = [place for place, letter in enumerate(word) if letter.isalnum()]
    return word[inside[0] : inside[-1] + 1] if inside else word


def _balanced(passages: Sequence[Passage], languages: Sequence[str], seed: int) -> Callable[[Draws, int], Passage]:
    """Passages with a question for instances 0, 2, ..., without for the others, each equally often.

    Those that have one in some languages only are left out.
    """
    asking = [passage for passage in passages if all(map(passage.question, languages))]
    telling = [passage for passage in passages if not any(map(passage.question, languages))]
    if not asking or not telling:
        raise LensproofError(
            f"{len(asking)} passages have a question and {len(telling)} have none, so the control question cannot be "
            "answered Yes in half of the instances: add some, or build the set as published"
        )
    decks = [Deck(part, seed, FAMILY, "passages", name) for name, part in (("asking", asking), ("telling", telling))]
    return lambda draws, index: decks[index % 2].deal()


def _published(passages: Sequence[Passage], languages: Sequence[str]) -> Callable[[Draws, int], Passage]:
    """Any passage without a question: in the published data the answer is No in the first 200 instances."""
    telling = [passage for passage in passages if not any(map(passage.question, languages))]
    if not telling:
        raise LensproofError("no passage is without a question: the published draw asks for some")
    return lambda draws, index: draws.choice(telling)
