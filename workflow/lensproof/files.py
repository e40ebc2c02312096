"""Writing files so that each exists whole or not at all, and reading them back.

Every artifact and table of the project goes through here: it is written beside its final place under a
temporary name, flushed to disk and renamed, so that a killed process never leaves half a file under a name
that a later step would trust. Provenance travels inside Parquet and safetensors files, and beside any other.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lensproof.errors import LensproofError
from lensproof.presets import command_for

if TYPE_CHECKING:
    import pandas as pd
    import torch

PROVENANCE_KEY = "lensproof"


@contextlib.contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; rename it to ``path`` if the block ends well, else remove it.

    Raises:
        LensproofError: no space or no permission, naming the file.
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    except OSError as error:
        raise _unwritable(path, error) from error
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with open(temporary, "rb") as written:
            os.fsync(written.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except OSError as error:
        raise _unwritable(path, error) from error
    finally:
        temporary.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _unwritable(path: Path, error: OSError) -> LensproofError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return LensproofError(f"no space left to write {path}: free some disk and run the same command again")
    return LensproofError(f"cannot write {path}: {error.strerror or error}")


def write_text(path: str | Path, text: str) -> None:
    """Write ``text`` as UTF-8."""
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: str | Path, value: Any) -> None:
    """Write ``value`` as indented JSON with sorted keys."""
    write_text(path, json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n")


def read_json(path: str | Path) -> Any:
    """Read a JSON file; a missing or broken one is an error that names it."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise LensproofError(f"{path} does not exist: build it with `{command_for(path)}`") from error
    except ValueError as error:
        raise LensproofError(f"{path} is not valid JSON ({error}): remove it and build it again") from error


def write_parquet(path: str | Path, table: pd.DataFrame, provenance: Mapping[str, Any]) -> None:
    """Write a table with its provenance in the file's schema metadata."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    arrow = pa.Table.from_pandas(table, preserve_index=False)
    metadata = {**(arrow.schema.metadata or {}), PROVENANCE_KEY.encode(): _dumps(provenance).encode()}
    with atomic(path) as temporary:
        pq.write_table(arrow.replace_schema_metadata(metadata), temporary, compression="zstd")


def read_parquet(path: str | Path, columns: list[str] | None = None) -> pd.DataFrame:
    """Read a table that :func:`write_parquet` wrote."""
    import pandas as pd

    try:
        return pd.read_parquet(path, columns=columns)
    except FileNotFoundError as error:
        raise LensproofError(f"{path} does not exist: build it with `{command_for(path)}`") from error


def read_table(path: str | Path) -> pd.DataFrame:
    """Read a table, CSV or Parquet by its name."""
    import pandas as pd

    if Path(path).suffix != ".csv":
        return read_parquet(path)
    try:
        return pd.read_csv(path)
    except FileNotFoundError as error:
        raise LensproofError(f"{path} does not exist: build it with `{command_for(path)}`") from error


def write_safetensors(path: str | Path, tensors: Mapping[str, torch.Tensor], provenance: Mapping[str, Any]) -> None:
    """Write tensors with their provenance in the header."""
    from safetensors.torch import save_file

    with atomic(path) as temporary:
        save_file(
            {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()},
            temporary,
            metadata={PROVENANCE_KEY: _dumps(provenance)},
        )


def read_safetensors(path: str | Path) -> dict[str, torch.Tensor]:
    """Read the tensors of a safetensors file."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if not Path(path).exists():
        raise LensproofError(f"{path} does not exist: build it with `{command_for(path)}`")
    try:
        return load_file(path)
    except SafetensorError as error:
        raise LensproofError(f"{path} is not a readable safetensors file ({error})") from error


def read_provenance(path: str | Path) -> dict[str, Any]:
    """The provenance of a Parquet, safetensors or any other file (from its ``.provenance.json``)."""
    path = Path(path)
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        metadata = pq.read_schema(path).metadata or {}
        return json.loads(metadata.get(PROVENANCE_KEY.encode(), b"{}"))
    if path.suffix == ".safetensors":
        from safetensors import safe_open

        with safe_open(path, framework="np") as handle:
            return json.loads((handle.metadata() or {}).get(PROVENANCE_KEY, "{}"))
    return read_json(provenance_path(path))


def provenance_path(path: str | Path) -> Path:
    """Where the provenance of a file that cannot hold its own stands: ``table1.provenance.json``."""
    path = Path(path)
    return path.with_name(f"{path.stem}.provenance.json")


def _dumps(provenance: Mapping[str, Any]) -> str:
    return json.dumps(provenance, sort_keys=True, ensure_ascii=False)
