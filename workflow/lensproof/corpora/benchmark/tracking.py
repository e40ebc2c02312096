"""The tracking family: z is the item that the first person of a story ends with (Gathered section 1 of the method).

All items are named at the start, so every candidate is equally contaminated. The control question asks whether the last
person or an absent one is mentioned: in turn, so that Yes and No are equally frequent; ``as_published`` tosses a coin.
"""

from __future__ import annotations

from collections.abc import Sequence
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
from lensproof.corpora.benchmark.draws import Draws
from lensproof.corpora.benchmark.record import ARMS
from lensproof.corpora.benchmark.vocabulary import Vocabulary
from lensproof.corpora.benchmark.wording import Wording
from lensproof.errors import LensproofError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

FAMILY = "tracking"
TRACKING_ARMS = tuple(arm for arm in ARMS if arm != "supplied")
PEOPLE = (
    "Anna", "Ben", "Carol", "David", "Emma", "Frank", "Grace", "Henry", "Laura", "Mark", "Paul", "Peter", "Sarah",
)  # fmt: skip
EDIBLE = ("apple", "cake", "carrot", "cheese", "cookie", "egg", "onion", "orange", "pear", "potato", "rice", "soup")
INEDIBLE = (
    "chair", "clock", "coat", "cup", "fork", "glove", "hammer", "hat", "pencil", "phone", "ring", "rope", "stone",
)  # fmt: skip
YES, NO = 0, 1
HAS, SWAP = "{person} has the {item}.", "{one} and {other} swap items."


def build(
    wording: Wording,
    tokenizer: PreTrainedTokenizerBase,
    *,
    count: int,
    seed: int = 0,
    people: Sequence[str] = PEOPLE,
    items: tuple[Sequence[str], Sequence[str]] = (EDIBLE, INEDIBLE),
    swaps: int = 3,
    variant: str = MATCHED,
    as_published: bool = False,
    arms: Sequence[str] = TRACKING_ARMS,
) -> Built:
    """Records of ``count`` instances.

    An instance draws four people, two items that can be eaten and two that cannot, who has which, and who swaps with
    whom; no two swaps in a row are of the same pair. Instances at whose end the first person has the same item as at
    the start are skipped. The same seed draws the same instances in every wording and variant.

    Args:
        wording: of the prompts.
        tokenizer: that the records are for.
        count: instances to keep.
        seed: of all draws.
        people: names to draw from.
        items: to draw from, those that can be eaten and those that cannot; those that are more than one token are left
            out.
        swaps: in a story.
        variant: ``matched`` (the legend in the context of every arm) or ``unmatched`` (in the flexible instruction).
        as_published: draw the control question's answer.
        arms: to make.

    Raises:
        LensproofError: too few people, items or symbols can be used, or an invariant does not hold; the line names it.
    """
    setting = Setting(Vocabulary(tokenizer), wording, variant, as_published, seed, arms)
    if len(people) <= CANDIDATES:
        raise LensproofError(f"{len(people)} people are too few: {CANDIDATES} and an absent one are needed")
    edible, inedible = (setting.vocabulary.suited(kind, CANDIDATES // 2, "items of a kind") for kind in items)
    symbols = setting.symbols
    variations = ["published"] * as_published + [f"{swaps}swap"] * (swaps != 3)

    def draw(number: int, index: int) -> Drawn:
        draws = Draws(seed, FAMILY, *variations, number)
        story = _drawn(draws, people, edible, inedible, swaps)
        if story.end[story.first] == story.start[story.first]:
            raise Skip("the first person ends with the item of the start")
        order = draws.shuffled(list(story.start.values()))
        table = dict(zip(order, draws.sample(symbols, CANDIDATES), strict=True))
        mentioned = draws.below(2) == YES if as_published else index % 2 == YES
        meta = {
            "people": list(story.start),
            "items": list(story.start.values()),
            "swaps": swaps,
            "moves": story.moves,
            "symbols": table,
            "control_answer": wording.verdicts[YES if mentioned else NO],
        }
        name, z = identity(FAMILY, index, *variations), story.end[story.first]
        instance = Instance(setting, name, FAMILY, "item", z, table, story.text, meta)
        return _records(instance, story, verdict=wording.verdicts[YES if z in edible else NO], mentioned=mentioned)

    return collect(count, draw)


class _Story(NamedTuple):
    """Who has which item at the start, who swaps with whom, and who is not in it."""

    start: dict[str, str]
    moves: list[list[str]]
    absent: str

    @property
    def first(self) -> str:
        return next(iter(self.start))

    @property
    def last(self) -> str:
        return list(self.start)[-1]

    @property
    def end(self) -> dict[str, str]:
        """Who has which item after all swaps."""
        held = dict(self.start)
        for one, other in self.moves:
            held[one], held[other] = held[other], held[one]
        return held

    @property
    def text(self) -> str:
        holds = [HAS.format(person=person, item=item) for person, item in self.start.items()]
        return " ".join([*holds, *(SWAP.format(one=one, other=other) for one, other in self.moves)])


def _drawn(draws: Draws, people: Sequence[str], edible: Sequence[str], inedible: Sequence[str], swaps: int) -> _Story:
    *four, absent = draws.sample(people, CANDIDATES + 1)
    half = CANDIDATES // 2
    items = draws.shuffled(draws.sample(edible, half) + draws.sample(inedible, half))
    moves: list[list[str]] = []
    while len(moves) < swaps:
        pair = draws.sample(four, 2)
        if not moves or set(pair) != set(moves[-1]):
            moves.append(pair)
    return _Story(dict(zip(four, items, strict=True)), moves, absent)


def _records(instance: Instance, story: _Story, verdict: str, mentioned: bool) -> Drawn:
    """The instance's records; ``verdict`` says whether z can be eaten."""
    z, table, person = instance.value, instance.symbols, story.first
    verdicts, name = instance.setting.wording.verdicts, story.last if mentioned else story.absent
    make = {
        "automatic": lambda: instance.record("automatic", verdict, verdicts, person=person),
        "report": lambda: instance.record("report", z, table, person=person),
        "flexible": lambda: instance.record("flexible", table[z], table.values(), looks_up=True, person=person),
        "control": lambda: instance.record("control", instance.meta["control_answer"], verdicts, name=name),
    }
    return instance.finished([make[arm]() for arm in TRACKING_ARMS if arm in instance.setting.arms])
