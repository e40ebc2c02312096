"""Gauge: a network with another scale of the residual stream at each layer and the same function.

Embeddings are scaled by a_0, what block l writes by a_l, and its output by a_{l+1} / a_l, so that layer l's states are
a_l times the original ones: norms undo it, each with its epsilon scaled along, for the states of tiny models are small;
and nothing else reads the stream. J_l is then a_L / a_l times the original,
and no readout moves: coefficients, norms and distances to the identity say nothing by themselves (Gathered section 13
of the method).
"""

from __future__ import annotations

import dataclasses
import itertools

import pytest
import torch
from models import ARCHITECTURES, tiny, tokens

from lensproof.checkpoints.anatomy.decoder import AutogradBlock, Decoder
from lensproof.checkpoints.anatomy.parts import Linear
from lensproof.claims import catalogue
from lensproof.lenses.jacobian import fit
from lensproof.lenses.visibility import visibility
from lensproof.streams.trace import residuals

SCALE_FREE = [name for name in ARCHITECTURES if name not in ("olmo3", "gemma4_text")]
"""Where the stream is read through norms alone: OLMo 3 has none before its attention and MLP, and a gate of Gemma 4's
per-layer input reads it raw."""
GAUGE = catalogue.load("gathered")["setup"]["gauge"]


class Rescaled(AutogradBlock):
    """A block whose output is multiplied."""

    def __init__(self, block, ratio: float):
        self.block, self.ratio, self.shares = block, ratio, block.shares

    def attention_input(self, x):
        return self.block.attention_input(x)

    def remember(self, x):
        return self.block.remember(x)

    def run(self, x, memory=None):
        return self.ratio * (self.block.run(x) if memory is None else self.block.run(x, memory))


def gauged(decoder: Decoder, scales: list[float]) -> Decoder:
    """The network whose states at layer l are ``scales[l]`` times those of ``decoder``."""
    ratios = [after / before for before, after in itertools.pairwise(scales)]
    blocks = [
        Rescaled(writing(block, scale), ratio)
        for block, scale, ratio in zip(decoder.blocks, scales[:-1], ratios, strict=True)
    ]
    return dataclasses.replace(
        decoder,
        embed=lambda ids: scales[0] * decoder.embed(ids),
        blocks=blocks,
        final_norm=reading(decoder.final_norm, scales[-1]),
    )


def reading(norm, scale: float):
    """The norm for states that are multiplied."""
    return dataclasses.replace(norm, eps=scale**2 * norm.eps)


def writing(block, scale: float):
    """The block with its writes multiplied, in the norm after them or else in their last projection."""
    changes = {}
    for part, last in (("attention", "output"), ("mlp", "down")):
        changes[f"{part}_norm"] = reading(getattr(block, f"{part}_norm"), scale)
        norm = getattr(block, f"{part}_post_norm", None)
        if norm is not None:
            changes[f"{part}_post_norm"] = dataclasses.replace(norm, gain=scale * norm.gain)
        else:
            module = getattr(block, part)
            weight, bias = getattr(module, last).weight, getattr(module, last).bias
            scaled = Linear(scale * weight, None if bias is None else scale * bias)
            changes[part] = dataclasses.replace(module, **{last: scaled})
    return dataclasses.replace(block, **changes)


def step(depth: int) -> list[float]:
    """1 below the middle of depth and the published factor from there on."""
    return [1.0 if layer < depth // 2 else GAUGE["factor"] for layer in range(depth + 1)]


def uneven(depth: int) -> list[float]:
    """Another scale at every layer."""
    return [1.5 + (-0.8) ** layer for layer in range(depth + 1)]


@pytest.mark.parametrize("shape", [step, uneven])
@pytest.mark.parametrize("architecture", SCALE_FREE)
def test_a_gauge_changes_jacobians_by_the_stated_factor_and_no_readout(architecture, shape):
    decoder = tiny(architecture)
    scales, ids = shape(decoder.depth), tokens(2, 9)
    other = gauged(decoder, scales)
    states, moved = residuals(decoder, ids), residuals(other, ids)
    torch.testing.assert_close(other.logits(moved[-1]), decoder.logits(states[-1]), rtol=1e-4, atol=1e-4)
    lens, moved_lens = fit(decoder, ids, skip=3), fit(other, ids, skip=3)
    z, rivals = torch.arange(20, 22), [torch.tensor([1, 2, 3])] * 2
    for layer, scale in enumerate(scales):
        torch.testing.assert_close(moved[layer], scale * states[layer], rtol=1e-3, atol=1e-4)
        own, gauge_own = (found.matrices[layer].diagonal().mean() for found in (lens, moved_lens))
        assert float(gauge_own / own) == pytest.approx(scales[-1] / scale, rel=0.02)
        read = visibility(decoder, lens.transport(states[layer][:, -1], layer), z, rivals)
        moved_read = visibility(other, moved_lens.transport(moved[layer][:, -1], layer), z, rivals)
        assert (read.rank - moved_read.rank).abs().max() <= 1  # rounding may part a tie
        torch.testing.assert_close(moved_read.margin, read.margin, rtol=1e-2, atol=1e-3)


def test_the_published_step_doubles_what_lies_below_it():
    published = catalogue.load("gathered")["gauge"]
    scales = step(8)
    assert {scales[-1] / scale for scale in scales[:4]} == {published["below_step"]}
    assert {scales[-1] / scale for scale in scales[4:]} == {published["from_step_on"]}
