"""One checkpoint's observations as a sample of documents, and statistics of them by method and layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pandas as pd

from lensproof.errors import LensproofError
from lensproof.statistics.bootstrap import resampling_weights
from lensproof.statistics.methods import MODEL, in_order

FACTORS = ("checkpoint", "document", "layer", "method")
"""Columns that observations of every experiment have."""
SOURCES = {"sequence": ("checkpoint", "corpus", "sequence"), "instance": ("checkpoint", "records", "instance")}
"""What a shard holds -> that and what it is a part of; those of these that an experiment's observations have."""


def join(shards: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """All trials of an experiment, and of others that its estimates are made from too.

    Args:
        shards: name of a file -> what it holds.

    Raises:
        LensproofError: two shards of one experiment hold trials of the same sequence or instance, naming the files.
    """
    seen: dict[tuple, str] = {}
    for name, table in shards.items():
        columns = tuple(sorted(table.columns))  # an experiment's own
        for unit in (unit for unit in SOURCES if unit in table):
            source = [column for column in SOURCES[unit] if column in table]
            for place in table[source].drop_duplicates().to_dict("records"):
                if (other := seen.setdefault((columns, *place.values()), name)) != name:
                    raise LensproofError(
                        f"{other} and {name} both hold {unit} {place[unit]} of {place.get('checkpoint', 'one')}: "
                        "give each shard once"
                    )
    return pd.concat(shards.values(), ignore_index=True)


def whole(observations: pd.DataFrame, needs: Sequence[str]) -> pd.DataFrame:
    """The trials themselves, if there is any, and all have the columns ``needs``.

    Raises:
        LensproofError: a column is missing, or there is no trial.
    """
    missing = [column for column in needs if column not in observations.columns]
    if missing:
        raise LensproofError(f"the observations lack {', '.join(missing)}: build them again with this version")
    if observations.empty:
        raise LensproofError("the observations hold no trial: give others, or build them again")
    return observations


def depth_of(observations: pd.DataFrame) -> int | None:
    """L, the number of the model's last layer: as the trials say, or where the model itself was read; else unknown."""
    own = observations["layer"][observations["method"] == MODEL]
    said = observations["depth"].dropna() if "depth" in observations else own
    return int(said.max()) if len(said) else None


class ByLayer(NamedTuple):
    """A statistic of one method at each of its S layers, as draws (see ``bootstrap``)."""

    layers: tuple[int, ...]
    draws: np.ndarray
    """(resamples + 1, S)."""
    n: tuple[int, ...]
    """Trials behind the number at each layer."""

    def at(self, layers: Sequence[int]) -> ByLayer:
        """The same at some of its layers."""
        index = [self.layers.index(layer) for layer in layers]
        return ByLayer(tuple(layers), self.draws[:, index], tuple(self.n[i] for i in index))

    def mean(self) -> np.ndarray:
        """(resamples + 1,) the mean over its layers, each weighing the same."""
        return self.draws.mean(axis=1)


@dataclass(frozen=True)
class Sample:
    """The documents of one checkpoint's observations and how often each counts in each resample.

    Every statistic computed with one sample is paired with the others: made from the same resamples.
    """

    checkpoint: str
    documents: np.ndarray = field(repr=False)
    """(D,) sorted."""
    weights: np.ndarray = field(repr=False)
    """(resamples + 1, D), row 0 the sample itself."""
    resamples: int
    level: float
    seed: int
    depth: int | None = None
    """L, where the observations tell it."""

    @classmethod
    def of(
        cls, observations: pd.DataFrame, *, resamples: int, level: float, seed: int, needs: Sequence[str] = ()
    ) -> Sample:
        """The sample that ``observations`` hold.

        Args:
            observations: trials of one checkpoint.
            resamples: bootstrap resamples over documents.
            level: of the intervals, 0.95 for 95%.
            seed: of the resamples.
            needs: columns that must be there besides ``checkpoint``, ``document``, ``layer`` and ``method``.

        Raises:
            LensproofError: a column, any trial, or all but one document is missing, or several checkpoints are mixed.
        """
        checkpoints = sorted(set(whole(observations, (*FACTORS, *needs))["checkpoint"]))
        if len(checkpoints) > 1:
            raise LensproofError(
                f"observations of one checkpoint are needed, not of {len(checkpoints)} ({', '.join(checkpoints)})"
            )
        documents = np.unique(observations["document"])
        if len(documents) < 2:
            raise LensproofError(f"{checkpoints[0]}: observations of at least 2 documents are needed: raise sequences")
        weights = resampling_weights(len(documents), resamples, seed)
        return cls(str(checkpoints[0]), documents, weights, resamples, level, seed, depth_of(observations))

    def document(self, observations: pd.DataFrame) -> np.ndarray:
        """(trials,) running number 0 .. D-1 of each trial's document."""
        return np.searchsorted(self.documents, observations["document"].to_numpy())

    def values(self, observations: pd.DataFrame, column: str) -> np.ndarray:
        """(trials,) the column in float64.

        Raises:
            LensproofError: a value is missing or not finite, in a line that names the first such trial.
        """
        values = observations[column].to_numpy(dtype=np.float64, na_value=np.nan)
        broken = ~np.isfinite(values)
        if broken.any():
            first = observations[broken].iloc[0]
            raise LensproofError(
                f"{self.checkpoint}: {column} is not finite in {broken.sum()} trials, first {first['method']} at layer "
                f"{first['layer']}: something overflowed; run the experiment with precision float32"
            )
        return values


class Cells(NamedTuple):
    """Where each trial stands in an array (documents, methods, layers)."""

    methods: list[str]
    layers: list[int]
    index: np.ndarray
    """(trials,) into the flattened shape."""
    counts: np.ndarray
    """(D, M, S) trials."""

    @classmethod
    def of(cls, sample: Sample, observations: pd.DataFrame) -> Cells:
        """The cells that ``observations``, a part of the sample's, fill; methods in the tables' order."""
        names = pd.Index(observations["method"].astype(str))
        methods = in_order(names)
        layers, layer = np.unique(observations["layer"].to_numpy(), return_inverse=True)
        shape = (len(sample.documents), len(methods), len(layers))
        place = (sample.document(observations), pd.Index(methods).get_indexer(names), layer)
        index = np.ravel_multi_index(place, shape)
        counts = np.bincount(index, minlength=int(np.prod(shape))).reshape(shape)
        return cls(methods, [int(layer) for layer in layers], index, counts)

    def split(self, draws: np.ndarray) -> dict[str, ByLayer]:
        """Draws (resamples + 1, M, S) by method, each at the layers at which it has trials."""
        trials = self.counts.sum(axis=0)
        found = {}
        for m, method in enumerate(self.methods):
            (has,) = np.nonzero(trials[m])
            layers = tuple(self.layers[s] for s in has)
            found[method] = ByLayer(layers, draws[:, m, has], tuple(int(n) for n in trials[m, has]))
        return found
