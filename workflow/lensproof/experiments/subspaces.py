"""Whether readouts lie where the states vary: figure 5 of LexFrame.

The share of |b|² that lies inside the span of the first principal directions of the states of its layer, for native
readouts b of states and labels: of the state's nearest neighbours (local) and of all states (global). Random directions
in the same subspaces have ``dimensions`` = k / d on average. Source: LexFrame section 4.2, figure 5.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from lensproof.checkpoints.anatomy.decoder import Decoder
from lensproof.corpora import draw
from lensproof.experiments.run import Run
from lensproof.frames.basis import covectors
from lensproof.frames.frame import native_readouts
from lensproof.streams import clouds
from lensproof.streams.clouds import Cloud, Neighbours
from lensproof.streams.trace import residuals


def observe(run: Run) -> pd.DataFrame:
    """Compare native readouts, and random directions, with principal subspaces.

    The clouds come from all sequences of the experiment, whatever the shard. The layer L is left out: the readout there
    is the output row itself, behind the norm.

    Returns:
        One row per (state, layer, label, method, subspace): ``document``, ``sequence``, ``position``, ``layer``,
        ``label`` (token id), ``method`` (``local_subspace``, ``global_subspace``, ``random_direction``), ``subspace``
        (``local``, ``global``), ``energy`` (share of the squared length inside it), ``dimensions`` (k / d).
    """
    layers = [layer for layer in run.layers if layer < run.decoder.depth]
    states = clouds.collect(run.decoder, run.role("test", run.total), layers)
    spaces = {layer: Spaces.of(states[layer], run.options["neighbours"], run.options["leading"]) for layer in layers}
    labels = draw.labels(run.sequences, run.options["labels"])
    rows = covectors(run.decoder, torch.from_numpy(labels).to(run.decoder.device))
    found = []
    for row, ids in run.shard("subspaces"):
        at = draw.positions(row.sequence, len(ids), run.options["positions"], run.seed)
        readouts = native(run.decoder, ids, at, rows)
        generator = np.random.default_rng((run.seed, row.sequence))
        for layer in layers:
            table = shares(readouts[layer], spaces[layer].local(row.rank, at), spaces[layer].whole, generator)
            place = {"layer": np.int16(layer), "position": at[table["state"]], "label": labels[table["label"]]}
            found.append(table.assign(document=row.document, sequence=row.sequence, **place).drop(columns="state"))
    dimensions = run.options["leading"] / run.decoder.width
    return pd.concat(found, ignore_index=True).assign(dimensions=dimensions)


@dataclass(frozen=True)
class Spaces:
    """The principal subspaces at one layer: ``whole`` ``[d, k]`` of all its states, and one around each state."""

    cloud: Cloud
    near: Neighbours
    whole: np.ndarray

    @classmethod
    def of(cls, states: np.ndarray, neighbours: int, leading: int) -> Spaces:
        """Of states ``[N, T, d]``, with ``leading`` directions each."""
        cloud = Cloud.of(states)
        near = Neighbours.of(cloud.points, neighbours)
        return cls(cloud, near, clouds.principal_subspace(clouds.flat(states), leading))

    def local(self, number: int, at: np.ndarray) -> np.ndarray:
        """Around the states at positions ``at`` ``[R]`` of sequence ``number``: ``[R, d, k]``."""
        near = self.near.index[self.cloud.place[number, at]]
        return clouds.principal_subspace(self.cloud.points[near], self.whole.shape[-1])


def native(decoder: Decoder, ids: Tensor, at: np.ndarray, rows: Tensor) -> np.ndarray:
    """Native readouts ``[L + 1, R, C, d]`` of covectors ``[C, d]`` at positions ``at`` ``[R]`` of a sequence."""
    bound = decoder.on(ids)
    states = residuals(bound, ids[None])[:, 0]
    return native_readouts(bound, states, torch.from_numpy(at).to(states.device), rows).cpu().numpy()


def shares(readouts: np.ndarray, local: np.ndarray, whole: np.ndarray, generator: np.random.Generator) -> pd.DataFrame:
    """Energy of readouts and of as many random directions inside subspaces.

    Args:
        readouts: ``[R, C, d]`` of R states and C labels at one layer.
        local: orthonormal columns ``[R, d, k]``, a subspace for each state.
        whole: ``[d, k]``, one for all.
        generator: draws the random directions.

    Returns:
        One row per (state, label, method, subspace): ``state`` and ``label`` (0-based), ``method``, ``subspace``,
        ``energy``.
    """
    random = generator.standard_normal(readouts.shape)  # equal in all directions
    cases = [
        ("local_subspace", "local", readouts, local),
        ("global_subspace", "global", readouts, whole),
        ("random_direction", "local", random, local),
        ("random_direction", "global", random, whole),
    ]
    state, label = (index.ravel() for index in np.indices(readouts.shape[:2]))
    return pd.concat([
        pd.DataFrame({
            "state": state, "label": label, "method": method, "subspace": subspace,
            "energy": clouds.energy(directions, columns).ravel().astype(np.float32),
        })
        for method, subspace, directions, columns in cases
    ], ignore_index=True)  # fmt: skip
