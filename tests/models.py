"""Models that tests use: tiny random ones of each architecture, and toys whose Jacobians are known by hand."""

from __future__ import annotations

from functools import cache

import torch

from lensproof.checkpoints.anatomy import take_apart
from lensproof.checkpoints.anatomy.decoder import AutogradBlock, Decoder
from lensproof.config import RandomSource
from lensproof.specimens.tiny import random_model

ARCHITECTURES = ("llama", "gemma3_text", "smollm3", "olmo3", "phi3", "gpt_neox")


@cache
def tiny(architecture: str, seed: int = 0, **sizes) -> Decoder:
    """A tiny random model; its windowed layers see 16 positions."""
    return take_apart(random_model(RandomSource(kind="random", architecture=architecture, seed=seed, **sizes)))


def tokens(rows: int, length: int, vocabulary: int = 300, seed: int = 0) -> torch.Tensor:
    """Random ids ``[rows, length]``."""
    return torch.randint(0, vocabulary, (rows, length), generator=torch.Generator().manual_seed(seed))


def assert_same(ours: torch.Tensor, theirs: torch.Tensor, relative: float = 1e-5) -> None:
    """Equal up to ``relative`` of the norm: what floating point leaves of an identity."""
    assert ours.shape == theirs.shape
    assert (ours - theirs).norm() <= relative * theirs.norm()


class SumBlock(AutogradBlock):
    """h'_t = h_t + A times the sum of h_s over s <= t."""

    def __init__(self, matrix: torch.Tensor):
        self.matrix = matrix

    def attention_input(self, x):
        return x

    def remember(self, x):
        return x.sum(1, keepdim=True)

    def run(self, x, memory=None):
        before = 0 if memory is None else memory
        return x + (before + x.cumsum(1)) @ self.matrix.T


class LinearBlock(AutogradBlock):
    """h'_t = M h_t: no attention, no norm."""

    def __init__(self, matrix: torch.Tensor):
        self.matrix = matrix

    def attention_input(self, x):
        return x

    def own(self, y, at):
        return None

    def attend(self, y, at, memory, own):
        return torch.zeros_like(y)

    def finish(self, x, a, at=None):
        return x @ self.matrix.T

    def remember(self, x):
        return None

    def run(self, x, memory=None):
        return x @ self.matrix.T


def toy(blocks: list, width: int) -> Decoder:
    """A decoder of the given blocks; tokens are embedded as their own number times a vector of ones."""
    return Decoder(
        architecture="toy",
        embed=lambda ids: ids[..., None].double().expand(*ids.shape, width).contiguous(),
        blocks=blocks,
        final_norm=lambda x: x,
        unembedding=torch.eye(width, dtype=torch.float64),
    )
