"""Random draws that are the same on every machine and in every version of anything."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")


class Draws:
    """A stream of draws that depends on its key alone: SHA-256 of the key and a counter.

    Python's and numpy's generators promise no stream across versions, and record files must be equal byte for byte.
    Streams with different keys are independent: what is drawn from one moves nothing in another.
    """

    def __init__(self, *key: str | int) -> None:
        self._key, self._drawn = "/".join(map(str, key)), 0

    def below(self, count: int) -> int:
        """One of 0 .. count - 1, all alike (up to 2**-64)."""
        digest = hashlib.sha256(f"{self._key}/{self._drawn}".encode()).digest()
        self._drawn += 1
        return int.from_bytes(digest[:8], "big") * count >> 64

    def choice(self, items: Sequence[Item]) -> Item:
        """One of ``items``."""
        return items[self.below(len(items))]

    def sample(self, items: Sequence[Item], count: int) -> list[Item]:
        """``count`` of ``items`` without replacement, in random order."""
        left = list(items)
        return [left.pop(self.below(len(left))) for _ in range(count)]

    def shuffled(self, items: Sequence[Item]) -> list[Item]:
        """All ``items`` in random order."""
        return self.sample(items, len(items))


class Deck:
    """Items dealt in random order, each once before any comes again."""

    def __init__(self, items: Sequence[Item], *key: str | int) -> None:
        self._items, self._key = list(items), key
        self._left: list[Item] = []
        self._rounds = 0

    def deal(self) -> Item:
        """The next one."""
        if not self._left:
            self._left = Draws(*self._key, self._rounds).shuffled(self._items)
            self._rounds += 1
        return self._left.pop()
