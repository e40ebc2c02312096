"""Go on from changed states: the rest of the model, run for single positions against the clean prefix.

Substituting, steering or ablating one state changes nothing before its position, so the remaining blocks need to
run for that position alone, attending to what the clean run left of the positions before it (keys and values, or
recurrent and convolution state). A *row* is one changed state at one cut and one position; rows know nothing of
one another, so any number of them, at any cuts and positions of one sequence, is one batch::

    memories = remember(decoder, states)                  # once per sequence
    last = replay(decoder, memories, states, x, at, cuts)  # x [R, d], at [R], cuts [R]
    logits = decoder.logits(last)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from lensproof.checkpoints.anatomy.decoder import Decoder


@torch.no_grad()
def remember(decoder: Decoder, states: Tensor) -> list[Any]:
    """What each block keeps of a sequence's positions, from its residual states ``[L + 1, T, d]``.

    A block that uses another's keys and values has None here; see :func:`advance`.
    """
    return [
        block.remember(state[None]) if block.shares is None else None
        for block, state in zip(decoder.blocks, states, strict=False)
    ]


def replay(
    decoder: Decoder, memories: Sequence[Any], states: Tensor, x: Tensor, at: Tensor, cuts: Tensor | int
) -> Tensor:
    """Last-layer states of rows that go on from changed states.

    Args:
        decoder: the model, bound to the sequence (:meth:`Decoder.on`).
        memories: from :func:`remember`.
        states: the clean residual states ``[L + 1, T, d]``.
        x: changed states ``[R, d]``.
        at: their positions ``[R]``.
        cuts: the layer each stands at ``[R]``, or one for all; a row at layer L comes back as it is.

    Returns:
        ``[R, d]`` in the order of the rows.
    """
    cuts = torch.as_tensor(cuts).expand(len(x)).to(x.device)
    order = cuts.argsort(stable=True)
    x, at, rising = x[order], at.to(x.device)[order], cuts[order].tolist()
    running, owns, joined = x[:0], {}, 0
    for index in range(rising[0] if rising else decoder.depth, decoder.depth):
        start = joined
        while joined < len(rising) and rising[joined] == index:
            joined += 1
        running = torch.cat((running, x[start:joined]))
        owns = {source: _extend(decoder, own, states, source, at[start:joined]) for source, own in owns.items()}
        running = advance(decoder, index, running[None], at[:joined], memories, states, owns)[0]
    out = torch.empty_like(x)
    out[order] = torch.cat((running, x[joined:]))
    return out


def advance(
    decoder: Decoder, index: int, x: Tensor, at: Tensor, memories: Sequence[Any], states: Tensor, owns: dict[int, Any]
) -> Tensor:
    """Take rows ``x`` ``[1, R, d]`` at positions ``at`` ``[R]`` through block ``index``.

    Args:
        owns: block -> what the rows have of their own there, filled for blocks that later ones share; a shared block
            below the cut is taken from the clean run.
    """
    block = decoder.blocks[index]
    source = index if block.shares is None else block.shares
    y = block.attention_input(x)
    if block.shares is None:
        own = block.own(y, at)
        if decoder.is_shared(index):
            owns[index] = own
    elif source in owns:
        own = owns[source]
    else:
        own = owns[source] = clean(decoder, states, source, at)
    return block.finish(x, block.attend(y, at, memories[source], own), at)


def clean(decoder: Decoder, states: Tensor, index: int, at: Tensor) -> Any:
    """What block ``index`` keeps of positions ``at`` in the clean run."""
    block = decoder.blocks[index]
    return block.own(block.attention_input(states[index, at][None]), at)


def _extend(decoder: Decoder, own: Any, states: Tensor, index: int, at: Tensor) -> Any:
    """Rows that join above a shared block have the clean run's keys and values there."""
    if not len(at):
        return own
    more = clean(decoder, states, index, at)
    return type(own)(*(torch.cat(pair, 1) for pair in zip(own, more, strict=True)))
