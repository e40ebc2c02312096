"""Typical attention: what a block's attention returns on average, as an affine map of what it receives.

LexFrame, section 3.3, equation (3): a(y) = a_mean + G (y - y_mean), with y what the attention module receives at
a position (after the input norm where there is one) and a what it returns there (before any post-norm). G is a
ridge regression on unlabelled text; its strength is chosen for each block by two-fold cross-validation over
sequences (:mod:`lensproof.lenses.ridge`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lensproof.checkpoints.anatomy.decoder import Decoder
from lensproof.errors import LensproofError
from lensproof.files import TYPICAL, check_shapes, read_provenance, read_safetensors, write_safetensors
from lensproof.lenses.ridge import RIDGES, Folds, Moments
from lensproof.progress import bar

SHAPES = {
    "slope": ("blocks", "width", "width"),
    "input_mean": ("blocks", "width"),
    "output_mean": ("blocks", "width"),
    "ridge": ("blocks",),
    "unexplained": ("blocks",),
}
"""Of the tensors of its file."""


@dataclass(frozen=True)
class TypicalAttention:
    """Typical attention of every block, in float32.

    ``slope`` G ``[L, d, d]``, ``input_mean`` and ``output_mean`` ``[L, d]``, ``ridge`` the chosen relative
    strengths ``[L]``, ``unexplained`` the cross-validated share of variance that G leaves ``[L]``.
    """

    slope: Tensor
    input_mean: Tensor
    output_mean: Tensor
    ridge: Tensor
    unexplained: Tensor

    def __call__(self, block: int, y: Tensor) -> Tensor:
        """Attention outputs ``[..., d]`` of block ``block`` for inputs ``y`` ``[..., d]``."""
        slope = self.slope[block].to(y)
        offset = self.output_mean[block] - self.slope[block] @ self.input_mean[block]
        return torch.nn.functional.linear(y, slope, offset.to(y))

    def mean_only(self) -> TypicalAttention:
        """The mean output alone, whatever the input: a stand-in of LexFrame's table 8."""
        return replace(self, slope=torch.zeros_like(self.slope))

    def zero(self) -> TypicalAttention:
        """No attention at all: the other stand-in of table 8."""
        return replace(self.mean_only(), output_mean=torch.zeros_like(self.output_mean))


def calibrate(
    decoder: Decoder, tokens: Tensor, *, batch: int = 4, ridges: Tensor = RIDGES, progress: str | None = None
) -> TypicalAttention:
    """Typical attention from one pass over calibration text; every position counts, position 0 too.

    Args:
        tokens: ids ``[N, T]``; even and odd sequences are the two folds.
        batch: sequences that run at once; sums are in float64.
        ridges: relative strengths to choose from.
        progress: text of a progress bar, or None.

    Raises:
        LensproofError: fewer than two sequences.
    """
    if len(tokens) < 2:
        raise LensproofError("typical attention needs at least two calibration sequences")
    folds = [
        moments(decoder, tokens[fold::2], batch=batch, progress=progress and f"{progress} ({fold + 1}/2)")
        for fold in (0, 1)
    ]
    return fit([Folds(*block) for block in zip(*folds, strict=True)], [ridges] * decoder.depth)


def fit(folds: Sequence[Folds], ridges: Sequence[Tensor]) -> TypicalAttention:
    """Typical attention from two folds and the strengths to choose from, each given block by block."""
    fits = [block.solve(own) for block, own in zip(folds, ridges, strict=True)]
    return TypicalAttention(*(torch.stack(part).float() for part in zip(*fits, strict=True)))


@torch.no_grad()
def moments(
    decoder: Decoder, tokens: Tensor, *, first: int = 0, batch: int = 4, progress: str | None = None
) -> list[Moments]:
    """Of every block: sums over what its attention module receives and returns in sequences ``[N, T]``.

    Args:
        first: the first position that counts.
        batch: sequences that run at once.
        progress: text of a progress bar, or None.
    """
    total: list[Moments] = []
    batches = tokens.split(batch)
    for part in bar(batches, progress, unit="batch") if progress else batches:
        bound, found, kept = decoder.on(part), [], {}
        x = bound.embed(part.to(decoder.device))
        for index, block in enumerate(bound.blocks):
            y = block.attention_input(x)
            if bound.is_shared(index):
                kept[index] = block.remember(x)
            a = block.attention(y, kept.get(block.shares))
            found.append(Moments.of(y[:, first:].flatten(0, 1), a[:, first:].flatten(0, 1)))
            x = block.finish(x, a)
        total = [old + new for old, new in zip(total, found, strict=True)] if total else found
    return total


def save(path: str | Path, typical: TypicalAttention, provenance: Mapping[str, Any]) -> None:
    """Write typical attention as safetensors."""
    write_safetensors(path, vars(typical), provenance)


def load(path: str | Path, decoder: Decoder, weights: str | None = None) -> TypicalAttention:
    """Read typical attention for ``decoder``.

    Args:
        weights: sha256 of that model's weights; compared where the file records one.

    Raises:
        LensproofError: it was calibrated on another model, or is damaged.
    """
    tensors = read_safetensors(path, TYPICAL)
    check_shapes(path, tensors, SHAPES)
    typical = TypicalAttention(**tensors)
    shape = (decoder.depth, decoder.width, decoder.width)
    if tuple(typical.slope.shape) != shape:
        raise LensproofError(
            f"{path} is for a model with {typical.slope.shape[0]} blocks of width {typical.slope.shape[1]}, "
            f"this one has {shape[0]} of {shape[1]}"
        )
    recorded = read_provenance(path).get("weights")
    if recorded and weights and recorded != weights:
        raise LensproofError(f"{path} was calibrated on other weights (sha256 {recorded[:12]}, here {weights[:12]})")
    return TypicalAttention(**{name: part.to(decoder.device) for name, part in vars(typical).items()})
