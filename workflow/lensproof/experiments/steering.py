"""Steering: the shortest move that puts the model's runner-up first, and what else it moves. Table 5 of LexFrame.

With v the model's top token at a position and u its runner-up, the state x of layer l is moved by length * |x| along a
unit direction for u - v, in lengths that grow from 0.01 to 1 by a fixed ratio, and the rest of the *whole* model is
run from each (section 4.4). The directions, with w the unembedding's rows:

- ``logit_lens``: w_u - w_v; ``jacobian_lens``: M' (w_u - w_v), with M the lens's matrix of the layer;
- ``lexframe_1_readout`` and ``native_readout``: b(u) - b(v) = J' (w_u - w_v), of order 1 and of the whole model;
- ``lexframe_1_basis`` and ``native_basis``: s(u) - s(v), each solved with its own ridge by 30 steps of LSMR, which
  needs no Jacobian (appendix A.1). At a few states the Jacobian is formed, to say how far 30 steps are from the
  regularised solution.

A trial *reaches* at the first length at which u has the larger logit. Its *side effect* is the mean of |change of
log p(w)| there over all tokens w but u and v. Chosen: each of them weighs the same; weighted by the model's own
probabilities it stands beside.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.nn.functional import normalize

from lensproof.checkpoints.anatomy.decoder import Decoder
from lensproof.corpora import draw
from lensproof.experiments.run import Run
from lensproof.frames import typical as typical_attention
from lensproof.frames.basis import OutputBasis, closed_form, lsmr
from lensproof.frames.flow import Stand
from lensproof.frames.frame import Frame, frames, jacobians, linearise
from lensproof.lenses import jacobian
from lensproof.lenses.jacobian import JacobianLens
from lensproof.streams.replay import remember, replay
from lensproof.streams.trace import residuals

ROWS = 512
"""Changed states that are run at once."""
TILE = 2**23
"""Logits that are held at once."""
EVERY = 4
"""LSMR is held against the closed form in one sequence of so many, by rank: whatever the shards are."""


class Flips(NamedTuple):
    """The first length at which each of N trials reaches, and the last-layer state there.

    ``step`` ``[N]`` counts lengths from 0; where none reaches it is their number, and ``last`` ``[N, d]`` is not
    defined.
    """

    step: Tensor
    last: Tensor


def observe(run: Run) -> pd.DataFrame:
    """Steer the predictions at the drawn positions of the shard's sequences.

    Returns:
        One row per sequence, position, layer and method: ``reached``; ``length`` (in units of the state's norm),
        ``side`` and ``side_weighted`` (nats) at the first length that reaches, missing where none does; at ``checked``
        positions of every fourth sequence also ``lsmr_error`` (relative) and ``lsmr_cosine`` of the directions that
        LSMR solved, where ``checked`` is true. ``depth`` is L.
    """
    options, tables = run.options, []
    fixed = {
        "layers": run.layers,
        "lengths": np.geomspace(options["shortest"], options["longest"], options["lengths"]),
        "typical": typical_attention.load(run.input("typical_attention"), run.decoder, run.weights),
        "lens": jacobian.load(run.input("jacobian_lens"), run.decoder, run.weights),
        "basis": OutputBasis.of(run.decoder),
    }
    for row, ids in run.shard("steering"):
        at = draw.positions(row.sequence, len(ids), options["positions"], run.seed)
        decoder = run.decoder.on(ids)
        states = residuals(decoder, ids[None])[:, 0]
        checked = 0 if row.rank % EVERY else options["checked"]
        found = steer(decoder, states, torch.from_numpy(at), checked=checked, **fixed)
        tables.append(found.assign(document=row.document, sequence=row.sequence))
    return pd.concat(tables, ignore_index=True).assign(depth=run.decoder.depth, batch_size=1)


@torch.no_grad()
def steer(
    decoder: Decoder,
    states: Tensor,
    at: Tensor,
    *,
    layers: Sequence[int],
    lengths: np.ndarray,
    typical: Stand,
    lens: JacobianLens,
    basis: OutputBasis,
    checked: int = 0,
) -> pd.DataFrame:
    """Steer some predictions of one sequence.

    Args:
        decoder: the model, bound to the sequence.
        states: its residual states ``[L + 1, T, d]``.
        at: positions ``[R]``, from 1 on.
        layers: those to move the state at, rising.
        lengths: of the moves, rising, in units of the state's norm.
        typical, lens, basis: what was made of this model.
        checked: of how many positions, the first ones, LSMR is held against the closed form.

    Returns:
        Rows as in :func:`observe`, without the sequence.
    """
    states = states[:, : int(at.max()) + 1]  # nothing reads a later position
    rows, chosen = at.to(states.device), list(layers)
    pair = decoder.coefficients(states[-1, rows]).topk(2).indices.flip(-1)  # runner-up u, top token v
    contrast, targets = _difference(decoder.unembedding[pair].float()), basis(pair.flatten()).unflatten(0, pair.shape)
    made = {
        "lexframe_1": list(frames(decoder, states, 1, chosen, typical).values()),
        "native": list(frames(decoder, states, torch.inf, chosen).values()),
    }
    x, matrices = states[chosen][:, rows], torch.stack([lens.matrices[layer] for layer in chosen]).to(states.device)
    found = {"logit_lens": contrast, "jacobian_lens": contrast @ matrices}
    found |= _of_frames(made, x, rows, contrast, targets)
    directions = torch.stack([part.expand_as(x) for part in found.values()])
    flips = first_flips(decoder, states, directions, rows, chosen, pair, lengths)
    reached = flips.step < len(lengths)
    side = torch.full((2, *reached.shape), torch.nan, device=x.device)
    if reached.any():
        row = torch.arange(len(rows), device=x.device).expand_as(reached)
        side[:, reached] = side_effects(decoder, states[-1, rows], flips.last[reached], row[reached], pair)
    columns = {
        "reached": reached.cpu(),
        "length": torch.from_numpy(np.append(lengths, np.nan))[flips.step.cpu()],
        "side": side[0].cpu(),
        "side_weighted": side[1].cpu(),
    }
    columns |= _checks(made, found, x, rows, targets, checked)
    return _rows(list(found), chosen, at, columns)


def _difference(pair: Tensor) -> Tensor:
    """That of u less that of v, for ``[..., 2, d]``."""
    return pair[..., 0, :] - pair[..., 1, :]


def _of_frames(
    made: dict[str, list[Frame]], x: Tensor, at: Tensor, contrast: Tensor, targets: Tensor
) -> dict[str, Tensor]:
    """Readout and basis directions ``[S, R, d]`` of every frame, from covectors ``[R, d]`` and outputs ``[R, 2, d]``.

    Frames of both kinds are linearised together: LSMR spends its time in products that want many rows.
    """
    together = [frame for layer in zip(*made.values(), strict=True) for frame in layer]
    through = linearise(together, x.repeat_interleave(len(made), 0), at)
    readouts = through.vjp(contrast.repeat(len(together), 1).unsqueeze(1)).squeeze(1)
    bases = _difference(lsmr(through, targets.repeat(len(together), 1, 1)))
    shape, found = (len(x), len(made), *x.shape[1:]), {}
    for place, name in enumerate(made):
        found[f"{name}_readout"] = readouts.view(shape)[:, place]
        found[f"{name}_basis"] = bases.view(shape)[:, place]
    return found


def _checks(
    made: dict[str, list[Frame]], found: dict[str, Tensor], x: Tensor, at: Tensor, targets: Tensor, count: int
) -> dict[str, Tensor]:
    """Relative error and cosine of LSMR's directions to those of the closed form, ``[M, S, R]``, missing elsewhere;
    and where they were ``checked``."""
    error, cosine = torch.full((2, len(found), *x.shape[:2]), torch.nan)
    done = torch.zeros_like(error, dtype=torch.bool)
    for name, group in made.items() if count else ():
        place, solved = list(found).index(f"{name}_basis"), found[f"{name}_basis"][:, :count]
        matrices = jacobians(group, x[:, :count], at[:count])
        exact = torch.stack([_difference(closed_form(matrix, targets[:count])) for matrix in matrices])
        error[place, :, :count] = ((solved - exact).norm(dim=-1) / exact.norm(dim=-1)).cpu()
        cosine[place, :, :count] = torch.cosine_similarity(solved, exact, dim=-1).cpu()
        done[place, :, :count] = True
    return {"checked": done, "lsmr_error": error, "lsmr_cosine": cosine}


def first_flips(
    decoder: Decoder, states: Tensor, directions: Tensor, at: Tensor, layers: Sequence[int], pair: Tensor,
    lengths: np.ndarray,
) -> Flips:  # fmt: skip
    """Move states ever further along directions until the runner-up passes the top token in the whole model.

    Trials that have reached are not moved further, so most lengths are never run.

    Args:
        decoder: the model, bound to the sequence.
        states: its residual states ``[L + 1, T, d]``.
        directions: ``[M, S, R, d]`` of any length, at the states of S layers and R positions.
        at: positions ``[R]``.
        layers: the S layers.
        pair: token ids ``[R, 2]``, runner-up and top token.
        lengths: rising, in units of the state's norm.

    Returns:
        Parts of leading shape ``[M, S, R]``.
    """
    shape = directions.shape[:-1]
    x = states[list(layers)][:, at].expand_as(directions).flatten(0, 2)
    steps = normalize(directions, dim=-1).flatten(0, 2) * x.norm(dim=-1, keepdim=True)
    at, cuts = at.expand(shape).flatten(), torch.tensor(layers, device=at.device)[:, None].expand(shape).flatten()
    contrast = _difference(decoder.unembedding[pair]).expand_as(directions).flatten(0, 2)
    grid, memories = torch.from_numpy(lengths).to(x), remember(decoder, states)
    step, last = torch.full((len(x),), len(lengths), device=x.device), torch.empty_like(x)
    left, start = torch.arange(len(x), device=x.device), 0
    while start < len(lengths) and len(left):
        tried = grid[start : start + max(1, ROWS // len(left))]
        moved = x[left, None] + tried[:, None] * steps[left, None]
        rows = left.repeat_interleave(len(tried))
        output = replay(decoder, memories, states, moved.flatten(0, 1), at[rows], cuts[rows]).view_as(moved)
        gap = (decoder.final_norm(output) * contrast[left, None]).sum(-1)
        passes, first = (gap > 0).max(1)
        step[left[passes]] = start + first[passes]
        last[left[passes]] = output[passes, first[passes]]
        left, start = left[~passes], start + len(tried)
    return Flips(step.view(shape), last.view(*shape, -1))


def side_effects(decoder: Decoder, clean: Tensor, last: Tensor, row: Tensor, pair: Tensor) -> Tensor:
    """Mean of |change of log p| over all tokens but two, in nats.

    Args:
        decoder: the model.
        clean: its last-layer states ``[R, d]``.
        last: those of K changed runs ``[K, d]``.
        row: which clean state each belongs to ``[K]``.
        pair: the two tokens at each clean state ``[R, 2]``.

    Returns:
        ``[2, K]``: every token weighing the same, and by the clean probabilities.
    """
    log_p = decoder.logits(clean).log_softmax(-1)
    weight = log_p.exp().scatter_(1, pair, 0.0)
    weight = weight / weight.sum(-1, keepdim=True)
    found = []
    for part in torch.arange(len(last), device=last.device).split(max(1, TILE // decoder.vocabulary)):
        base = row[part]
        change = decoder.logits(last[part]).log_softmax(-1).sub_(log_p[base]).abs_().scatter_(1, pair[base], 0.0)
        weighted = torch.einsum("kv,kv->k", change, weight[base])
        found.append(torch.stack((change.sum(-1) / (decoder.vocabulary - 2), weighted)))
    return torch.cat(found, 1)


def _rows(methods: list[str], layers: list[int], at: Tensor, columns: dict[str, Tensor]) -> pd.DataFrame:
    """Rows of values ``[M, S, R]``."""
    method, layer, position = np.meshgrid(np.asarray(methods), np.asarray(layers), at.numpy(), indexing="ij")
    factors = {
        "method": method.ravel(),
        "layer": layer.ravel().astype(np.int16),
        "position": position.ravel().astype(np.int16),
    }
    return pd.DataFrame(factors | {name: value.numpy().ravel() for name, value in columns.items()})
