"""Run a model once and keep every residual state, and what blocks add to it.

The states come from the parts that :mod:`lensproof.checkpoints.anatomy` names; tests hold them against the
model's own forward pass on every architecture.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from lensproof.checkpoints.anatomy.decoder import Decoder, Writes


@torch.no_grad()
def residuals(decoder: Decoder, tokens: Tensor) -> Tensor:
    """Residual states of token sequences.

    Args:
        tokens: ids ``[B, T]``.

    Returns:
        States ``[L + 1, B, T, d]``; index 0 is the embedding, L the last block's output.
    """
    decoder = decoder.on(tokens)
    x = decoder.embed(tokens.to(decoder.device))
    return torch.stack([x, *onward(decoder, x)])


def onward(decoder: Decoder, x: Tensor, start: int = 0, memories: Sequence[Any] = ()) -> Iterator[Tensor]:
    """The states of layers ``start + 1`` .. L, one after another, each ``[B, T, d]``.

    Args:
        decoder: the model, bound to the sequences (:meth:`Decoder.on`).
        x: states ``[B, T, d]`` of layer ``start`` at positions 0 .. T-1.
        memories: what each block below ``start`` keeps (:func:`lensproof.streams.replay.remember`); only read where
            a later block uses the keys and values of one of them.
    """
    kept = dict(enumerate(memories[:start]))
    for index in range(start, decoder.depth):
        block = decoder.blocks[index]
        if decoder.is_shared(index):
            kept[index] = block.remember(x)
        x = block.run(x) if block.shares is None else block.run(x, kept[block.shares])
        yield x


@torch.no_grad()
def writes(decoder: Decoder, states: Tensor, blocks: Iterable[int]) -> dict[int, Writes]:
    """What blocks wrote at every position of a sequence.

    Args:
        decoder: the model, bound to the sequence (:meth:`Decoder.on`).
        states: its residual states ``[L + 1, T, d]``.
        blocks: blocks to look at.

    Returns:
        Block -> its writes, each ``[T, d]``. They stand before the block's scale, where it has one.
    """
    found = {}
    for index in blocks:
        block, x = decoder.blocks[index], states[index][None]
        memory = None if block.shares is None else decoder.blocks[block.shares].remember(states[block.shares][None])
        made = block.write(x, block.attention(block.attention_input(x), memory))
        parts = (made.attention, made.mlp, made.output, made.extra)
        found[index] = Writes(*(part if part is None else part[0] for part in parts), made.scale)
    return found
