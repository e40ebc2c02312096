"""The methods of reading, as tables name them, and the order in which they stand."""

from __future__ import annotations

from collections.abc import Iterable

MODEL = "model"
"""The model's own reading."""
LENSES = ("logit_lens", "jacobian_lens")
FRAME = "lexframe_"
"""A lexical reference frame of order n is ``lexframe_n``."""


def in_order(methods: Iterable[str]) -> list[str]:
    """Each method once: lenses, then reference frames by order, then the model itself."""
    return sorted(set(methods), key=_rank)


def _rank(method: str) -> tuple[int, int, str]:
    if method in LENSES:
        return (0, LENSES.index(method), method)
    order = method.removeprefix(FRAME)
    return (2 if method == MODEL else 1, int(order) if order.isdecimal() else 0, method)
