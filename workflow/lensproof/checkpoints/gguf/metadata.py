"""The header of a GGUF file: its keys, each of the type that is asked for, and its tensors, not yet unpacked."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from lensproof.errors import LensproofError
from lensproof.files import damaged

if TYPE_CHECKING:
    from gguf import GGUFReader, ReaderTensor

T = TypeVar("T")
_MISSING: Any = object()


@dataclass(frozen=True)
class Gguf:
    """An open GGUF file.

    Keys that do not begin with ``general.`` or ``tokenizer.`` are the architecture's own: ``block_count`` stands for
    ``llama.block_count``. All methods raise :class:`LensproofError` for a key that is missing without a default or
    has another type.

    Attributes:
        path: the file.
        reader: the gguf package's reader of it.
    """

    path: Path
    reader: GGUFReader

    @property
    def architecture(self) -> str:
        """The name under which llama.cpp knows the architecture, ``llama`` or ``gemma3``."""
        return self.text("general.architecture")

    @cached_property
    def vocabulary(self) -> list[str]:
        """The tokens by id."""
        return self.items("tokenizer.ggml.tokens", str)

    @cached_property
    def tensors(self) -> dict[str, ReaderTensor]:
        """Name -> tensor, still packed."""
        return {tensor.name: tensor for tensor in self.reader.tensors}

    def count(self, key: str, default: int = _MISSING) -> int:
        """A whole number from 1 up."""
        value = self._value(key, int, default)
        if value < 1:
            raise LensproofError(f"{self.path}: the metadata key {key} is {value}: it cannot be converted")
        return value

    def number(self, key: str, default: float = _MISSING) -> float:
        """A float32 value above 0, as the decimal number it was written from: 1e-05, not 9.999999747378752e-06."""
        value = self._value(key, float, default)
        if not 0 < value < math.inf:
            raise LensproofError(f"{self.path}: the metadata key {key} is {value}: it cannot be converted")
        return float(str(np.float32(value)))

    def text(self, key: str, default: str = _MISSING) -> str:
        """A string."""
        return self._value(key, str, default)

    def flag(self, key: str, default: bool = _MISSING) -> bool:
        """True or false."""
        return self._value(key, bool, default)

    def items(self, key: str, kind: type[T]) -> list[T]:
        """A list of strings, floats or whole numbers."""
        values = self._value(key, list, _MISSING)
        if not all(type(value) is kind for value in values):
            raise self._wrong(key, f"list of {kind.__name__}")
        return values

    def token(self, role: str) -> int | None:
        """Id of the token that plays a role, ``bos`` or ``unknown``; None where the file names none."""
        key = f"tokenizer.ggml.{role}_token_id"
        index = self._value(key, int, None)
        if index is not None and not 0 <= index < len(self.vocabulary):
            raise LensproofError(f"{self.path}: {key} is {index}, which is not in the vocabulary")
        return index

    def _value(self, key: str, kind: type, default: Any) -> Any:
        full = key if key.startswith(("general.", "tokenizer.")) else f"{self.architecture}.{key}"
        field = self.reader.get_field(full)
        if field is None:
            if default is _MISSING:
                raise LensproofError(f"{self.path} lacks the metadata key {full}: it cannot be converted")
            return default
        try:
            value = field.contents()
        except UnicodeDecodeError as error:
            raise LensproofError(f"{self.path}: the metadata key {full} is not UTF-8: fetch it again") from error
        if type(value) is not kind:
            raise self._wrong(full, kind.__name__)
        return value

    def _wrong(self, key: str, kind: str) -> LensproofError:
        return LensproofError(f"{self.path}: the metadata key {key} is no {kind}: it cannot be converted")


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
        raise damaged(path, f"it is not a whole GGUF file: {error}") from error
