"""The header of a GGUF file: its keys and its tensors, not yet unpacked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lensproof.errors import LensproofError

if TYPE_CHECKING:
    from gguf import GGUFReader, ReaderField, ReaderTensor

_MISSING = object()


@dataclass(frozen=True)
class Gguf:
    """An open GGUF file.

    Attributes:
        path: the file.
        reader: the gguf package's reader of it.
    """

    path: Path
    reader: GGUFReader

    @property
    def architecture(self) -> str:
        """The name under which llama.cpp knows the architecture, ``llama`` or ``gemma3``."""
        return self.value("general.architecture")

    @property
    def tensors(self) -> dict[str, ReaderTensor]:
        """Name -> tensor, still packed."""
        return {tensor.name: tensor for tensor in self.reader.tensors}

    def value(self, key: str, default: Any = _MISSING) -> Any:
        """The value of a metadata key.

        Raises:
            LensproofError: the file lacks the key and there is no default.
        """
        field = self.reader.get_field(key)
        if field is not None:
            return self._contents(key, field)
        if default is _MISSING:
            raise LensproofError(f"{self.path} lacks the metadata key {key}: it cannot be converted")
        return default

    def _contents(self, key: str, field: ReaderField) -> Any:
        try:
            return field.contents()
        except UnicodeDecodeError as error:
            raise LensproofError(f"{self.path}: the metadata key {key} is not valid UTF-8: fetch it again") from error

    def number(self, key: str, default: Any = _MISSING) -> float:
        """A float32 value as the decimal number it was written from: 1e-05, not 9.999999747378752e-06."""
        return float(str(np.float32(self.value(key, default))))

    def own(self, key: str, default: Any = _MISSING) -> Any:
        """The value of a key of the file's own architecture: ``own("block_count")`` is ``llama.block_count``."""
        return self.value(f"{self.architecture}.{key}", default)

    def own_number(self, key: str, default: Any = _MISSING) -> float:
        """Like :meth:`own`, for a float32 value."""
        return self.number(f"{self.architecture}.{key}", default)


def open_gguf(path: str | Path) -> Gguf:
    """Read the header of a GGUF file.

    Raises:
        LensproofError: no such file, or not a whole GGUF file.
    """
    from gguf import GGUFReader

    try:
        return Gguf(Path(path), GGUFReader(path))
    except FileNotFoundError as error:
        raise LensproofError(f"{path} does not exist: get it with `lensproof fetch`") from error
    except (ValueError, IndexError, KeyError, OverflowError, MemoryError) as error:  # what broken bytes lead to
        raise LensproofError(f"{path} is not a whole GGUF file ({error}): remove it and fetch it again") from error
