"""Snakemake on this checkout's workflow, with its results in another folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def linked(root: Path, folder: Path) -> Path:
    """The folder, with what the workflow reads by relative path."""
    for name in ("config.yaml", "workflow", "paper"):
        (folder / name).symlink_to(root / name)
    return folder


def command(folder: Path, *arguments: str) -> list[str]:
    """To be run in the project's folder."""
    return [sys.executable, "-m", "snakemake", "--cores", "2", "--directory", str(folder), *arguments]


def snakemake(root: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The same, run to its end."""
    return subprocess.run(command(folder, *arguments), cwd=root, capture_output=True, text=True, timeout=600)
