"""The gated delta rule: linear attention whose memory is a matrix per head that every position corrects.

Yang, Kautz and Hatamizadeh 2024. With k and q unit vectors, decay g <= 0 and strength b in (0, 1), position t makes of
the state S ``[k, v]`` before it

    S_t = exp(g_t) S + k_t u_t',   u_t = b_t (v_t - exp(g_t) S' k_t),   output o_t = S_t' q_t.

So S_t = sum over s <= t of exp(G_t - G_s) k_s u_s', with G the sum of g so far: what later positions need of a position
is its key, its correction u and G, from which they read the state before any position as a weighted sum, and the inputs
of the short convolution over the last few positions from which q, k and v come.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from lensproof.checkpoints.anatomy.parts import Linear, RMSNorm


class Feed(NamedTuple):
    """What feeds the recurrence at a position: ``mixed`` ``[B, R, c]``, the convolution's input; ``strength`` and
    ``decay`` (log) ``[B, R, H]``."""

    mixed: Tensor
    strength: Tensor
    decay: Tensor


class DeltaMemory(NamedTuple):
    """What later positions need of positions 0 .. S-1.

    ``mixed`` ``[B, S, c]``; ``key`` ``[B, S, K, k]`` and ``correction`` ``[B, S, H, v]`` in float32; ``decay``
    ``[B, S, H]``, summed from position 0 on in float64: only differences of it are used.
    """

    mixed: Tensor
    key: Tensor
    correction: Tensor
    decay: Tensor


@dataclass(frozen=True)
class GatedDeltaNet:
    """Projections, a causal convolution of each channel, the delta rule, and a norm gated by the input.

    K heads of queries and keys of width ``key_width`` serve H heads of values; ``taps`` ``[c, n]`` are the convolution
    over the last n positions, the position itself last. The decay is ``-exp(log_rate) softplus(decay(y) + offset)``.
    """

    mixed: Linear
    gate: Linear
    strength: Linear
    decay: Linear
    output: Linear
    taps: Tensor
    log_rate: Tensor
    offset: Tensor
    norm: RMSNorm
    key_heads: int
    heads: int
    key_width: int
    activation: Callable[[Tensor], Tensor]

    def own(self, y: Tensor, at: Tensor) -> Feed:
        """What the module keeps of ``y`` ``[B, R, d]``; the same at every position."""
        decay = -self.log_rate.float().exp() * F.softplus(self.decay(y).float() + self.offset)
        return Feed(self.mixed(y), self.strength(y).sigmoid().float(), decay)

    def collect(self, own: Feed) -> DeltaMemory:
        """The memory of positions 0 .. S-1, from what is kept of each, in order."""
        return self._go_on(own, None)[0]

    def __call__(self, y: Tensor, memory: DeltaMemory | None = None) -> Tensor:
        """Outputs ``[B, T, d]`` of ``y`` ``[B, T, d]``, the positions after those in ``memory``."""
        whole, query = self._go_on(self.own(y, torch.arange(y.shape[1], device=y.device)), memory)
        length = whole.decay.shape[1]
        at = torch.arange(length - y.shape[1], length, device=y.device)
        fade = _fade(whole.decay[:, at], whole.decay, _before(at + 1, length))
        return self.merge(y, _read(query, fade, whole))

    def attend(self, y: Tensor, at: Tensor, memory: DeltaMemory, own: Feed) -> Tensor:
        """Outputs ``[B, R, d]`` of rows that know nothing of one another: row r takes one step from the state before
        position ``at[r]``, which is read from ``memory`` ``[B or 1, S, ...]``."""
        query, key, value = self.split(self._convolve_rows(own.mixed, at, memory.mixed))
        start = memory.decay[:, (at - 1).clamp_min(0)] * (at > 0)[:, None]
        fade = _fade(start + own.decay, memory.decay, _before(at, memory.decay.shape[1]))
        correction = own.strength.unsqueeze(-1) * (value - _read(key, fade, memory))
        itself = (query * key).sum(-1, keepdim=True).repeat_interleave(self.heads // self.key_heads, 2)
        return self.merge(y, _read(query, fade, memory) + itself * correction)

    def _go_on(self, own: Feed, memory: DeltaMemory | None) -> tuple[DeltaMemory, Tensor]:
        """The memory with a span of positions added to it, and their queries ``[B, T, K, k]``.

        Corrections depend on those before them in the span: u = b (v - what the state before it holds at k) is a
        triangular system in the span's u.
        """
        query, key, value = self.split(self._convolve(own.mixed, None if memory is None else memory.mixed))
        decay = own.decay.double().cumsum(1)
        if memory is not None:
            decay = decay + memory.decay[:, -1:]
            value = value - _read(key, _fade(decay, memory.decay), memory)
        at = torch.arange(key.shape[1], device=key.device)
        system = _scores(key, key, self.heads) * _fade(decay, decay, _before(at, len(at)))
        strength = own.strength.transpose(1, 2).unsqueeze(-1)  # B H T 1
        correction = torch.linalg.solve_triangular(
            strength * system, strength * value.transpose(1, 2), upper=False, unitriangular=True
        )
        span = DeltaMemory(own.mixed, key, correction.transpose(1, 2), decay)
        return (span if memory is None else DeltaMemory(*map(_join, memory, span))), query

    def _convolve(self, mixed: Tensor, before: Tensor | None) -> Tensor:
        """Convolved channels ``[B, T, c]`` of a span, after the positions in ``before``; zeros stand before 0."""
        reach, length = self.taps.shape[1] - 1, mixed.shape[1]
        joint = F.pad(mixed if before is None else _join(before[:, -reach:], mixed), (0, 0, reach, 0))
        start = joint.shape[1] - length
        taps = self.taps.unbind(1)
        return sum(joint[:, start - back : start - back + length] * tap for back, tap in enumerate(reversed(taps)))

    def _convolve_rows(self, mixed: Tensor, at: Tensor, before: Tensor) -> Tensor:
        """Convolved channels ``[B, R, c]`` of rows at ``at`` ``[R]``, each after what stands before it in memory."""
        itself, *earlier = reversed(self.taps.unbind(1))
        total = mixed * itself
        for back, tap in enumerate(earlier, 1):
            total = total + before[:, (at - back).clamp_min(0)] * (at >= back)[:, None] * tap
        return total

    def split(self, convolved: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Unit queries (over the root of their width) and keys ``[B, R, K, k]``, and values ``[B, R, H, v]``."""
        keys = self.key_heads * self.key_width
        widths = (keys, keys, convolved.shape[-1] - 2 * keys)
        query, key, value = self.activation(convolved).float().split(widths, -1)
        query, key = (_unit(part.unflatten(-1, (self.key_heads, -1))) for part in (query, key))
        return query * self.key_width**-0.5, key, value.unflatten(-1, (self.heads, -1))

    def merge(self, y: Tensor, z: Tensor) -> Tensor:
        """Head outputs ``[B, R, H, v]``, normed and gated by the input ``y``, to the module's output ``[B, R, d]``."""
        gate = self.activation(self.gate(y).float()).unflatten(-1, (self.heads, -1))
        return self.output((self.norm(z.to(y.dtype)) * gate).to(y.dtype).flatten(-2))


def _unit(x: Tensor, eps: float = 1e-6) -> Tensor:
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + eps)


def _join(before: Tensor, after: Tensor) -> Tensor:
    return torch.cat((before, after), 1)


def _before(at: Tensor, length: int) -> Tensor:
    """Which of positions 0 .. ``length`` - 1 lie before ``at`` ``[R]``: bool ``[R, length]``."""
    return torch.arange(length, device=at.device) < at[:, None]


def _fade(now: Tensor, then: Tensor, seen: Tensor | None = None) -> Tensor:
    """What is left ``[B, H, R, S]`` at summed decays ``now`` ``[B, R, H]`` of what was written at ``then``."""
    gap = (now.transpose(1, 2).unsqueeze(-1) - then.transpose(1, 2).unsqueeze(-2)).float()
    return (gap if seen is None else gap.masked_fill(~seen, -torch.inf)).exp()


def _scores(query: Tensor, key: Tensor, heads: int) -> Tensor:
    """Products ``[B, H, R, S]`` of queries ``[B, R, K, k]`` and keys ``[B, S, K, k]``, each K for its group of H."""
    scores = query.transpose(1, 2) @ key.permute(0, 2, 3, 1)
    return scores.repeat_interleave(heads // key.shape[2], 1)


def _read(query: Tensor, fade: Tensor, memory: DeltaMemory) -> Tensor:
    """What the faded state holds at ``query`` ``[B, R, K, k]``: ``[B, R, H, v]``."""
    weights = _scores(query, memory.key, fade.shape[1]) * fade
    return (weights @ memory.correction.transpose(1, 2)).transpose(1, 2)
