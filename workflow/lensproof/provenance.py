"""Where a result comes from: versions, commit, configuration, inputs, machine and time.

A record made with :func:`record` is written into every artifact and table. It is for people and for audits;
nothing is ever computed from it, and Snakemake does not see it.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import os
import platform
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import lensproof
from lensproof import presets
from lensproof.codehash import code_hash

CONFIG_HASH_VARIABLE = "LENSPROOF_CONFIG_HASH"
LIBRARIES = ("torch", "transformers", "tokenizers", "numpy", "scipy", "pandas", "pyarrow", "safetensors", "snakemake")

_started = time.perf_counter()


def record(
    step: str, inputs: Mapping[str, str | Path] | None = None, modules: Sequence[str] = (), **settings: Any
) -> dict[str, Any]:
    """The provenance of what ``step`` (a command's name) is about to write.

    Args:
        step: name of the command; the hash of its code goes in.
        inputs: name of each input -> its path; the sha256 goes in.
        modules: dotted names of modules that the step found by name; their code goes into the hash too.
        settings: the step's own settings (seed, device, precision, batch size, ...), plain types only.
    """
    return {
        "package": f"lensproof {lensproof.__version__}",
        "commit": commit(),
        "step": step,
        "code": code_hash(step, *modules),
        "config": os.environ.get(CONFIG_HASH_VARIABLE),
        "preset": os.environ.get(presets.VARIABLE),
        "inputs": {name: {"path": str(path), "sha256": sha256(path)} for name, path in (inputs or {}).items()},
        "settings": settings,
        "libraries": {"python": platform.python_version(), **_versions()},
        "machine": {"system": platform.system(), "processor": platform.machine(), "threads": _threads()},
        "wall_seconds": round(time.perf_counter() - _started, 3),
    }


def sha256(path: str | Path) -> str:
    """The sha256 of a file, in hexadecimal."""
    with open(path, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


@functools.cache
def commit() -> str | None:
    """The commit of the checkout that the package runs from, with ``+`` when it has changes; None outside git."""
    root = Path(__file__).parent
    try:
        head = _git(root, "rev-parse", "HEAD")
        return head + ("+" if _git(root, "status", "--porcelain", "--", str(root)) else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(root: Path, *arguments: str) -> str:
    result = subprocess.run(
        ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True, timeout=10
    )
    return result.stdout.strip()


@functools.cache
def _versions() -> dict[str, str]:
    versions = {}
    for name in LIBRARIES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def _threads() -> int | None:
    torch = sys.modules.get("torch")
    return torch.get_num_threads() if torch else None
