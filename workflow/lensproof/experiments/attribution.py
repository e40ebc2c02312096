"""Attribution against ablation: Table 6 of LexFrame.

What a block, its attention write or its MLP write adds at a position, q, is credited with a share of the centred
logit c of the model's top token. The reference takes q out of the block's output x and runs the rest of the whole
model from there, the prefix as it is: the *effect* is c(x) - c(x - q). A reading's *difference* is the same with its
own coefficients; its *linear* form is b . q, with b the gradient of its coefficient at x.

Chosen: every position that has a prefix counts, 1 to T-1. The layers are the configured ones among 1 .. L-1: layer l is
the output of block l-1, so the embedding has no block, and at L nothing of the model is left to run. Of a block with a
scale (Gemma 4), q is what its write adds to its output: the write times the scale, and for the whole block the output
less the input. The native difference is the effect itself, found another way; it is worked out at every eighth
position.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from lensproof.checkpoints.anatomy.decoder import Decoder, Writes
from lensproof.errors import LensproofError
from lensproof.experiments.run import Run
from lensproof.frames import typical as typical_attention
from lensproof.frames.basis import covectors
from lensproof.frames.frame import Frame, frames, native_readouts
from lensproof.frames.typical import TypicalAttention
from lensproof.lenses import jacobian
from lensproof.lenses.jacobian import JacobianLens
from lensproof.lenses.reading import summarise
from lensproof.streams.replay import remember, replay
from lensproof.streams.trace import residuals, writes

COMPONENTS = ("layer", "attention", "mlp")
CHECKED = 8
"""One position of so many has the native difference."""
ROWS = 32
"""Positions whose native gradients are found at once: every block keeps a matrix per head and position meanwhile."""

Normed = Callable[[Tensor, Tensor], Tensor]
"""States ``[R, d]`` of a layer and their positions ``[R]`` to what a reading makes of them, after the final norm."""


@dataclass(frozen=True)
class Removal:
    """Writes ``q`` ``[K, R, d]`` to be taken out of states ``x`` ``[R, d]`` at positions ``at`` ``[R]``, and the
    covectors w_v - w_mean ``[R, d]`` of the tokens v that they are credited with."""

    x: Tensor
    q: Tensor
    at: Tensor
    covector: Tensor

    def removed(self, normed: Normed) -> Tensor:
        """c(x - q) ``[K, R]``."""
        less = (self.x - self.q).flatten(0, 1)
        return coefficient(normed(less, self.at.repeat(len(self.q))).view_as(self.q), self.covector)

    def kept(self, normed: Normed) -> tuple[Tensor, Tensor]:
        """c(x) ``[R]`` and its gradient b ``[R, d]``."""
        with torch.enable_grad():
            x = self.x.detach().clone().requires_grad_()
            value = coefficient(normed(x, self.at), self.covector)
            # Rows know nothing of one another: the gradient of their sum holds each one's own.
            (gradient,) = torch.autograd.grad(value.sum(), x)
        return value.detach(), gradient

    def linear(self, gradient: Tensor) -> Tensor:
        """b . q ``[K, R]``."""
        return (self.q * gradient).sum(-1)

    def every(self, step: int) -> Removal:
        """The same at one position of ``step``."""
        return Removal(self.x[::step], self.q[:, ::step], self.at[::step], self.covector[::step])


def coefficient(normed: Tensor, covector: Tensor) -> Tensor:
    """Centred coefficients ``[..., R]`` of normed states ``[..., R, d]``, before any softcap."""
    return (normed.float() * covector).sum(-1)


def observe(run: Run) -> pd.DataFrame:
    """Attribution of every write of the shard's sequences, at the configured layers.

    Returns:
        The rows of :func:`attribute` with ``document`` and ``sequence``.

    Raises:
        LensproofError: no layer is configured between the embedding and the last.
    """
    layers = [layer for layer in run.layers if 0 < layer < run.decoder.depth]
    if not layers:
        raise LensproofError("experiments.attribution.layers names no layer between the embedding and the last")
    typical = typical_attention.load(run.input("typical_attention"), run.decoder, run.weights)
    lens = jacobian.load(run.input("jacobian_lens"), run.decoder, run.weights)
    found = [
        attribute(run.decoder.on(ids), ids, layers=layers, typical=typical, lens=lens).assign(
            document=row.document, sequence=row.sequence
        )
        for row, ids in run.shard("attribution")
    ]
    return pd.concat(found, ignore_index=True).assign(batch_size=1)


@torch.no_grad()
def attribute(
    decoder: Decoder, tokens: Tensor, *, layers: Sequence[int], typical: TypicalAttention, lens: JacobianLens
) -> pd.DataFrame:
    """Every method's attribution of every write to the model's top token, beside the measured effect.

    Args:
        decoder: the model, bound to the sequence (:meth:`Decoder.on`).
        tokens: ids ``[T]``.
        layers: layers in 1 .. L-1.
        typical: typical attention.
        lens: Jacobian lens.

    Returns:
        One row per (method, layer, component, position): ``method``, ``layer``, ``component`` (``layer``,
        ``attention``, ``mlp``), ``position``, ``effect`` and ``score``, both in logits before any softcap.
    """
    states = residuals(decoder, tokens[None])[:, 0]
    at = torch.arange(1, len(tokens), device=states.device)
    covector = covectors(decoder, summarise(decoder, states[-1, at]).top)
    own = coefficient(decoder.final_norm(states[-1, at]), covector)
    memories, made = remember(decoder, states), writes(decoder, states, [layer - 1 for layer in layers])
    first, native = (frames(decoder, states, order, layers, typical) for order in (1, math.inf))
    slopes = _slopes(decoder, states, at, covector)
    rows = []
    for layer in layers:
        q = _added(made[layer - 1], states[layer - 1])[:, at]
        removal = Removal(states[layer, at], q, at, covector)
        effect = own - removal.removed(partial(_whole, decoder, memories, states, layer))
        scores = {
            **_by_lenses(removal, decoder, lens, layer),
            **_by_frame("lexframe_1", removal, first[layer]),
            "native_linear": removal.linear(slopes[layer]),
        }
        rows += [_rows(method, layer, at, effect, score) for method, score in scores.items()]
        again = own[::CHECKED] - removal.every(CHECKED).removed(native[layer].normed)
        rows.append(_rows("native_difference", layer, at[::CHECKED], effect[:, ::CHECKED], again))
    return pd.concat(rows)


def _slopes(decoder: Decoder, states: Tensor, at: Tensor, covector: Tensor) -> Tensor:
    """Native gradients b ``[L + 1, R, d]``."""
    parts = zip(at.split(ROWS), covector.split(ROWS), strict=True)
    return torch.cat([native_readouts(decoder, states, rows, c[:, None])[:, :, 0] for rows, c in parts], 1)


def _added(made: Writes, before: Tensor) -> Tensor:
    """What a block, its attention write and its MLP write add ``[3, T, d]``, given its input ``[T, d]``."""
    return torch.stack((made.output - before, made.attention * made.scale, made.mlp * made.scale))


def _whole(decoder: Decoder, memories: Sequence, states: Tensor, layer: int, x: Tensor, at: Tensor) -> Tensor:
    """The rest of the whole model, run from changed states."""
    return decoder.final_norm(replay(decoder, memories, states, x, at, layer))


def _by_lenses(removal: Removal, decoder: Decoder, lens: JacobianLens, layer: int) -> dict[str, Tensor]:
    """Scores ``[K, R]`` by method."""
    transports = {"logit_lens": lambda x: x, "jacobian_lens": partial(lens.transport, layer=layer)}
    found = {}
    for name, transport in transports.items():
        value = coefficient(decoder.final_norm(transport(removal.x)), removal.covector)
        found[f"{name}_difference"] = value - removal.removed(lambda x, at, t=transport: decoder.final_norm(t(x)))
    return found


def _by_frame(name: str, removal: Removal, frame: Frame) -> dict[str, Tensor]:
    """Scores ``[K, R]`` by method."""
    value, gradient = removal.kept(frame.normed)
    return {
        f"{name}_difference": value - removal.removed(frame.normed),
        f"{name}_linear": removal.linear(gradient),
    }


def _rows(method: str, layer: int, at: Tensor, effect: Tensor, score: Tensor) -> pd.DataFrame:
    return pd.DataFrame({
        "method": method,
        "layer": np.int16(layer),
        "component": np.repeat(np.asarray(COMPONENTS), len(at)),
        "position": np.tile(at.cpu().numpy().astype(np.int16), len(COMPONENTS)),
        "effect": effect.float().cpu().numpy().ravel(),
        "score": score.float().cpu().numpy().ravel(),
    })  # fmt: skip
