"""Room to work in beside a result: cleared in every case, and after a kill by the next run."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from lensproof.errors import LensproofError


@contextlib.contextmanager
def scratch(path: str | Path) -> Iterator[Path]:
    """A folder beside ``path``, on the same disk, that is gone when the block ends.

    A process that is killed leaves its folder behind; the next one that works on the same ``path`` removes it. A
    folder in use is known by the lock that its process holds, which the system lets go of when the process ends.

    Raises:
        LensproofError: no space or no permission, here or inside the block.
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _sweep(path)
        folder = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent))
    except OSError as error:
        raise _explained(path, error) from error
    handle = os.open(folder, os.O_RDONLY)
    try:
        _lock(handle)
        yield folder
    except OSError as error:
        raise _explained(path, error) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(handle)


def install(folder: Path, out: str | Path, last: str) -> None:
    """Move the files of ``folder`` into the folder ``out``, in place of files of the same kinds.

    ``last`` goes first and comes last, so that where it stands, all that it stands for is there too.
    """
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    (out / last).unlink(missing_ok=True)
    files = sorted(folder.iterdir(), key=lambda path: path.name == last)
    kinds = {path.suffix for path in files}
    for old in out.iterdir():
        if old.is_file() and old.suffix in kinds:
            old.unlink()
    for file in files[:-1]:
        shutil.copymode(files[-1], file)  # safetensors makes files that only their owner reads
    for file in files:
        os.replace(file, out / file.name)


def _explained(path: Path, error: OSError) -> LensproofError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return LensproofError(f"no space left to write {path}: free some disk and run the same command again")
    where = f" ({error.filename})" if error.filename else ""
    return LensproofError(f"cannot make {path}: {error.strerror or error}{where}")


def _lock(handle: int) -> bool:
    """Whether nobody else holds it. Where the file system knows no locks, somebody always does."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _sweep(path: Path) -> None:
    left = re.compile(rf"\.{re.escape(path.name)}\.[a-z0-9_]{{8}}\.part")
    for folder in path.parent.iterdir():
        if not left.fullmatch(folder.name) or not folder.is_dir():
            continue
        handle = os.open(folder, os.O_RDONLY)
        try:
            if _lock(handle):
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(handle)
