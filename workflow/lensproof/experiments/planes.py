"""Planes: three tokens' native bases and one state, from layer to layer. Figure 2 of LexFrame.

At one position of one text, the basis directions of the tokens that the model itself finds likeliest next are found at
every layer (LexFrame section 3.2, in closed form from the Jacobian) and made unit vectors, and so is the state. All are
projected on the one plane that keeps most of their squared length. An example: nothing is averaged.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import torch
from torch import Tensor
from torch.nn.functional import normalize

from lensproof.checkpoints.anatomy.decoder import Decoder
from lensproof.checkpoints.load import load_tokenizer
from lensproof.corpora import draw
from lensproof.experiments.run import Run
from lensproof.frames.basis import OutputBasis, closed_form
from lensproof.frames.frame import native_readouts
from lensproof.lenses.reading import likeliest
from lensproof.streams.trace import residuals

STATE, BASIS = "state", "native_basis"


def observe(run: Run) -> pd.DataFrame:
    """Coordinates at a drawn position of the shard's sequence.

    Returns:
        One row per layer and path, ``native_basis`` of each token by its ``rank`` in the model's prediction and
        ``state`` (rank -1): ``token`` (its text, of the state the input token's), ``x``, ``y`` and, the same in all,
        ``kept`` (share of the squared length that the plane keeps).
    """
    tokenizer, tables = load_tokenizer(run.folder), []
    for row, ids in run.shard("planes"):
        at = int(draw.positions(row.sequence, len(ids), 1, run.seed)[0])
        decoder = run.decoder.on(ids)
        states = residuals(decoder, ids[None])[:, 0]
        top, _ = likeliest(decoder, states[-1, at], run.options["tokens"])
        found, kept = plane(torch.cat([bases(decoder, states, at, top, run.layers), states[run.layers, at, None]], 1))
        names = [*(tokenizer.decode([token]) for token in top.tolist()), tokenizer.decode([int(ids[at])])]
        tables.append(
            _rows(found, run.layers, names).assign(kept=kept, position=at, document=row.document, sequence=row.sequence)
        )
    return pd.concat(tables, ignore_index=True).assign(batch_size=1)


@torch.no_grad()
def bases(decoder: Decoder, states: Tensor, at: int, tokens: Tensor, layers: Sequence[int]) -> Tensor:
    """Native basis directions ``[S, C, d]`` of token ids ``[C]`` at position ``at`` of a sequence's states."""
    eye = torch.eye(decoder.width, dtype=states.dtype, device=states.device)
    # A layer's readouts of the unit vectors are the rows of its Jacobian.
    jacobians = native_readouts(decoder, states, torch.tensor([at], device=states.device), eye)[list(layers), 0]
    return closed_form(jacobians, OutputBasis.of(decoder)(tokens))


def plane(vectors: Tensor) -> tuple[Tensor, float]:
    """The plane through 0 that keeps most of the squared length of some directions.

    Args:
        vectors: ``[S, P, d]``, each taken at length one.

    Returns:
        Coordinates ``[S, P, 2]``, of which the last path's last are positive, and the share that is kept.
    """
    unit = normalize(vectors.double(), dim=-1, eps=torch.finfo(torch.float64).tiny)
    axes = torch.linalg.svd(unit.flatten(0, 1), full_matrices=False).Vh[:2]
    found = unit @ axes.T
    found = found * torch.where(found[-1, -1] < 0, -1.0, 1.0)
    return found, float(found.square().sum() / unit.square().sum())


def _rows(found: Tensor, layers: Sequence[int], names: Sequence[str]) -> pd.DataFrame:
    """Rows of coordinates ``[S, P, 2]``; the last path is the state's."""
    rows = []
    for layer, at_layer in zip(layers, found.tolist(), strict=True):
        for rank, (name, (x, y)) in enumerate(zip(names, at_layer, strict=True)):
            state = rank + 1 == len(names)
            method, rank = (STATE, -1) if state else (BASIS, rank)
            rows.append({"method": method, "layer": layer, "rank": rank, "token": name, "x": x, "y": y})
    return pd.DataFrame(rows)
