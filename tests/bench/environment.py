"""The peers' environment: ``.venv-peers``, apart from this project's own.

``.venv-peers/`` is a virtual environment with what both peers run on, in the versions of this project's own lock,
and each peer lies in a folder of its own beside it, since both are versions of one package.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from lensproof.errors import LensproofError

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".venv-peers"
STAMP = FOLDER / "peers-setup"
PEERS = ("lexframe-1.0.0", "lexframe-1.3.0")

# The peers declare Python 3.12; their requirements are in the lock.
ALONE = ("--require-hashes", "--no-deps", "--ignore-requires-python")


def python() -> Path:
    """The peers' interpreter.

    Raises:
        LensproofError: their environment is missing or was made from other requirements.
    """
    if not is_complete():
        raise LensproofError("the peers are not installed: run `.venv/bin/python -m tests.bench.environment` first")
    return FOLDER / "bin" / "python"


def package(peer: str) -> Path:
    """The folder to put on a peer's Python path."""
    return FOLDER / "packages" / peer


def is_complete() -> bool:
    """Whether the environment holds what ``envs/`` names."""
    return STAMP.is_file() and STAMP.read_text() == _requirements()


def make() -> None:
    """Make the environment, unless it is complete already.

    Raises:
        LensproofError: pip or venv failed; what it said is above.
    """
    if is_complete():
        return
    shutil.rmtree(FOLDER, ignore_errors=True)
    print(f"setting up {FOLDER.name} for the peers (once; a few minutes)", file=sys.stderr)
    _run(sys.executable, "-m", "venv", FOLDER)
    _install("--requirement", "envs/torch.txt")
    _install("--require-hashes", "--no-deps", "--requirement", "envs/peers/requirements.lock")
    for peer in PEERS:
        _install(*ALONE, "--target", package(peer), "--requirement", f"envs/peers/{peer}.txt")
    STAMP.write_text(_requirements())


def _requirements() -> str:
    """What the environment must have been made from: contents, place and Python version, never file times."""
    files = [ROOT / "envs" / "torch.txt", *sorted((ROOT / "envs" / "peers").iterdir())]
    digest = hashlib.sha256(f"{sys.version_info[:2]} {FOLDER}".encode())
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _install(*arguments: str | Path) -> None:
    _run(FOLDER / "bin" / "python", "-m", "pip", "install", "--quiet", *arguments)


def _run(*command: str | Path) -> None:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    options = {"PIP_USER": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}
    if subprocess.run(command, cwd=ROOT, env=clean | options).returncode:
        shown = " ".join(map(str, command))
        raise LensproofError(f"`{shown}` failed, see above: mend that (network? disk?) and run the same command again")


if __name__ == "__main__":
    try:
        make()
    except LensproofError as error:
        sys.exit(f"bench: {error}")
