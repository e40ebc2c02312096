"""Decomposition: ways to write a coefficient as output rows times a vector. Table 4 of LexFrame.

The coefficients of a state x of layer l, logits before any softcap, are held against the model's own output at the same
position (section 4.3):

- ``output_rows_of_state``: W x, and ``output_rows_of_jacobian_lens``: W M x with M the lens's matrix of the layer, each
  times the one scale that serves the layer best: it makes the mean KL(model || softmax(cap(scale * rows))) over all
  positions least. Chosen: any scale but 0, found by Brent's method on the logarithm of its size;
- ``lexframe_1``: W N(T(x)) with the transport of order 1, and ``native``: the same of the whole model, run on from x.

A scale is fitted on all positions at once, so one shard holds the whole experiment.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from lensproof.checkpoints.anatomy.decoder import Decoder
from lensproof.corpora import draw
from lensproof.experiments.run import Run
from lensproof.frames import typical as typical_attention
from lensproof.frames.flow import Stand
from lensproof.frames.frame import frames, transports
from lensproof.lenses import jacobian
from lensproof.lenses.jacobian import JacobianLens
from lensproof.lenses.reading import NativeReading, at_least_zero, compare
from lensproof.streams.replay import remember, replay
from lensproof.streams.trace import residuals

TILE = 2**21
"""Logits that are looked at together: what stays in a core's cache."""
SCALES = (1e-3, 1e2)
"""Between which the size of a scale is sought, in units of one over the standard deviation of what it scales: from a
uniform distribution to one that knows one token."""
PRECISION = 1e-3
"""Of the scale, relative. The KL being least there, it moves by a millionth."""


class Scaled(NamedTuple):
    """The best scale, the KL with it ``[N]`` in nats, and the top tokens ``[N]``."""

    scale: float
    kl: Tensor
    top: Tensor


@dataclass(frozen=True)
class Target:
    """The model's own output at N positions: minus its entropy ``[N]``, sum_v p_v w_v ``[N, d]``, the distribution
    ``[N, V]`` where a softcap makes it necessary, and its top tokens ``[N]``."""

    negentropy: Tensor
    expected: Tensor
    p: Tensor | None
    top: Tensor

    @classmethod
    def of(cls, readings: Sequence[NativeReading]) -> Target:
        """From the readings of one or more sequences."""
        capped = readings[0].log_p is not None
        return cls(
            torch.cat([_negentropy(reading) for reading in readings]),
            torch.cat([reading.expected for reading in readings]),
            torch.cat([reading.log_p.exp() for reading in readings]) if capped else None,
            torch.cat([reading.summary.top for reading in readings]),
        )


def _negentropy(reading: NativeReading) -> Tensor:
    if reading.log_p is not None:
        return (reading.log_p.exp() * reading.log_p).sum(-1)
    return (reading.normed * reading.expected).sum(-1) - reading.summary.normaliser


@dataclass(frozen=True)
class Positions:
    """The positions ``at`` ``[R]`` of one sequence: states ``x`` ``[S, R, d]`` and the model's own output there."""

    document: int
    sequence: int
    at: np.ndarray
    x: Tensor
    native: NativeReading


def observe(run: Run) -> pd.DataFrame:
    """Decompose the coefficients at the drawn positions of the shard's sequences.

    Returns:
        One row per sequence, position, layer and method: ``kl`` (nats, KL(model || reading)), ``agrees`` (same top
        token), ``scale`` (1 where nothing is scaled). ``depth`` is L.
    """
    layers = run.layers
    typical = typical_attention.load(run.input("typical_attention"), run.decoder, run.weights)
    lens = jacobian.load(run.input("jacobian_lens"), run.decoder, run.weights)
    tables, held = [], []
    for row, ids in run.shard("decomposition"):
        at = draw.positions(row.sequence, len(ids), run.options["positions"], run.seed)
        decoder = run.decoder.on(ids)
        states = residuals(decoder, ids[None])[:, 0]
        chosen = torch.from_numpy(at).to(states.device)
        native = NativeReading.of(decoder, states[-1, chosen])
        held.append(Positions(row.document, row.sequence, at, states[layers][:, chosen], native))
        found = transported(decoder, states, chosen, native, layers, typical)
        tables.append(found.assign(document=row.document, sequence=row.sequence))
    tables += fixed(run.decoder, held, layers, lens)
    return pd.concat(tables, ignore_index=True).assign(depth=run.decoder.depth, batch_size=1)


@torch.no_grad()
def transported(
    decoder: Decoder, states: Tensor, at: Tensor, native: NativeReading, layers: Sequence[int], typical: Stand
) -> pd.DataFrame:
    """Coefficients through order 1 and through the whole model, at some positions of one sequence.

    Args:
        decoder: the model, bound to the sequence.
        states: its residual states ``[L + 1, T, d]``.
        at: positions ``[R]``, from 1 on.
        native: the model's own output there.
        layers: those to read, rising.
        typical: typical attention.

    Returns:
        Rows as in :func:`observe`, without the sequence.
    """
    states = states[:, : int(at.max()) + 1]  # nothing reads a later position
    x, cuts = states[list(layers)][:, at], torch.tensor(layers, device=at.device).repeat_interleave(len(at))
    order1 = list(frames(decoder, states, 1, layers, typical).values())
    whole = replay(decoder, remember(decoder, states), states, x.flatten(0, 1), at.repeat(len(layers)), cuts)
    tables = []
    for method, last in (("lexframe_1", transports(order1, x, at)), ("native", whole.view_as(x))):
        found = compare(decoder, native, last)
        for layer, kl, top in zip(layers, found.kl, found.top, strict=True):
            tables.append(_rows(method, layer, at.cpu().numpy(), kl, top == native.summary.top, 1.0))
    return pd.concat(tables)


@torch.no_grad()
def fixed(
    decoder: Decoder, held: Sequence[Positions], layers: Sequence[int], lens: JacobianLens
) -> Iterator[pd.DataFrame]:
    """Output rows times a fixed map of the state, with the best scale of each layer over all sequences.

    Args:
        decoder: the model.
        held: the positions of every sequence, with their states of S layers.
        layers: the S layers.
        lens: a Jacobian lens of the model.

    Yields:
        For each map and layer, rows as in :func:`observe`.
    """
    target, x = Target.of([part.native for part in held]), torch.cat([part.x for part in held], 1)
    where = {
        "document": np.concatenate([np.full(len(part.at), part.document) for part in held]),
        "sequence": np.concatenate([np.full(len(part.at), part.sequence) for part in held]),
    }
    at = np.concatenate([part.at for part in held])
    for state, layer in zip(x, layers, strict=True):
        maps = {"output_rows_of_state": state, "output_rows_of_jacobian_lens": lens.transport(state, layer)}
        for method, vector in maps.items():
            found = best_scale(decoder, target, vector)
            rows = _rows(method, layer, at, found.kl, found.top == target.top, found.scale)
            yield rows.assign(**where)


def best_scale(decoder: Decoder, target: Target, x: Tensor) -> Scaled:
    """The scale with which W x ``[N, V]`` comes closest to the model's own output, in mean KL over N positions.

    Args:
        decoder: the model.
        target: its own output.
        x: what the output rows are multiplied with ``[N, d]``.
    """
    logits = decoder.project(x).float()
    expected = (x.float() * target.expected).sum(-1)
    # At scale 0 the KL falls towards this side, and being convex it is least there.
    sign = 1.0 if float((expected - logits.mean(-1)).mean()) >= 0 else -1.0
    logits, expected = logits.mul_(sign), expected * sign
    unit = 1 / float(logits.std(-1).mean())

    def loss(log_scale: float) -> float:
        return float(_kl(decoder, target, logits, expected, np.exp(log_scale) * unit).mean(dtype=torch.float64))

    best = minimize_scalar(loss, bounds=np.log(SCALES), method="bounded", options={"xatol": PRECISION})
    scale = float(np.exp(best.x) * unit)
    return Scaled(sign * scale, _kl(decoder, target, logits, expected, scale), logits.argmax(-1))


def _kl(decoder: Decoder, target: Target, logits: Tensor, expected: Tensor, scale: float) -> Tensor:
    """KL(model || softmax(cap(scale * logits))) ``[N]`` in nats, tile by tile; ``expected`` ``[N]`` is the mean of the
    logits under the model's distribution."""
    expected, normalisers, step = expected * scale, [], max(1, TILE // decoder.vocabulary)
    for start in range(0, len(logits), step):
        rows = slice(start, start + step)
        scaled = decoder.cap(logits[rows] * scale)
        if target.p is not None:
            expected[rows] = (target.p[rows] * scaled).sum(-1)
        # The largest probability gives the normaliser in one pass.
        normalisers.append(scaled.amax(-1) - scaled.softmax(-1).amax(-1).log())
    normaliser = torch.cat(normalisers)
    return at_least_zero(target.negentropy - expected + normaliser, normaliser)


def _rows(method: str, layer: int, at: np.ndarray, kl: Tensor, agrees: Tensor, scale: float) -> pd.DataFrame:
    return pd.DataFrame({
        "method": method,
        "layer": np.int16(layer),
        "position": at.astype(np.int16),
        "kl": kl.float().cpu().numpy(),
        "agrees": agrees.cpu().numpy(),
        "scale": np.float32(scale),
    })  # fmt: skip
