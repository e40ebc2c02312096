"""Bars that say how far a long step is and how long it will still take."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TypeVar

from tqdm.auto import tqdm

T = TypeVar("T")
SOON = 2.0
"""Seconds: what is done by then needs no bar."""


def bar(items: Iterable[T], what: str, *, total: int | None = None, unit: str = "it", delay: float = 0) -> Iterable[T]:
    """Iterate over ``items`` while a bar on stderr shows the share done and the time left.

    Away from a terminal (a log file, a CI run) it prints a line every ten seconds instead of redrawing. With
    ``delay``, it shows only what takes longer than so many seconds.
    """
    interval = 0.2 if sys.stderr.isatty() else 10.0
    return tqdm(items, desc=what, total=total, unit=unit, mininterval=interval, delay=delay, file=sys.stderr)
