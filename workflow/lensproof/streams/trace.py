"""Run a model once and keep every residual state.

The states come from the parts that :mod:`lensproof.checkpoints.anatomy` names; tests hold them against the
model's own forward pass on every architecture.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lensproof.checkpoints.anatomy.decoder import Decoder


@torch.no_grad()
def residuals(decoder: Decoder, tokens: Tensor) -> Tensor:
    """Residual states of token sequences.

    Args:
        tokens: ids ``[B, T]``.

    Returns:
        States ``[L + 1, B, T, d]``; index 0 is the embedding, L the last block's output.
    """
    decoder = decoder.on(tokens)
    states = [decoder.embed(tokens.to(decoder.device))]
    for block in decoder.blocks:
        states.append(block.run(states[-1]))
    return torch.stack(states)
