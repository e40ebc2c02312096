"""Coherence: how far the native readouts of one label agree from state to state. Figures 7 and 8 of LexFrame.

What bounds every direction that is the same for all states (LexFrame section 3.2, appendix C.2, equation 5). The
cosine of every pair of states is kept, for each layer and label: with m unit readouts and k the mean cosine over their
m (m - 1) / 2 pairs, the best mean cosine that a fixed direction can have with them is the length of their mean, whose
square is 1/m + (1 - 1/m) k; over pairs from different texts, the root of the mean cosine is the limit for many states.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.nn.functional import normalize

from lensproof.corpora import draw
from lensproof.experiments.run import Run
from lensproof.frames.basis import covectors
from lensproof.frames.frame import native_readouts
from lensproof.streams.trace import residuals

PLACE = {"document": np.int32, "sequence": np.int32, "position": np.int16}
SMALLEST = torch.finfo(torch.float64).tiny


def observe(run: Run) -> pd.DataFrame:
    """Cosines of the native readouts of every two states drawn from the shard's sequences.

    Pairs join states of one shard only, so all sequences belong in one.

    Returns:
        The rows of :func:`pairs`.
    """
    labels = torch.from_numpy(draw.labels(run.sequences, run.options["labels"]))
    readouts, places = [], []
    for row, ids in run.shard("coherence"):
        at = draw.positions(row.sequence, len(ids), run.options["positions"], run.seed)
        readouts.append(unit_readouts(run, ids, torch.from_numpy(at), labels).cpu())
        places += [(row.document, row.sequence, position) for position in at]
    states = pd.DataFrame(places, columns=list(PLACE)).astype(PLACE)
    return pairs(torch.cat(readouts, 1), run.layers, labels, states).assign(depth=run.decoder.depth, batch_size=1)


def unit_readouts(run: Run, ids: Tensor, at: Tensor, labels: Tensor) -> Tensor:
    """Native readouts ``[S, R, C, d]`` of length one, at the run's layers and positions ``at`` ``[R]``."""
    decoder = run.decoder.on(ids)
    states = residuals(decoder, ids[None])[:, 0]
    found = native_readouts(decoder, states, at.to(states.device), covectors(decoder, labels))[run.layers]
    return normalize(found, dim=-1, eps=torch.finfo(found.dtype).tiny)


def pairs(readouts: Tensor, layers: list[int], labels: Tensor, states: pd.DataFrame) -> pd.DataFrame:
    """Cosines of every two states, and of each with itself.

    Args:
        readouts: unit native readouts ``[S, m, C, d]``.
        layers: the S layers.
        labels: the C token ids.
        states: m rows, the ``document``, ``sequence`` and ``position`` of each state.

    Returns:
        One row per layer, label and pair of states, method ``native_readout``: ``layer``, ``label``, ``document``,
        ``sequence``, ``position`` of one state, the same with ``other_`` before it of the other, ``cosine``.
    """
    first, second = np.triu_indices(len(states))
    product = torch.einsum("smcd,sncd->scmn", readouts.double(), readouts.double())
    layer, label, pair = (part.ravel() for part in np.indices((len(layers), len(labels), len(first))))
    other = states.iloc[second[pair]].add_prefix("other_").reset_index(drop=True)
    return pd.concat([states.iloc[first[pair]].reset_index(drop=True), other], axis=1).assign(
        method="native_readout",
        layer=np.asarray(layers, dtype=np.int16)[layer],
        label=labels.numpy().astype(np.int32)[label],
        cosine=product[..., first, second].clamp(-1, 1).numpy().ravel(),
    )
