"""Writing files so that each exists whole or not at all, and reading them back.

Every artifact and table of the project goes through here: it is written beside its final place under a
temporary name, flushed to disk and renamed, so that a killed process never leaves half a file under a name
that a later step would trust. Provenance travels inside Parquet and safetensors files, and beside any other.
So does a digest of what was written: a file that is another when it is read is refused.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lensproof.errors import LensproofError
from lensproof.presets import command_for

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    import torch

PROVENANCE_KEY = "lensproof"
DIGEST_KEY = "sha256"
"""Of the content, as it was written: in the header of a safetensors file, the metadata of a Parquet file, a JSON file
itself, or the provenance beside any other."""

TYPICAL, JACOBIAN, TUNED, PROBE = "typical attention", "a Jacobian lens", "a tuned lens", "a ridge probe"
_KINDS = {
    TYPICAL: r"slope",
    JACOBIAN: r"layer_\d+",
    TUNED: r"layer_\d+\.(trained|start)\.\w+",
    PROBE: r"labels",
    "weights of a checkpoint": r"(model|transformer|lm_head)\..+",
}
"""What a safetensors file holds, and the name of a tensor by which it is told."""


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


def write_sealed(path: str | Path, value: Mapping[str, Any]) -> None:
    """Write a mapping as JSON that holds a digest of its own content."""
    write_json(path, {**value, DIGEST_KEY: _json_digest(value)})


def _json_digest(value: Mapping[str, Any]) -> str:
    """The sha256 of a mapping, apart from the one that it holds.

    Raises:
        ValueError: a number in it is not finite.
    """
    content = {key: item for key, item in value.items() if key != DIGEST_KEY}
    text = json.dumps(content, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def absent(path: str | Path) -> LensproofError:
    """What is said of a file that does not exist."""
    build = command_for(path)
    return LensproofError(f"{path} does not exist: {f'build it with `{build}`' if build else 'correct the path'}")


def damaged(
    path: str | Path, why: object, target: str | Path | None = None, fault: str = "is damaged"
) -> LensproofError:
    """What is said of a file that cannot be what its step wrote: one line, however long the reason.

    To remove it is advised only where a rule makes it again.

    Args:
        path: the file or folder.
        why: what is wrong with it.
        target: the file by which the workflow knows it, where that is another.
        fault: what is said to have happened to it.
    """
    reason, build = " ".join(str(why).split())[:200], command_for(target or path)
    if build is None:
        return LensproofError(f"{path} {fault}, or not what is needed here ({reason}): give another")
    return LensproofError(f"{path} {fault} ({reason}): remove it and build it again with `{build}`")


def changed(path: str | Path, why: object) -> LensproofError:
    """What is said of a file that is not as its step wrote it, by :func:`damaged`."""
    return damaged(path, why, fault="is damaged or was changed by hand")


def read_json(path: str | Path, *keys: str) -> Any:
    """Read a JSON file.

    Args:
        path: the file.
        keys: that it must have, as a mapping.

    Raises:
        LensproofError: it is missing, broken or without one of the keys; the line names the file.
    """
    try:
        value = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise absent(path) from error
    except (OSError, ValueError) as error:
        raise damaged(path, f"it is not valid JSON: {error}") from error
    for key in keys:
        if not isinstance(value, dict) or key not in value:
            raise damaged(path, f"it has no {key}")
    return value


def read_sealed(path: str | Path) -> dict[str, Any]:
    """Read a JSON file that :func:`write_sealed` wrote.

    Raises:
        LensproofError: it is missing, broken or not what was written; the line names the file.
    """
    value = read_json(path)
    if not isinstance(value, dict):
        raise damaged(path, "it is no JSON object")
    try:
        digest = _json_digest(value)
    except ValueError as error:
        raise changed(path, f"a number or a text in it cannot be: {error}") from error
    if DIGEST_KEY not in value:
        build = command_for(path)
        mend = f"remove it and judge it again with `{build}`" if build else "judge it again with `lensproof judge`"
        raise LensproofError(f"{path} holds no sha256 of its content, as one of an earlier version: {mend}")
    if value[DIGEST_KEY] != digest:
        raise changed(path, "it is not what was written")
    return value


def write_parquet(path: str | Path, table: pd.DataFrame, provenance: Mapping[str, Any]) -> None:
    """Write a table with its provenance and its digest in the file's schema metadata."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    arrow = pa.Table.from_pandas(table, preserve_index=False)
    own = {PROVENANCE_KEY: _dumps(provenance), DIGEST_KEY: _table_digest(arrow)}
    metadata = {**(arrow.schema.metadata or {}), **{key.encode(): value.encode() for key, value in own.items()}}
    with atomic(path) as temporary:
        pq.write_table(arrow.replace_schema_metadata(metadata), temporary, compression="zstd")


def read_parquet(path: str | Path, needs: Collection[str] = ()) -> pd.DataFrame:
    """Read a table that :func:`write_parquet` wrote.

    Args:
        path: the file.
        needs: columns that it must have.

    Raises:
        LensproofError: it is missing, no Parquet, not what was written or without one of the columns; the line names
            the file.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        arrow = pq.read_table(path)
        digest = (arrow.schema.metadata or {}).get(DIGEST_KEY.encode())
        # Files of earlier versions have none.
        whole = digest is None or digest.decode() == _table_digest(arrow)
        table = arrow.to_pandas()
    except FileNotFoundError as error:
        raise absent(path) from error
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
        if Path(path).suffix in (".safetensors", ".csv", ".json"):
            raise LensproofError(f"{path} is no Parquet file: give one whose name ends in .parquet") from error
        raise damaged(path, f"it is not readable as Parquet: {error}") from error
    if not whole:
        raise changed(path, "its cells are not those that were written")
    return _having(needs, table, path, whole=digest is not None)


def _table_digest(table: pa.Table) -> str:
    """The sha256 of a table: names, kinds and cells of its columns, in whatever pieces they are kept."""
    digest = hashlib.sha256()
    for name in table.column_names:
        digest.update(f"{name} {table.num_rows}\n".encode())
        for part in _cells(table[name].combine_chunks()):
            digest.update(part)
    return digest.hexdigest()


def _cells(cells: pa.Array) -> Iterator[bytes]:
    """What a column holds: where nothing is missing, and the rest by its kind."""
    import pyarrow.compute as pc
    from pyarrow import types

    if types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    yield cells.is_valid().to_numpy(zero_copy_only=False).tobytes()
    cells, kind = cells.drop_null(), cells.type
    if types.is_list(kind) or types.is_large_list(kind):
        yield from _cells(pc.list_value_length(cells))
        yield from _cells(cells.flatten())
    elif types.is_string(kind) or types.is_large_string(kind):
        words = cells.dictionary_encode()  # a text is mostly one of a few names
        yield from _cells(words.indices)
        yield json.dumps(words.dictionary.to_pylist()).encode()
    elif types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind):
        yield f"{kind}\n".encode()
        yield cells.to_numpy(zero_copy_only=False).tobytes()
    else:
        yield json.dumps([str(cell) for cell in cells.to_pylist()]).encode()


def read_table(path: str | Path, needs: Collection[str] = ()) -> pd.DataFrame:
    """Read a table, CSV or Parquet by its name; arguments and errors as for :func:`read_parquet`."""
    import pandas as pd

    if Path(path).suffix != ".csv":
        return read_parquet(path, needs)
    try:
        table = pd.read_csv(path)
    except FileNotFoundError as error:
        raise absent(path) from error
    except (OSError, ValueError) as error:  # pandas' own are ValueErrors
        raise damaged(path, f"it is not readable as CSV: {error}") from error
    return _having(needs, table, path)


def read_benchmark(path: str | Path) -> pd.Series:
    """The last measurement in a benchmark file of Snakemake: ``cpu_time``, ``s`` and ``max_rss``, missing where not
    measured.

    Raises:
        LensproofError: the file is something else.
    """
    import pandas as pd

    try:
        return pd.read_csv(path, sep="\t", na_values="NA").iloc[-1][["cpu_time", "s", "max_rss"]].astype(float)
    except (OSError, ValueError, KeyError, IndexError) as error:
        mend = "remove it; its times are then missing" if command_for(path) else "give another file"
        raise LensproofError(f"{path} is no benchmark of Snakemake ({error}): {mend}") from error


def _having(columns: Collection[str], table: pd.DataFrame, path: str | Path, *, whole: bool = False) -> pd.DataFrame:
    """The table, if it has the columns; one that is known to be whole is another, and not to be removed."""
    missing = [name for name in columns if name not in table]
    if missing:
        build = None if whole else command_for(path)
        again = f", or remove it and build it again with `{build}`" if build else ""
        raise LensproofError(f"{path} has no column {', '.join(missing)}: give another file{again}")
    return table


def write_safetensors(path: str | Path, tensors: Mapping[str, torch.Tensor], provenance: Mapping[str, Any]) -> None:
    """Write tensors with their provenance in the header."""
    from safetensors.torch import save_file

    whole = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    header = {PROVENANCE_KEY: _dumps(provenance), DIGEST_KEY: _digest(whole)}
    with atomic(path) as temporary:
        save_file(whole, temporary, metadata=header)


def read_safetensors(path: str | Path, wanted: str | None = None) -> dict[str, torch.Tensor]:
    """Read the tensors of a safetensors file.

    Args:
        path: the file.
        wanted: what it should hold, :data:`TYPICAL` or another of these.

    Raises:
        LensproofError: it is missing, no safetensors, not what was written, has an entry that is not finite, or holds
            something else than is wanted.
    """
    import torch
    from safetensors import SafetensorError, safe_open

    if not Path(path).exists():
        raise absent(path)
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # it is no mapping
            digest = (file.metadata() or {}).get(DIGEST_KEY)
    except (SafetensorError, OSError, ValueError) as error:
        if Path(path).suffix != ".safetensors":
            raise LensproofError(f"{path} is no safetensors file: give one with {wanted or 'tensors'}") from error
        raise damaged(path, f"it is not readable as safetensors: {error}") from error
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            raise damaged(path, f"{name} has an entry that is not finite")
    # Files of earlier versions have none.
    if digest is not None and digest != _digest(tensors):
        raise changed(path, "its numbers are not those that were written")
    found = [kind for kind, name in _KINDS.items() if any(re.fullmatch(name, tensor) for tensor in tensors)]
    if wanted and found and wanted not in found:
        raise LensproofError(f"{path} holds {found[0]}, but {wanted} is wanted here: give the file of that")
    return tensors


def check_shapes(path: str | Path, tensors: Mapping[str, torch.Tensor], shapes: Mapping[str, Sequence[str]]) -> None:
    """Check names and shapes of the tensors of a file.

    Args:
        path: the file.
        tensors: what it holds.
        shapes: name -> its dimensions, each by a name; dimensions of one name must be equal.

    Raises:
        LensproofError: a tensor is missing, unknown or of another shape.
    """
    if set(tensors) != set(shapes):
        raise damaged(path, f"it holds {', '.join(sorted(tensors)[:4]) or 'nothing'}, not {', '.join(shapes)}")
    sizes: dict[str, int] = {}
    for name, dimensions in shapes.items():
        found = list(tensors[name].shape)
        sizes = {**dict(zip(dimensions, found, strict=False)), **sizes}
        if found != [sizes.get(dimension) for dimension in dimensions]:
            raise damaged(path, f"{name} is {found}, not [{', '.join(dimensions)}]")


def layer_number(path: str | Path, name: str) -> int:
    """``layer_003`` as 3.

    Raises:
        LensproofError: the name is another, so ``path`` does not hold what it should.
    """
    number = name.removeprefix("layer_")
    if not number.isdecimal():
        raise damaged(path, f"it holds {name}")
    return int(number)


def _digest(tensors: Mapping[str, torch.Tensor]) -> str:
    """The sha256 of the tensors: names, types, shapes and numbers."""
    import torch

    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


def read_provenance(path: str | Path) -> dict[str, Any]:
    """The provenance of a Parquet, safetensors or any other file (from its ``.provenance.json``).

    Raises:
        LensproofError: the file is missing or damaged.
    """
    path = Path(path)
    if path.suffix not in (".parquet", ".safetensors"):
        return read_json(provenance_path(path))
    if not path.exists():
        raise absent(path)
    try:
        return json.loads(_header(path) or "{}")
    except Exception as error:  # each format has errors of its own
        raise damaged(path, error) from error


def _header(path: Path) -> str | bytes | None:
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        return (pq.read_schema(path).metadata or {}).get(PROVENANCE_KEY.encode())
    from safetensors import safe_open

    with safe_open(path, framework="np") as handle:
        return (handle.metadata() or {}).get(PROVENANCE_KEY)


def provenance_path(path: str | Path) -> Path:
    """Where the provenance of a file that cannot hold its own stands: ``table1.provenance.json``."""
    path = Path(path)
    return path.with_name(f"{path.stem}.provenance.json")


def _dumps(provenance: Mapping[str, Any]) -> str:
    return json.dumps(provenance, sort_keys=True, ensure_ascii=False)
