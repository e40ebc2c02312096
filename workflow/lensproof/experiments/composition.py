"""Composition: move a state a little along a token's direction; does that token gain most? Table 3 of LexFrame.

A state x of layer l is moved by 0.1 |x| along the unit direction of token v, and the rest of the *whole* model is run
from there (section 4.3). The move succeeds if of all tokens v has gained most in logit, before any softcap.

A direction is followed to the side on which v's own centred logit rises to first order in the whole model, that is by
the sign of its product with the native readout: the paper's "+-oriented". Native readouts and bases have that sign by
construction; an embedding, an output basis or what order 1 makes of a state may point the other way at some states.
The directions:

- ``fixed_input_basis``: the token's embedding; ``fixed_output_basis``: s_v = W^+ e_v; both the same at every state;
- ``lexframe_1_readout`` and ``native_readout``: b(v) = J' (w_v - w_mean), of order 1 and of the whole model;
- ``lexframe_1_basis`` and ``native_basis``: s(v), in closed form from the explicit Jacobian in float32, as many tokens
  are wanted at one state (appendix A.1).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.nn.functional import normalize

from lensproof.checkpoints.anatomy.decoder import Decoder
from lensproof.corpora import draw
from lensproof.experiments.run import Run
from lensproof.frames import typical as typical_attention
from lensproof.frames.basis import OutputBasis, closed_form, covectors, oriented
from lensproof.frames.flow import Stand
from lensproof.frames.frame import frames, jacobians, native_readouts
from lensproof.streams.replay import remember, replay
from lensproof.streams.trace import residuals

ROWS = 512
"""Changed states that are run at once."""
TOKENS = 1024
"""Tokens of one tile of logits."""


def observe(run: Run) -> pd.DataFrame:
    """Move the drawn states of the shard's sequences along every token's directions.

    Returns:
        One row per sequence, position, layer, method and ``label``, the token: ``success``. ``depth`` is L.
    """
    labels = torch.from_numpy(draw.labels(run.sequences, run.options["labels"]))
    fixed = {
        "layers": run.layers,
        "step": run.options["step"],
        "typical": typical_attention.load(run.input("typical_attention"), run.decoder, run.weights),
        "basis": OutputBasis.of(run.decoder),
    }
    tables = []
    for row, ids in run.shard("composition"):
        at = draw.positions(row.sequence, len(ids), run.options["positions"], run.seed)
        decoder = run.decoder.on(ids)
        states = residuals(decoder, ids[None])[:, 0]
        found = compose(decoder, states, torch.from_numpy(at), labels, **fixed)
        tables.append(found.assign(document=row.document, sequence=row.sequence))
    return pd.concat(tables, ignore_index=True).assign(depth=run.decoder.depth, batch_size=1)


@torch.no_grad()
def compose(
    decoder: Decoder,
    states: Tensor,
    at: Tensor,
    labels: Tensor,
    *,
    layers: Sequence[int],
    step: float,
    typical: Stand,
    basis: OutputBasis,
) -> pd.DataFrame:
    """Move some states of one sequence.

    Args:
        decoder: the model, bound to the sequence.
        states: its residual states ``[L + 1, T, d]``.
        at: positions ``[R]``, from 1 on.
        labels: token ids ``[C]``.
        layers: those to move the state at, rising.
        step: length of the move, in units of the state's norm.
        typical, basis: what was made of this model.

    Returns:
        Rows as in :func:`observe`, without the sequence.
    """
    states = states[:, : int(at.max()) + 1]  # nothing reads a later position
    labels, chosen = labels.to(states.device), list(layers)
    order1 = list(frames(decoder, states, 1, chosen, typical).values())
    memories, tables = remember(decoder, states), []
    for row in at.to(states.device)[:, None]:  # one state at a time: its Jacobians at all layers fill the memory
        x = states[chosen][:, row]
        eye = torch.eye(decoder.width, dtype=x.dtype, device=x.device)
        matrices = {
            "lexframe_1": jacobians(order1, x, row)[:, 0],
            "native": native_readouts(decoder, states, row, eye)[chosen, 0].float(),
        }
        found = {"fixed_input_basis": decoder.embed(labels).float(), "fixed_output_basis": basis(labels)}
        for frame, matrix in matrices.items():
            found[f"{frame}_readout"] = covectors(decoder, labels) @ matrix
            found[f"{frame}_basis"] = torch.cat([closed_form(part[None], basis(labels)) for part in matrix])
        shape = (len(found), len(chosen), len(labels), decoder.width)
        directions = oriented(torch.stack([part.expand(shape[1:]) for part in found.values()]), found["native_readout"])
        moved = x + step * x.norm(dim=-1, keepdim=True) * normalize(directions, dim=-1)
        cuts = torch.tensor(chosen, device=x.device)[:, None].expand(shape[:3]).flatten()
        rows = zip(moved.flatten(0, 2).split(ROWS), cuts.split(ROWS), strict=True)
        last = torch.cat([replay(decoder, memories, states, part, row.expand(len(part)), cut) for part, cut in rows])
        change = decoder.final_norm(last).float() - decoder.final_norm(states[-1, row]).float()
        success = gains_most(decoder, change, labels.expand(shape[:3]).flatten())
        tables.append(_rows(list(found), chosen, int(row), labels, success))
    return pd.concat(tables, ignore_index=True)


def gains_most(decoder: Decoder, change: Tensor, tokens: Tensor) -> Tensor:
    """Whether no other token's logit grows more than that of ``tokens`` ``[N]``, bool ``[N]``.

    The vocabulary is walked in tiles, and a token that has been beaten is not looked at again.

    Args:
        decoder: the model.
        change: of the normed last-layer state N(T(x)), ``[N, d]`` in float32.
        tokens: one for each change.
    """
    gain = (change * decoder.unembedding[tokens].float()).sum(-1)
    left = torch.arange(len(change), device=change.device)
    for start in range(0, decoder.vocabulary, TOKENS):
        others = change[left] @ decoder.unembedding[start : start + TOKENS].float().T
        own = tokens[left] - start
        here = (own >= 0) & (own < others.shape[1])
        others[here.nonzero()[:, 0], own[here]] = -torch.inf
        left = left[others.amax(-1) <= gain[left]]
    unbeaten = torch.zeros(len(change), dtype=torch.bool, device=change.device)
    unbeaten[left] = True
    return unbeaten


def _rows(methods: list[str], layers: list[int], position: int, labels: Tensor, success: Tensor) -> pd.DataFrame:
    """Rows of values ``[M, S, C]``, flattened."""
    method, layer, label = np.meshgrid(np.asarray(methods), np.asarray(layers), labels.cpu().numpy(), indexing="ij")
    return pd.DataFrame({
        "method": method.ravel(),
        "layer": layer.ravel().astype(np.int16),
        "position": np.int16(position),
        "label": label.ravel().astype(np.int32),
        "success": success.cpu().numpy(),
    })  # fmt: skip
