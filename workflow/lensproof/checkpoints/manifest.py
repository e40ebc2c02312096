"""A checkpoint's ``checkpoint.json``: what its folder holds. Written last, so a folder that has it is whole."""

from __future__ import annotations

import re
from pathlib import Path

from lensproof.errors import LensproofError
from lensproof.files import damaged, read_json
from lensproof.presets import command_for

MANIFEST = "checkpoint.json"


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
    value = read_json(path, "sha256")["sha256"]
    if not isinstance(value, str) or not re.fullmatch(r"[0-9a-f]{64}", value):
        raise damaged(path, f"its sha256 is {value!r}")
    return value
