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
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from lensproof.checkpoints.anatomy.decoder import Block, Decoder
from lensproof.frames.typical import TypicalAttention
from lensproof.progress import SOON, bar
from lensproof.streams.replay import clean, remember

Stand = Callable[[int, Tensor], Tensor]
"""What stands in for attention in order 0: block and inputs ``[..., d]`` to attention outputs ``[..., d]``."""

# Rows (positions of all cuts) that run through a block's MLP at once: what stays in a core's cache.
ROWS = 1024


@dataclass
class Stream:
    """One order's flow from many cuts: ``cuts`` [C] rising layers, ``states`` ``[C, T, d]`` at the current layer.

    ``owns``: block -> what it keeps of the stream's positions, where a later block uses that in place of its own.
    """

    cuts: list[int]
    states: Tensor
    owns: dict[int, Any] = field(default_factory=dict)


@torch.no_grad()
def flow(
    decoder: Decoder,
    states: Tensor,
    orders: Sequence[float],
    typical: TypicalAttention | Stand | None = None,
    cuts: Iterable[int] | None = None,
    exact_first: bool = True,
    progress: str | None = None,
) -> Iterator[tuple[float, list[int], Tensor]]:
    """Last-layer states of the flows of one sequence.

    Args:
        decoder: the model, bound to the sequence where its blocks need that (:meth:`Decoder.on`).
        states: its residual states ``[L + 1, T, d]`` (:func:`lensproof.streams.trace.residuals`).
        orders: orders to give, 0, 1, 2, ... or ``math.inf``.
        typical: typical attention; needed for every finite order.
        cuts: layers to cut at, in 0 .. L; all by default.
        exact_first: position 0, which has no prefix, keeps the model's own attention in order 0.
        progress: text of a progress bar, for what takes longer than a moment, or None.

    Yields:
        Order, cuts ``[C]`` and ``h_L`` ``[C, T, d]``, for each order in turn. Cuts at which the order is exact
        (L - l <= n) are left out: there the answer is the model's own last state.
    """
    finite = [int(order) for order in orders if order != math.inf]
    wanted = sorted(set(range(decoder.depth + 1) if cuts is None else cuts))
    if finite:
        if typical is None:
            raise ValueError("finite orders need typical attention")
        streams = _finite(decoder, states, max(finite), typical, wanted, exact_first, progress)
        yield from ((order, streams[order].cuts, streams[order].states) for order in finite)
    if math.inf in orders:
        native = _native(decoder, states, wanted, progress)
        yield math.inf, native.cuts, native.states


def _finite(
    decoder: Decoder,
    states: Tensor,
    top: int,
    typical: Stand,
    wanted: list[int],
    exact_first: bool,
    progress: str | None,
) -> list[Stream]:
    streams = [Stream([], states[:0]) for _ in range(top + 1)]
    for index in _steps(decoder, progress):
        for order, stream in enumerate(streams):
            _join(decoder, stream, index - order, index, states, wanted)
        _advance(decoder, index, streams, states, typical, exact_first)
    return streams


@torch.no_grad()
def prefixes(decoder: Decoder, states: Tensor, order: int, typical: Stand, cuts: Iterable[int]) -> dict[int, list[Any]]:
    """What the order-n flows from several cuts leave for later positions to attend to.

    Args:
        decoder, states, typical: as for :func:`flow`.
        order: n; a frame of order n + 1 attends to this.
        cuts: layers to cut at.

    Returns:
        Cut -> one memory per block (leading axis 1), the model's own below layer cut + n.
    """
    wanted, memories = sorted(set(cuts)), remember(decoder, states)
    found = {cut: list(memories) for cut in wanted}
    streams = [Stream([], states[:0]) for _ in range(order + 1)]
    for index in range(decoder.depth):
        for rank, stream in enumerate(streams):
            _join(decoder, stream, index - rank, index, states, wanted)
        left = _advance(decoder, index, streams, states, typical, keep=True)
        for place, cut in enumerate(streams[-1].cuts):
            found[cut][index] = type(left)(*(part[place : place + 1] for part in left))
    return found


def _steps(decoder: Decoder, progress: str | None) -> Iterable[int]:
    """The blocks, with a bar where one is wanted."""
    blocks = range(decoder.depth)
    return bar(blocks, progress, unit="block", delay=SOON) if progress else blocks


def _native(decoder: Decoder, states: Tensor, wanted: list[int], progress: str | None) -> Stream:
    stream = Stream([], states[:0])
    memories = remember(decoder, states)
    positions = torch.arange(states.shape[1], device=states.device)
    for index in _steps(decoder, progress):
        block = decoder.blocks[index]
        _join(decoder, stream, index, index, states, wanted)
        if stream.cuts:
            y = block.attention_input(stream.states)
            own = _own(decoder, index, stream, states, y, positions)
            prefix = memories[index if block.shares is None else block.shares]
            stream.states = _finish(block, stream.states, block.attend(y, positions, prefix, own), positions)
    return stream


def _join(decoder: Decoder, stream: Stream, cut: int, index: int, states: Tensor, wanted: list[int]) -> None:
    """Let the flow from ``cut`` into the stream before block ``index``: up to this layer it was the model's own."""
    if cut not in wanted:
        return
    stream.cuts.append(cut)
    stream.states = torch.cat((stream.states, states[index, None]))
    positions = torch.arange(states.shape[1], device=states.device)
    for source, own in stream.owns.items():
        more = clean(decoder, states, source, positions)
        stream.owns[source] = type(own)(*(torch.cat(pair) for pair in zip(own, more, strict=True)))


def _own(decoder: Decoder, index: int, stream: Stream, states: Tensor, y: Tensor, positions: Tensor) -> Any:
    """What a block keeps of the stream's positions: its own, or that of the block whose keys and values it uses.

    Of a shared block below the cut it is the model's own.
    """
    block = decoder.blocks[index]
    if block.shares is None:
        own = block.own(y, positions)
        if decoder.is_shared(index):
            stream.owns[index] = own
        return own
    if block.shares not in stream.owns:
        own = clean(decoder, states, block.shares, torch.arange(states.shape[1], device=states.device))
        stream.owns[block.shares] = type(own)(*(part.expand(len(y), *part.shape[1:]) for part in own))
    return stream.owns[block.shares]


def _advance(
    decoder: Decoder,
    index: int,
    streams: list[Stream],
    states: Tensor,
    typical: Stand,
    exact_first: bool = True,
    keep: bool = False,
) -> Any:
    """Take every stream through one block, lower orders first: what it keeps of them is the next one's prefix.

    Returns:
        With ``keep``, the memory of the highest order.
    """
    block, prefix = decoder.blocks[index], None
    for order, stream in enumerate(streams):
        if not stream.cuts:
            return None
        y = block.attention_input(stream.states)
        positions = torch.arange(y.shape[1], device=y.device)
        last = not keep and (order + 1 == len(streams) or not streams[order + 1].cuts)
        if order == 0:
            # Only the next order, or a block that shares this one's keys and values, reads the later positions.
            needed = 1 if last and not decoder.is_shared(index) else len(positions)
            own = _own(decoder, index, stream, states, y[:, :needed], positions[:needed])
            a = typical(index, y)
            if exact_first:
                # Position 0 has no prefix: its attention reads its own value only, and every order is exact there.
                first = type(own)(*(part[:, :1] for part in own))
                a[:, :1] = block.attend(y[:, :1], positions[:1], block.collect(first), first)
        else:
            own = _own(decoder, index, stream, states, y, positions)
            a = block.attend(y, positions, _first(prefix, len(y)), own)
        stream.states = _finish(block, stream.states, a, positions)
        prefix = None if last else block.collect(own)
    return prefix


def _first(memory: Any, cuts: int) -> Any:
    return type(memory)(*(part[:cuts] for part in memory))


def _finish(block: Block, x: Tensor, a: Tensor, positions: Tensor) -> Tensor:
    step = max(1, ROWS // x.shape[1])
    parts = zip(x.split(step), a.split(step), strict=True)
    return torch.cat([block.finish(*part, positions) for part in parts])
