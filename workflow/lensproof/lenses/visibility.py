"""How visible one token is in a reading: its rank, percentile rank, log rank and margin over rivals.

With rank the number of tokens that score strictly above z's token and V the vocabulary,

    R_z = 1 - rank / (V - 1),   L_z = -log10(rank + 1),   M_z = log p(z) - mean over rivals of log p(rival).

R_z saturates on a large vocabulary (ranks 0 and 24 of 248,320 differ by 1e-4), the others do not. Scores and ranks
are taken before a softcap, which can only make ties; probabilities after it. All in float32, whatever the weights.
Source: Gathered section 2 of the method.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from lensproof.checkpoints.anatomy.decoder import Decoder, full
from lensproof.errors import LensproofError

# States and tokens of one tile of scores: about 4 MB in float32.
ROWS, TOKENS = 1024, 1024


class Visibility(NamedTuple):
    """Of the tokens z in the readings of N states, each ``[N]``: ``rank`` counts from 0, ``margin`` is M_z in nats."""

    rank: Tensor
    percentile: Tensor
    log_rank: Tensor
    margin: Tensor


@torch.no_grad()
def visibility(decoder: Decoder, x: Tensor, tokens: Tensor, rivals: Sequence[Tensor]) -> Visibility:
    """Visibility of one token in each of N readings.

    Args:
        decoder: the model.
        x: last-layer states to read ``[N, d]``, as a lens transports them.
        tokens: z's token for each ``[N]``.
        rivals: the tokens that M_z compares with, for each state one tensor of at least one id.

    Raises:
        LensproofError: a state has no rival, or z among them.
    """
    for token, others in zip(tokens.tolist(), rivals, strict=True):
        if not len(others) or token in others.tolist():
            raise LensproofError("M_z compares a token with rivals: at least one, and not the token itself")
    normed = decoder.normed(x)
    rank = torch.cat([ranks(decoder, *part) for part in zip(normed.split(ROWS), tokens.split(ROWS), strict=True)])
    margin = torch.stack([_margin(decoder, *row) for row in zip(normed, tokens, rivals, strict=True)])
    return Visibility(rank, percentile(rank, decoder.vocabulary), log_rank(rank), margin)


def percentile(rank: Tensor, vocabulary: int) -> Tensor:
    """R_z of ranks that count from 0, in float64: its steps are finer than float32 near 1."""
    return 1 - rank.double() / (vocabulary - 1)


def log_rank(rank: Tensor) -> Tensor:
    """L_z of ranks that count from 0."""
    return -(rank.double() + 1).log10()


def ranks(decoder: Decoder, normed: Tensor, tokens: Tensor) -> Tensor:
    """Number of tokens that score strictly above ``tokens`` ``[N]`` at normed states ``[N, d]``."""
    weights = decoder.unembedding.split(TOKENS)
    own = torch.stack([full(decoder.unembedding[token]) @ row for token, row in zip(tokens, normed, strict=True)])
    above = torch.zeros(len(normed), dtype=torch.int64, device=normed.device)
    for tile, weight in enumerate(weights):
        higher = normed @ full(weight).T > own[:, None]
        # Summed in another order, a token's score can exceed itself.
        inside = tokens.to(normed.device) - tile * TOKENS
        rows = ((inside >= 0) & (inside < len(weight))).nonzero().squeeze(1)
        higher[rows, inside[rows]] = False
        above += higher.sum(-1)
    return above


def _margin(decoder: Decoder, normed: Tensor, token: Tensor, rivals: Tensor) -> Tensor:
    """M_z; the normaliser is the same for all tokens and cancels."""
    rows = torch.cat((token.view(1), rivals.to(token)))
    own, *others = decoder.cap(full(decoder.unembedding[rows]) @ normed)
    return own - torch.stack(others).mean()
