"""Where Gathered reads: its band of layers, in this project's numbering.

The paper counts layers by block, its layer k being block k's output; here that is layer k + 1, 0 being the embedding.
This is the one place where one becomes the other.
"""

from __future__ import annotations

LOW, HIGH = 0.38, 0.92
"""Ends of the band as shares of the number of blocks L (Gathered section 2)."""
FLOOR = 16
"""Positions below this are never read: no lens is fitted there."""


def from_paper(layer: int) -> int:
    """Our layer for the paper's."""
    return layer + 1


def to_paper(layer: int) -> int:
    """The paper's layer for ours; the embedding has none and is -1."""
    return layer - 1


def band(depth: int) -> range:
    """The layers of the band of a model of L = ``depth`` blocks, in our numbering: the paper's round(0.38 L) to
    round(0.92 L), both inside, at most L - 1."""
    low, high = round(LOW * depth), min(round(HIGH * depth), depth - 1)
    return range(from_paper(low), from_paper(high) + 1)
