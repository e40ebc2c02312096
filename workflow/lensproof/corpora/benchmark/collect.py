"""Parallel passages in the registry, wherever they come from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lensproof.checkpoints.hub import snapshot
from lensproof.config import HubSource, ParallelPassages
from lensproof.corpora.benchmark.passages import Passage, load
from lensproof.provenance import record, sha256


def collect(name: str, entry: ParallelPassages, room: Path) -> tuple[list[Passage], dict[str, Any]]:
    """The passages of an entry in all its languages, and their provenance.

    Args:
        name: in the registry.
        entry: its entry.
        room: a folder that downloads may fill.

    Raises:
        LensproofError: a source that cannot be had, or holds no parallel passages.
    """
    source = entry.source
    if isinstance(source, HubSource):
        snapshot(source, room)
    folder = room if isinstance(source, HubSource) else Path(source.path)
    found = load(folder, entry.format)
    digests = {path.name: sha256(path) for path in sorted(folder.rglob("*")) if path.is_file()}
    settings = {"name": name, "title": entry.title, "licence": entry.licence, "format": entry.format}
    return found, record("records", {}, files=digests, source=source.model_dump(mode="json"), **settings)
