"""A checkpoint's ``checkpoint.json``: what its folder holds. Written last, so a folder that has it is whole."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lensproof.errors import LensproofError
from lensproof.files import damaged, read_json
from lensproof.presets import command_for

MANIFEST = "checkpoint.json"
_KEYS = {
    **dict.fromkeys(("name", "title", "licence", "architecture", "sha256"), str),
    **dict.fromkeys(("layers", "width", "vocabulary"), int),
    "tied": bool,
    **dict.fromkeys(("weights", "provenance"), dict),
}
"""What it holds, and of which type."""


def existing(directory: str | Path) -> Path:
    """The folder itself, if it holds a checkpoint: its own ``config.json``, and no manifest that is damaged.

    Raises:
        LensproofError: it does not.
    """
    directory = Path(directory)
    if not (directory / "config.json").is_file():
        build = command_for(directory / MANIFEST)
        mend = f"build it with `{build}`" if build else "give the folder of one"
        raise LensproofError(f"no checkpoint in {directory}: {mend}")
    if (directory / MANIFEST).exists():
        digest(directory)
    return directory


def digest(directory: str | Path) -> str:
    """The sha256 of the weights, as the manifest says.

    Raises:
        LensproofError: there is no manifest, or it is damaged.
    """
    path = Path(directory) / MANIFEST
    value = read_json(path, *_KEYS)
    for why in _wrong(value):
        raise damaged(path, why)
    return value["sha256"]


def _wrong(value: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with a manifest that has all keys, the worst first."""
    for key, kind in _KEYS.items():
        if type(value[key]) is not kind or (kind is int and value[key] < 1):
            yield f"its {key} is {value[key]!r}"
    for name, found in [("sha256", value["sha256"]), *value["weights"].items()]:
        if not isinstance(found, str) or not re.fullmatch(r"[0-9a-f]{64}", found):
            yield f"its sha256 is {found!r}" if name == "sha256" else f"the sha256 of {name} is {found!r}"
    if value["sha256"] != joint(value["weights"]):
        yield "its sha256 is not that of its weights"


def joint(digests: Mapping[str, str]) -> str:
    """One number for all weights: what ``sha256sum *.safetensors | sha256sum`` prints."""
    lines = "".join(f"{digest}  {name}\n" for name, digest in sorted(digests.items()))
    return hashlib.sha256(lines.encode()).hexdigest()
