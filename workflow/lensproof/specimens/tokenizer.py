"""Tokenizers of models that are made from others."""

from __future__ import annotations

import shutil
from pathlib import Path

_FILES = ("tokenizer*", "special_tokens_map.json", "vocab.*", "merges.txt", "*.jinja")


def copy_tokenizer(base: Path, out: Path) -> None:
    """Copy a checkpoint's tokenizer from its folder to another."""
    for pattern in _FILES:
        for path in base.glob(pattern):
            shutil.copyfile(path, out / path.name)
