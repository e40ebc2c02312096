"""Order-n flows: the rest of the model run from a cut, with attention allowed n hops across positions.

LexFrame, appendix C.2, equation (6). From the cut at layer l every position t starts at its own state,
h_l^n(t) = x_l(t), and block k >= l takes it one layer up. Order 0 replaces attention by its typical value.
Order n >= 1 runs the model's own attention: query, and key and value of t itself, from order n; keys and values
of the positions before t from order n-1. Order infinity takes those from the model's own run.

Two facts keep this cheap. The prefix of order n is the flow of order n-1 itself, so n + 1 streams serve every
position at once. And h^n equals the model's own state for the first n blocks after a cut, so the stream of order
n only starts n layers later, and is exact where L - l <= n.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lensproof.checkpoints.anatomy.decoder import Decoder, SoftmaxBlock
from lensproof.checkpoints.anatomy.parts import Attention, Memory
from lensproof.frames.typical import TypicalAttention

# Rows (positions of all cuts) that run through a block's MLP at once: what stays in a core's cache.
ROWS = 1024


@dataclass
class Stream:
    """One order's flow from many cuts: ``cuts`` [C] rising layers, ``states`` ``[C, T, d]`` at the current layer."""

    cuts: list[int]
    states: Tensor


@torch.no_grad()
def flow(
    decoder: Decoder,
    states: Tensor,
    orders: Sequence[float],
    typical: TypicalAttention | None = None,
    cuts: Iterable[int] | None = None,
) -> Iterator[tuple[float, list[int], Tensor]]:
    """Last-layer states of the flows of one sequence.

    Args:
        decoder: the model.
        states: its residual states ``[L + 1, T, d]`` (:func:`lensproof.streams.trace.residuals`).
        orders: orders to give, 0, 1, 2, ... or ``math.inf``.
        typical: typical attention; needed for every finite order.
        cuts: layers to cut at, in 0 .. L; all by default.

    Yields:
        Order, cuts ``[C]`` and ``h_L`` ``[C, T, d]``, for each order in turn. Cuts at which the order is exact
        (L - l <= n) are left out: there the answer is the model's own last state.
    """
    finite = [int(order) for order in orders if order != math.inf]
    wanted = sorted(set(range(decoder.depth + 1) if cuts is None else cuts))
    if finite:
        if typical is None:
            raise ValueError("finite orders need typical attention")
        streams = _finite(decoder, states, max(finite), typical, wanted)
        yield from ((order, streams[order].cuts, streams[order].states) for order in finite)
    if math.inf in orders:
        native = _native(decoder, states, wanted)
        yield math.inf, native.cuts, native.states


def _finite(decoder: Decoder, states: Tensor, top: int, typical: TypicalAttention, wanted: list[int]) -> list[Stream]:
    streams = [Stream([], states[:0]) for _ in range(top + 1)]
    for index, block in enumerate(decoder.blocks):
        for order, stream in enumerate(streams):
            _join(stream, index - order, states[index], wanted)
        _advance(block, index, streams, typical)
    return streams


def _native(decoder: Decoder, states: Tensor, wanted: list[int]) -> Stream:
    stream = Stream([], states[:0])
    for index, block in enumerate(decoder.blocks):
        _join(stream, index, states[index], wanted)
        if stream.cuts:
            prefix = block.remember(states[index, None])
            y = block.attention_input(stream.states)
            stream.states = _finish(block, stream.states, _attend(block.attention, y, prefix))
    return stream


def _join(stream: Stream, cut: int, state: Tensor, wanted: list[int]) -> None:
    """Let the flow from ``cut`` into the stream: up to this layer it was the model's own."""
    if cut in wanted:
        stream.cuts.append(cut)
        stream.states = torch.cat((stream.states, state[None]))


def _advance(block: SoftmaxBlock, index: int, streams: list[Stream], typical: TypicalAttention) -> None:
    """Take every stream through one block, lower orders first: their keys and values are the next one's prefix."""
    prefix: Memory | None = None
    for order, stream in enumerate(streams):
        if not stream.cuts:
            return
        y = block.attention_input(stream.states)
        last = order + 1 == len(streams) or not streams[order + 1].cuts
        positions = torch.arange(y.shape[1], device=y.device)
        if order == 0:
            needed = 1 if last else y.shape[1]  # only the next order reads the later positions
            own = block.attention.keys_values(y[:, :needed], positions[:needed])
            a = typical(index, y)
            # Position 0 has no prefix: its attention reads its own value only, and every order is exact there.
            a[:, 0] = block.attention.merge(own.value[:, 0].repeat_interleave(_group(block.attention), 1))
        else:
            own = block.attention.keys_values(y, positions)
            a = _attend(block.attention, y, Memory(*(part[: len(y)] for part in prefix)), own)
        stream.states = _finish(block, stream.states, a)
        prefix = own


def _group(attention: Attention) -> int:
    return attention.heads // attention.key_value_heads


def _attend(attention: Attention, y: Tensor, prefix: Memory, own: Memory | None = None) -> Tensor:
    """Attention outputs ``[C, T, d]`` where every position sees ``prefix`` before it and its own key and value.

    Only the diagonal of the scores and of the pattern tells own from prefix, so it is exchanged there.
    """
    positions = torch.arange(y.shape[1], device=y.device)
    query = attention.queries(y, positions)
    own = own or attention.keys_values(y, positions)
    group = _group(attention)
    scores = attention.scores(query, prefix.key)  # C K G T S
    itself = (query.unflatten(2, (-1, group)) * own.key.unsqueeze(3)).sum(-1) * attention.scale
    scores.diagonal(dim1=-2, dim2=-1).copy_(itself.permute(0, 2, 3, 1))
    scores.masked_fill_(attention.hidden(len(positions), len(positions), y.device), -torch.inf)
    pattern = scores.float().softmax(-1).to(query.dtype)
    mixed = attention.gather(pattern, prefix.value)  # C T H h
    weight = pattern.diagonal(dim1=-2, dim2=-1).permute(0, 3, 1, 2).flatten(2)  # C T H
    change = (own.value - prefix.value).repeat_interleave(group, 2)
    return attention.merge(mixed.addcmul_(change, weight.unsqueeze(-1)))


def _finish(block: SoftmaxBlock, x: Tensor, a: Tensor) -> Tensor:
    rows = x.flatten(0, 1).split(ROWS), a.flatten(0, 1).split(ROWS)
    return torch.cat([block.finish(*part) for part in zip(*rows, strict=True)]).view_as(x)
