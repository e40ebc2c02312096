"""What prompts say: the context around a passage, the lookup legend, and one instruction for each arm.

Instructions are one short question or command, end in the same answer cue in every arm, and name no candidate but the
one that is supplied. The default wording is the plainest; the one of matched length has as many tokens in every span
arm and a long tail in common, for measures over a span of tokens (Gathered section 1 of the method). No published
wording was to be had: these are our own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lensproof.corpora.benchmark.record import Record

CUE = "Answer:"
SYMBOLS = tuple("BJKLMQVWXZ")
"""Letters that begin no candidate's name, so that the table cannot be guessed."""
VERDICTS = ("Yes", "No")
SPAN_ARMS = ("automatic", "report", "flexible", "control")
"""Those that a span is compared over; what is supplied has a name in it and a length of its own."""
SHARED_TAIL = 5
"""Fewest last tokens, the cue's among them, that span arms of matched length have in common."""


@dataclass(frozen=True)
class Wording:
    """How records of one family are put into words.

    Attributes:
        name: of the wording: ``default``, ``length``, or what a planted world calls its own.
        body: the context without the legend; ``{passage}`` is the passage or story. It ends in a word: tokenizers
            that join a full stop with the line ends after it would otherwise merge context and instruction.
        instructions: arm -> question or command. Tracking: ``{person}`` is whose item is asked for, ``{name}`` who may
            have been mentioned. Supplied: ``{label}`` is the value that is given.
        legend: the lookup table, ``{entries}`` its entries.
        entry: one of them.
        cue: last line of every prompt.
        symbols: what the table may give.
        verdicts: the control arm's answers (and tracking's automatic one's), yes and no.
        span: whether span arms must have as many tokens and a tail in common.
    """

    name: str
    body: str
    instructions: Mapping[str, str]
    legend: str = "Key: {entries}."
    entry: str = "{label} = {symbol}"
    cue: str = CUE
    symbols: Sequence[str] = SYMBOLS
    verdicts: tuple[str, str] = VERDICTS
    span: bool = False

    def table(self, symbols: Mapping[str, str]) -> str:
        """The legend's line for candidate -> symbol."""
        entries = (self.entry.format(label=label, symbol=symbol) for label, symbol in symbols.items())
        return self.legend.format(entries=", ".join(entries))

    def context(self, passage: str, table: str = "") -> str:
        """What all arms share; ``table`` stands before the passage where the legend is matched."""
        return (f"{table}\n" if table else "") + self.body.format(passage=passage)

    def instruction(self, arm: str, table: str = "", **names: str) -> str:
        """An arm's instruction with its cue; ``table`` stands before it where the legend is not matched."""
        return (f"{table}\n" if table else "") + self.instructions[arm].format(**names) + f"\n{self.cue}"


PASSAGE, STORY = "Passage:\n{passage}\nEnd", "Story:\n{passage}\nEnd"

LANGUAGE = {
    "default": Wording(
        name="default",
        body=PASSAGE,
        instructions={
            "automatic": "Continue the passage.",
            "report": "Which language is the passage written in?",
            "flexible": "Which letter does the key give for the language of the passage?",
            "control": "Does the passage contain a question mark?",
            "supplied": "Which letter does the key give for {label}?",
        },
    ),
    "length": Wording(
        name="length",
        body=PASSAGE,
        instructions={
            "automatic": "Write the very next word that comes after the passage above.",
            "report": "Write the full name of the language of the passage above.",
            "flexible": "Write the key letter for the language of the passage above.",
            "control": "Write whether any question mark is used in the passage above.",
            "supplied": "Write the key letter for {label}.",
        },
        span=True,
    ),
}
"""Wordings of the language family."""

TRACKING = {
    "default": Wording(
        name="default",
        body=STORY,
        instructions={
            "automatic": "Can the item {person} has now be eaten?",
            "report": "Which item does {person} have now?",
            "flexible": "Which letter does the key give for the item {person} has now?",
            "control": "Does the story mention {name}?",
        },
    ),
    "length": Wording(
        name="length",
        body=STORY,
        instructions={
            "automatic": "Write whether it is food that {person} has at the end.",
            "report": "Write which of the four items {person} has at the end.",
            "flexible": "Write the key letter of what {person} has at the end.",
            "control": "Write whether {name} is named in the story before the end.",
        },
        span=True,
    ),
}
"""Wordings of the tracking family."""


def without_cue(record: Record, cue: str = CUE) -> Record:
    """The record with its instruction's last line, the answer cue, left out: what the cue alone does to a readout."""
    return dataclasses.replace(record, instruction=record.instruction.removesuffix(f"\n{cue}"))
