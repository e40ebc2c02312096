"""Where a verdict enters the chain from sources to estimates: how much of it stands on this machine, unchanged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lensproof.errors import LensproofError
from lensproof.files import read_provenance
from lensproof.provenance import sha256

Entry = Literal["from scratch", "from observations", "from estimates"]
LEVELS: tuple[Entry, ...] = ("from estimates", "from observations", "from scratch")
HASH_LIMIT = 64 * 2**20
"""Bytes. Larger inputs (weights) are only looked for: hashing gigabytes for each claim would take longer than it."""


@dataclass(frozen=True)
class Link:
    """One file that an estimate rests on.

    Attributes:
        path: where it stands.
        sha256: as recorded by the step that read it; None for the estimates themselves.
        depth: 0 the estimates, 1 the observations, more the artifacts that these were made from.
        intact: here, and unchanged where it is small enough to hash.
    """

    path: str
    sha256: str | None
    depth: int
    intact: bool


def chain(estimates: str | Path) -> list[Link]:
    """Every file that an estimates table rests on, as far as provenance leads, each once."""
    start = Link(str(estimates), None, 0, Path(estimates).is_file())
    found = {start.path: start}
    waiting = [start]
    while waiting:
        for link in _inputs(waiting.pop(0)):
            if link.path not in found:
                found[link.path] = link
                waiting.append(link)
    return list(found.values())


def weakest(levels: Iterable[Entry]) -> Entry:
    """Where a verdict on several estimates tables enters."""
    return min(levels, key=LEVELS.index)


def entry(links: list[Link]) -> Entry:
    """The entry level that a chain supports."""
    observations = [link for link in links if link.depth == 1]
    if not observations or not all(link.intact for link in observations):
        return "from estimates"
    upstream = [link for link in links if link.depth > 1]
    return "from scratch" if upstream and all(link.intact for link in upstream) else "from observations"


def _inputs(link: Link) -> Iterator[Link]:
    try:
        provenance = read_provenance(link.path) if link.intact else {}
    except (LensproofError, OSError):
        return  # a source: nothing was recorded for it
    for item in provenance.get("inputs", {}).values():
        yield Link(item["path"], item["sha256"], link.depth + 1, _intact(item["path"], item["sha256"]))


def _intact(path: str, recorded: str) -> bool:
    file = Path(path)
    if not file.is_file():
        return False
    return file.stat().st_size > HASH_LIMIT or sha256(file) == recorded
