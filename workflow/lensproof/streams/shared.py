"""Prompts that begin alike: the context runs once, and every continuation goes on from what it left.

The arms of one instance differ in the few tokens after a long context, so most of the work of running them one by one
is the same work. Continuations of one context are one batch, padded at the end, where causal attention cannot see it::

    states = continued(decoder, context, [report, flexible, control])   # ids; each [L + 1, its length, d]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from lensproof.checkpoints.anatomy.decoder import Decoder
from lensproof.errors import LensproofError
from lensproof.streams.replay import remember
from lensproof.streams.trace import residuals


@torch.no_grad()
def continued(decoder: Decoder, context: Tensor, continuations: Sequence[Tensor]) -> list[Tensor]:
    """Residual states of continuations of one context, as if each had been run whole.

    Args:
        decoder: the model.
        context: ids ``[T]``, at least one.
        continuations: ids ``[S_i]`` of what follows, each at least one.

    Returns:
        For each continuation its states ``[L + 1, S_i, d]``, without the context's.

    Raises:
        LensproofError: the context or a continuation is empty.
    """
    if not len(context) or not all(map(len, continuations)):
        raise LensproofError("a context and each of its continuations need at least one token")
    longest = max(map(len, continuations))
    padded = torch.stack([torch.nn.functional.pad(ids, (0, longest - len(ids))) for ids in continuations])
    clean = decoder.on(context)
    memories = remember(clean, residuals(clean, context[None])[:, 0])
    whole = torch.cat((context.expand(len(padded), -1), padded), 1)
    states = torch.stack(list(_onward(decoder.on(whole), memories, padded, len(context))))
    return [states[:, row, : len(ids)] for row, ids in enumerate(continuations)]


def _onward(decoder: Decoder, memories: Sequence[Any], tokens: Tensor, start: int):
    """The states of layers 0 .. L, each ``[B, S, d]``, of tokens ``[B, S]`` at positions ``start`` on."""
    x = decoder.embed(tokens.to(decoder.device))
    at = torch.arange(start, start + tokens.shape[1], device=x.device)
    kept: dict[int, Any] = {}
    yield x
    for index, block in enumerate(decoder.blocks):
        if block.shares is None:
            memory = _for_all(memories[index], len(x))
            if decoder.is_shared(index):
                own = block.own(block.attention_input(x), at)
                kept[index] = type(own)(*(torch.cat(pair, 1) for pair in zip(memory, own, strict=True)))
        else:
            memory = kept[block.shares]
        x = block.run(x, memory)
        yield x


def _for_all(memory: Any, rows: int) -> Any:
    """One sequence's memory for a batch of continuations."""
    return type(memory)(*(part.expand(rows, *part.shape[1:]) for part in memory))
