"""What an experiment is given: a model, the sequences of its shard, the files it reads and its settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from lensproof.checkpoints.anatomy.decoder import Decoder
from lensproof.config import chosen_layers
from lensproof.corpora.sequences import take, tokens
from lensproof.errors import LensproofError
from lensproof.lenses.reading import Comparison
from lensproof.progress import bar


class WithInputs:
    """Something that was given files by name."""

    inputs: Mapping[str, Path]

    def input(self, name: str) -> Path:
        """The file called ``name``.

        Raises:
            LensproofError: it was not given.
        """
        if name not in self.inputs:
            raise LensproofError(f"this experiment needs --input {name}=FILE")
        return self.inputs[name]


@dataclass(frozen=True)
class Run(WithInputs):
    """One shard of an experiment.

    ``folder`` is the checkpoint's; ``sequences`` holds the whole corpus, and the shard is the ``count`` test sequences
    from rank ``first`` on. ``options`` is the experiment's section of the configuration, with ``layers`` still as it
    stands there; ``inputs`` names the files that it reads besides; ``weights`` is the sha256 of the checkpoint's
    weights.
    """

    folder: Path
    decoder: Decoder
    sequences: pd.DataFrame
    first: int
    count: int
    options: Mapping[str, Any]
    inputs: Mapping[str, Path]
    weights: str
    seed: int

    @property
    def checkpoint(self) -> str:
        """Name of the checkpoint, its folder's."""
        return self.folder.name

    @property
    def layers(self) -> list[int]:
        """Layers to look at, rising."""
        return chosen_layers(self.options["layers"], self.decoder.depth)

    @property
    def total(self) -> int:
        """Test sequences of the whole experiment with this checkpoint; the shard is a part of them."""
        number = self.options["sequences"]
        return number if isinstance(number, int) else number.get(self.checkpoint, number["default"])

    def shard(self, progress: str) -> Iterator[tuple[Any, Tensor]]:
        """The shard's sequences: row (``document``, ``sequence``, ``rank``) and ids ``[T]``, with a progress bar."""
        chosen = take(self.sequences, "test", self.count, self.first)
        rows = list(chosen.itertuples())
        return zip(bar(rows, f"{progress}, {self.checkpoint}", unit="sequence"), tokens(chosen), strict=True)

    def role(self, role: str, count: int) -> Tensor:
        """Ids ``[count, T]`` of the first sequences of a role, whatever the shard."""
        return tokens(take(self.sequences, role, count))


def compared(method: str, layers: Sequence[int], at: Tensor, result: Comparison, top: Tensor) -> pd.DataFrame:
    """Rows of readings held against the model's own output, one per layer and position.

    Args:
        method: name of the reading.
        layers: the C layers read.
        at: the R positions read.
        result: comparisons ``[C, R]``.
        top: the model's own top tokens ``[R]``.

    Returns:
        ``method``, ``layer``, ``position``, ``kl`` (nats, KL(model || reading)), ``agrees`` (same top token).
    """
    return pd.DataFrame({
        "method": method,
        "layer": np.repeat(np.asarray(layers, dtype=np.int16), len(at)),
        "position": np.tile(at.cpu().numpy().astype(np.int16), len(layers)),
        "kl": result.kl.float().cpu().numpy().ravel(),
        "agrees": (result.top.cpu() == top.cpu()).numpy().ravel(),
    })  # fmt: skip
