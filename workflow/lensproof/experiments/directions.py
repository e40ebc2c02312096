"""Directions: how near each method's direction for a label comes to the native readout. Figures 1, 7 and 8 of LexFrame.

At a state x of layer l and for a label v, with c = w_v - w_mean, the native readout b = J' c is the gradient of the
model's centred coefficient of v. Beside it stand, LexFrame sections 3.2, 3.3 and 4.1:

- ``logit_lens``: c itself;
- ``jacobian_lens``: M' c, with M the lens's matrix of the layer. Chosen: this fixed vector is the primary one;
- ``jacobian_lens_normed``: M' N'(M x)' c, the gradient of what the lens reads there, through the final norm N;
- ``ridge_probe``: the weight vector of the label (:mod:`lensproof.lenses.probe`);
- ``lexframe_n``: the readout of order n.

Method ``native_readout`` has <b, x> and the coefficient itself, which are not the same (section 4.3, appendix C.1).
Vectors are float32; products of them are summed in float64.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.nn.functional import normalize

from lensproof.checkpoints.anatomy.decoder import Decoder
from lensproof.corpora import draw
from lensproof.experiments.run import Run
from lensproof.frames import typical as typical_attention
from lensproof.frames.basis import covectors
from lensproof.frames.flow import Stand
from lensproof.frames.frame import frames, linearise, native_readouts
from lensproof.lenses import jacobian, probe
from lensproof.lenses.jacobian import JacobianLens
from lensproof.lenses.probe import RidgeProbe
from lensproof.streams.trace import residuals

SMALLEST = torch.finfo(torch.float64).tiny


def observe(run: Run) -> pd.DataFrame:
    """Every method's directions at the drawn states of the shard's sequences.

    Returns:
        One row per sequence, position, layer, method and label: ``cosine`` with the native readout; for method
        ``native_readout`` instead ``inner_product`` <b, x> and ``coefficient`` (the model's centred coefficient).
        ``depth`` is L.
    """
    labels = torch.from_numpy(draw.labels(run.sequences, run.options["labels"]))
    fixed = {
        "layers": run.layers,
        "orders": run.options["orders"],
        "typical": typical_attention.load(run.input("typical_attention"), run.decoder, run.weights),
        "lens": jacobian.load(run.input("jacobian_lens"), run.decoder, run.weights),
        "ridge": probe.load(run.input("ridge_probe"), run.decoder, labels, run.weights),
    }
    tables = []
    for row, ids in run.shard("directions"):
        at = draw.positions(row.sequence, len(ids), run.options["positions"], run.seed)
        decoder = run.decoder.on(ids)
        states = residuals(decoder, ids[None])[:, 0]
        found = compare(decoder, states, torch.from_numpy(at), labels, **fixed)
        tables.append(found.assign(document=row.document, sequence=row.sequence))
    return pd.concat(tables, ignore_index=True).assign(depth=run.decoder.depth, batch_size=1)


@torch.no_grad()
def compare(
    decoder: Decoder,
    states: Tensor,
    at: Tensor,
    labels: Tensor,
    *,
    layers: Sequence[int],
    orders: Sequence[int],
    typical: Stand,
    lens: JacobianLens,
    ridge: RidgeProbe,
) -> pd.DataFrame:
    """Directions at some states of one sequence.

    Args:
        decoder: the model, bound to the sequence.
        states: its residual states ``[L + 1, T, d]``.
        at: positions ``[R]``, from 1 on.
        labels: token ids ``[C]``.
        layers: those to look at.
        orders: of the frames.
        typical, lens, ridge: what was fitted for this model; ``ridge`` for these labels.

    Returns:
        Rows as in :func:`observe`, without the sequence.
    """
    states = states[:, : int(at.max()) + 1]  # nothing reads a later position
    rows, chosen = at.to(states.device), list(layers)
    covector = covectors(decoder, labels)
    native = native_readouts(decoder, states, rows, covector)[chosen]
    x = states[chosen][:, rows]
    place = (chosen, at, labels)
    own = {
        "inner_product": (native.double() * x.double().unsqueeze(2)).sum(-1),
        "coefficient": (decoder.final_norm(states[-1, rows]).float() @ covector.T).expand(len(chosen), -1, -1),
    }
    tables = [_rows("native_readout", *place, own)]
    for method, direction in _directions(decoder, states, rows, chosen, covector, native, orders, typical, lens, ridge):
        tables.append(_rows(method, *place, {"cosine": cosine(direction, native)}))
    return pd.concat(tables, ignore_index=True)


def _directions(
    decoder: Decoder,
    states: Tensor,
    at: Tensor,
    layers: list[int],
    covector: Tensor,
    native: Tensor,
    orders: Sequence[int],
    typical: Stand,
    lens: JacobianLens,
    ridge: RidgeProbe,
) -> Iterator[tuple[str, Tensor]]:
    """Each method's directions, of the shape of ``native`` ``[S, R, C, d]`` or one that expands to it."""
    x = states[layers][:, at]
    yield "logit_lens", covector
    matrices = [lens.matrices[layer].to(x.device) for layer in layers]
    yield "jacobian_lens", torch.stack([covector @ matrix for matrix in matrices]).unsqueeze(1)
    normed = [
        decoder.final_norm.linearise(lens.transport(state, layer)).vjp(covector.expand(len(at), -1, -1)) @ matrix
        for layer, state, matrix in zip(layers, x, matrices, strict=True)
    ]
    yield "jacobian_lens_normed", torch.stack(normed)
    yield "ridge_probe", ridge.weight[layers].unsqueeze(1)
    for order in orders:
        cuts = [layer for layer in layers if decoder.depth - layer > order]
        found = native.clone()  # which is what the order gives where it is exact
        if cuts:
            made = list(frames(decoder, states, order, cuts, typical).values())
            back = linearise(made, states[cuts][:, at], at).vjp
            readouts = back(covector.expand(len(cuts) * len(at), -1, -1))
            found[[layers.index(cut) for cut in cuts]] = readouts.unflatten(0, (len(cuts), -1))
        yield f"lexframe_{order}", found


def cosine(directions: Tensor, readouts: Tensor) -> Tensor:
    """Cosines ``[...]`` of vectors ``[..., d]``, in float64; 0 where one of them vanishes."""
    one, other = (normalize(part.double(), dim=-1, eps=SMALLEST) for part in (directions, readouts))
    return (one * other).sum(-1).clamp(-1, 1)


def _rows(method: str, layers: list[int], at: Tensor, labels: Tensor, values: dict[str, Tensor]) -> pd.DataFrame:
    """Rows of values ``[S, R, C]``."""
    layer, position, label = np.meshgrid(np.asarray(layers), at.numpy(), labels.numpy(), indexing="ij")
    columns: dict[str, Any] = {
        "method": method,
        "layer": layer.ravel().astype(np.int16),
        "position": position.ravel().astype(np.int16),
        "label": label.ravel().astype(np.int32),
    }
    return pd.DataFrame(columns | {name: value.cpu().numpy().ravel() for name, value in values.items()})
