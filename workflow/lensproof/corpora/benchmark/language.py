"""The language family: z is the language that a passage is written in (Gathered section 1 of the method).

In the published benchmark the control question is answered No almost always. Ours is answered Yes in half of the
instances, and passages with and without a question are dealt out evenly. ``as_published`` keeps the weakness: passages
are drawn freely, of those without a question.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

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
    instances in every wording and variant, and with every tokenizer that has the same languages and symbols as tokens.

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
        as_published: keep the published weakness of the control question.
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
        four = draws.sample(pool, CANDIDATES)
        gold = draws.choice(four)
        table = dict(zip(four, draws.sample(symbols, CANDIDATES), strict=True))
        passage = passage_of(draws, index)
        asked = wording.verdicts[0 if passage.question(gold) else 1]
        meta = {"passage": passage.id, "languages": four, "symbols": table, "control_answer": asked}
        name = identity(FAMILY, index, *variations)
        instance = Instance(setting, name, FAMILY, "language", gold, table, passage.text[gold], meta)
        # From a stream of its own: with or without the supplied arm, everything else is the same.
        dummy = Draws(*key, "supplied").choice([other for other in four if other != gold])
        return _records(instance, passage, dummy)

    return collect(count, draw)


def _records(instance: Instance, passage: Passage, dummy: str) -> Drawn:
    """The instance's records; the automatic arm is left out where its candidates cannot be told apart."""
    arms, wording, vocabulary = instance.setting.arms, instance.setting.wording, instance.setting.vocabulary
    z, table = instance.value, instance.symbols
    openings = {language: _first_word(passage.continuation[language]) for language in table}
    make = {
        "automatic": lambda: instance.record("automatic", openings[z], openings.values()),
        "report": lambda: instance.record("report", z, table),
        "flexible": lambda: instance.record("flexible", table[z], table.values(), looks_up=True),
        "control": lambda: instance.record("control", instance.meta["control_answer"], wording.verdicts),
        "supplied": lambda: instance.record("supplied", table[dummy], table.values(), looks_up=True, label=dummy),
    }
    tokens = [vocabulary.first(word) for word in openings.values()]
    dropped = {}
    if "automatic" in arms and None in tokens:
        dropped["automatic"] = "a first word is unknown"
    elif "automatic" in arms and len(set(tokens)) < len(tokens):
        dropped["automatic"] = "first tokens collide"
    records = [make[arm]() for arm in ARMS if arm in arms and arm not in dropped]
    if not records:
        raise Skip("no arm is left")
    if any(label_absence(records, instance.passage)):
        raise Skip("the passage contains a candidate's name")
    return instance.finished(records, dropped)


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
