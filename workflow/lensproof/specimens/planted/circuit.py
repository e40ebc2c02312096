"""The circuits: one small function for each attention head and each group of neurons, in a basis that can be read.

Here every quantity has dimensions of its own (:class:`Space`), flags are 0 or 1, and a constant is read from a carrier
that all tokens share and that makes RMSNorm nearly the identity. What a seed hides (:mod:`~.weights`) comes later.

Attention scores are named after the division by the root of the head width. A head adds products of what the query
position asks for and what a key position offers; each product has a rotary pair of its own, the slowest first, so that
positions do not matter, except where a distance is wanted. The BOS token is every head's sink: a head is off where the
sink's score is highest, and copies nothing then. A neuron multiplies what it passes by SiLU(40 c) / 20: by 1 where its
condition c is +1/2, by 0 where it is -1/2.

Source: the account that "Gathered, Not Admitted" gives, and the one that it rejects (the title's two words).
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field

import torch
from torch import Tensor

from lensproof.corpora.benchmark.record import ARMS
from lensproof.specimens.planted.plan import COPY, Plan
from lensproof.specimens.planted.world import LANGUAGES, SYMBOLS

SIZES = {
    "carrier": 1,  # the same in every token
    "bos": 1,
    "keyword": 1,
    "word": 1,
    "label": 1,
    "symbol": 1,
    "question": 1,  # a question mark
    "asked": 1,  # there was one in the passage
    "arm at source": len(ARMS),  # which arm a keyword stands for
    "arm": len(ARMS),  # the arm of the prompt, from its keyword on
    "z at source": len(LANGUAGES),  # the language of a word
    "label id": len(LANGUAGES),
    "symbol id": len(SYMBOLS),
    "previous label": len(LANGUAGES),  # the label that a symbol stands beside in the table
    "supplied": len(LANGUAGES),  # the label that the instruction gives
    "copy": len(LANGUAGES),  # z at every position, which the output head does not read
    "readable": len(LANGUAGES),  # z in the form that the output head reads
    "answer symbol": len(SYMBOLS),
    "answer yes or no": 2,
    "answer opener": len(LANGUAGES),
}
"""Dimensions of the residual stream by what they hold; the others hold junk."""
NEEDED = sum(SIZES.values())

DEMAND = ("report", "flexible")
"""Arms that need z: by name, or as the operand of the table."""
ON, SINK = 40.0, 20.0
"""Score of what a head looks for, and of its sink."""
POSITIONAL = (0, 1)
"""Rotary pairs that tell distances."""
FREQUENCIES = (1.0, 10**-0.625)
"""Of these two pairs, in radians per token."""
SHARP = 40.0
"""Of a neuron's gate."""


def rotary_base(head_width: int) -> float:
    """The base that gives the first two rotary pairs :data:`FREQUENCIES`; pair i has base^(-2 i / width)."""
    return 10.0 ** (0.625 * head_width / 2)


class Space:
    """The residual stream before it is rotated. ``space["copy"]`` are the unit vectors ``[n, d]`` of that quantity, to
    read it with or to write it to."""

    def __init__(self, width: int):
        self.width = width
        self.amplitude = math.sqrt(width)
        """Of the carrier: by itself it has a mean square of 1, by which RMSNorm changes nothing."""
        ends = torch.tensor([*SIZES.values(), width - NEEDED]).cumsum(0).tolist()
        starts = [0, *ends[:-1]]
        self._rows = {name: slice(*span) for name, *span in zip([*SIZES, "junk"], starts, ends, strict=True)}
        self._units = torch.eye(width, dtype=torch.float64)

    def __getitem__(self, name: str) -> Tensor:
        return self._units[self._rows[name]]

    @property
    def one(self) -> Tensor:
        """Reads the number 1 ``[d]`` at every position."""
        return self["carrier"][0] / self.amplitude

    def arm(self, *arms: str) -> Tensor:
        """Reads ``[d]`` whether the prompt is of one of these arms, at its keyword and after it."""
        return sum(self["arm"][ARMS.index(arm)] for arm in arms)


class Head:
    """An attention head: rows that read the residual, ``query``, ``key`` and ``value`` ``[w, d]`` for a head width w,
    and columns that write to it, ``output`` ``[d, w]``."""

    def __init__(self, space: Space, width: int):
        self.query, self.key, self.value = (torch.zeros(width, space.width, dtype=torch.float64) for _ in range(3))
        self.output = self.value.T.clone()
        self._pairs = width // 2
        self._free = self._pairs - 1

    def seeks(self, asked: Tensor, offered: Tensor, score: float = 1.0) -> None:
        """Add ``score`` times the product of what the query position asks and what the key position offers, ``[d]``
        each; or, of ``[n, d]``, the sum of n products."""
        for query, key in zip(torch.atleast_2d(asked), torch.atleast_2d(offered), strict=True):
            self._multiply(self._free, query, key, score)
            self._free -= 1

    def seeks_at(self, distance: int, asked: Tensor, offered: Tensor, score: float) -> None:
        """The same, but with a factor of the mean of cos f (distance found - ``distance``) over both frequencies f."""
        for pair, frequency in zip(POSITIONAL, FREQUENCIES, strict=True):
            self._multiply(pair, asked, offered, score / len(POSITIONAL), -distance * frequency)

    def copies(self, source: Tensor, target: Tensor, gain: float = 1.0) -> None:
        """Write ``gain`` times what is read along ``source`` ``[n, d]`` along ``target`` ``[n, d]``."""
        self.value[: len(source)] = source
        self.output[:, : len(target)] = gain * target.T

    def _multiply(self, pair: int, asked: Tensor, offered: Tensor, score: float, angle: float = 0.0) -> None:
        root = math.sqrt(score * math.sqrt(2 * self._pairs))
        self.query[pair] = root * math.cos(angle) * asked
        self.query[pair + self._pairs] = root * math.sin(angle) * asked
        self.key[pair] = root * offered


@dataclass(frozen=True)
class Neurons:
    """Neurons of a gated MLP: ``gate`` and ``up`` ``[n, d]`` read the residual, ``down`` ``[d, n]`` writes to it."""

    gate: Tensor
    up: Tensor
    down: Tensor


def neurons(condition: Tensor, passed: Tensor, target: Tensor, gain: float = 1.0) -> Neurons:
    """Neurons that write ``gain`` times what is read along ``passed`` ``[n, d]`` along ``target`` ``[n, d]`` where what
    ``condition`` reads is +1/2, and nothing where it is -1/2; it is ``[d]``, or ``[n, d]`` for each its own."""
    return Neurons(SHARP * condition.expand_as(passed), passed, gain * target.T * 2 / SHARP)


@dataclass
class Circuit:
    """What is planted, by block."""

    heads: dict[int, dict[str, Head]] = field(default_factory=lambda: defaultdict(dict))
    neurons: dict[int, list[Neurons]] = field(default_factory=lambda: defaultdict(list))


def circuit(plan: Plan, space: Space) -> Circuit:
    """All heads and neurons of a plan."""
    built = Circuit()
    width = plan.head_width
    built.heads[0] = {"arm": arm(space, width), "previous label": previous_label(space, width)}
    built.heads[COPY] = {
        "copy": copy(space, width),
        "question": question(space, width),
        "supplied": supplied(space, width),
    }
    if plan.variant == "gather":
        built.heads[plan.block]["gather"] = gather(space, width, DEMAND)
    else:
        built.neurons[plan.block].append(gate(space, DEMAND))
    built.heads[plan.table]["lookup"] = lookup(space, width)
    built.neurons[plan.table] += [opener(space), yes_or_no(space)]
    if plan.decoy and plan.variant == "gather":
        built.heads[plan.late]["decoy"] = gather(space, width, ("flexible",), plan.decoy)
    elif plan.decoy:
        built.neurons[plan.late].append(gate(space, ("flexible",), plan.decoy))
    return built


def _everywhere(space: Space, width: int, key: Tensor, source: Tensor, target: Tensor) -> Head:
    """A head that brings ``source`` from positions with ``key`` to every later one, in every arm."""
    head = Head(space, width)
    head.seeks(space.one, key, ON)
    head.seeks(space.one, space["bos"], SINK)
    head.copies(source, target)
    return head


def arm(space: Space, width: int) -> Head:
    """Tells every position from the keyword on which arm the prompt is of: the demand."""
    return _everywhere(space, width, space["keyword"], space["arm at source"], space["arm"])


def previous_label(space: Space, width: int) -> Head:
    """Tells a symbol which label stands two tokens before it: the table, one entry at a time."""
    head = Head(space, width)
    head.seeks(space["symbol"], space["label"], 30)
    head.seeks_at(2, space["symbol"][0], space["label"][0], 30)
    head.seeks(space.one, space["bos"], SINK)
    head.copies(space["label id"], space["previous label"])
    return head


def copy(space: Space, width: int) -> Head:
    """Brings z from the words so far to every position, in every arm, where the output head does not read it."""
    return _everywhere(space, width, space["word"], space["z at source"], space["copy"])


def question(space: Space, width: int) -> Head:
    """Tells every position whether there was a question mark before the keyword."""
    return _everywhere(space, width, space["question"][0] - space.arm(*ARMS), space["question"], space["asked"])


def supplied(space: Space, width: int) -> Head:
    """Brings the label that stands in the instruction of the supplied arm to the positions after it."""
    head = Head(space, width)
    head.seeks(space.one, space["label"][0] + space.arm("supplied"), ON)
    head.seeks(space.one, space["bos"], ON + SINK)
    head.copies(space["label id"], space["supplied"])
    return head


def gather(space: Space, width: int, arms: tuple[str, ...], gain: float = 1.0) -> Head:
    """In these arms only, brings z from the passage to the query position in the form that the output head reads."""
    head = Head(space, width)
    head.seeks(space.arm(*arms), space["word"][0], ON)
    head.seeks(space.one, space["bos"], SINK)
    head.copies(space["z at source"], space["readable"], gain)
    return head


def gate(space: Space, arms: tuple[str, ...], gain: float = 1.0) -> Neurons:
    """In these arms only, turns the copy into the form that the output head reads."""
    return neurons(space.arm(*arms) - space.one / 2, space["copy"], space["readable"], gain)


def lookup(space: Space, width: int) -> Head:
    """Applies the table to the readable z or to the supplied label: finds the symbol beside it, and answers so.

    It is off where nothing is to be looked up: the sink is out of reach without an operand and in the other arms.
    """
    head = Head(space, width)
    head.seeks(space["readable"] + space["supplied"], space["previous label"], 60)
    head.seeks(30 * space.one + 60 * space.arm("automatic", "report", "control"), space["bos"])
    head.copies(space["symbol id"], space["answer symbol"])
    return head


def opener(space: Space) -> Neurons:
    """In the automatic arm, answers with the word that continuations in the language of the copy begin with."""
    return neurons(space.arm("automatic") - space.one / 2, space["copy"], space["answer opener"])


def yes_or_no(space: Space) -> Neurons:
    """In the control arm, answers Yes if there was a question mark and No if there was none."""
    control, asked, half = space.arm("control"), space["asked"][0], space.one / 2
    conditions = torch.stack((control + asked - 3 * half, control - asked - half))
    return neurons(conditions, space.one.expand(2, -1), space["answer yes or no"])
