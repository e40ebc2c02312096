"""The parts that decoders are made of, as plain data that can be run and differentiated.

A part holds the model's own tensors (nothing is copied) and knows two things: how to run, and how to send
cotangents back through itself at a given input (``linearise``). An architecture's file only says which parts
its blocks have and where they are kept. Shapes: ``d`` width, ``T`` positions, ``B`` any number of rows,
``H`` query heads, ``K`` key-value heads, ``h`` head width, ``C`` cotangents.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

Vjp = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Linear:
    """``x @ weight.T + bias``, weight ``[out, in]``."""

    weight: Tensor
    bias: Tensor | None = None

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)

    def vjp(self, cotangent: Tensor) -> Tensor:
        """``[..., out]`` to ``[..., in]``; the same at every input."""
        return cotangent @ self.weight


@dataclass(frozen=True)
class RMSNorm:
    """``gain * x / sqrt(mean(x^2) + eps)`` over the last axis, in float32, returned in the type of ``x``."""

    gain: Tensor
    eps: float

    def __call__(self, x: Tensor) -> Tensor:
        y = x.float()
        y = y * self._inverse(y)
        y = y * self.gain if torch.is_grad_enabled() else y.mul_(self.gain)
        return y.to(x.dtype)

    def _inverse(self, x: Tensor) -> Tensor:
        square = torch.linalg.vector_norm(x, dim=-1, keepdim=True).square()
        return torch.rsqrt(square / x.shape[-1] + self.eps)

    def linearise(self, x: Tensor) -> Vjp:
        """The map of cotangents ``[T, C, d]`` at the input ``x`` ``[T, d]``."""
        x = x.float()[:, None]
        inverse = self._inverse(x)
        scale = self.gain * inverse
        back = x * inverse.square() / x.shape[-1]
        forth = (x * scale).transpose(1, 2)

        def vjp(cotangent: Tensor) -> Tensor:
            return torch.addcmul(cotangent * scale, back, cotangent @ forth, value=-1)

        return vjp


@dataclass(frozen=True)
class GatedMLP:
    """``down(activation(gate(y)) * up(y))``."""

    gate: Linear
    up: Linear
    down: Linear
    activation: Callable[[Tensor], Tensor]

    def __call__(self, y: Tensor) -> Tensor:
        hidden = self.activation(self.gate(y))
        up = self.up(y)
        return self.down(hidden * up if torch.is_grad_enabled() else hidden.mul_(up))

    def linearise(self, y: Tensor) -> Vjp:
        """The map of cotangents ``[T, C, d]`` at the input ``y`` ``[T, d]``."""
        gate, up = self.gate(y), self.up(y)
        with torch.enable_grad():
            variable = gate.detach().requires_grad_()
            active = self.activation(variable)
            (slope,) = torch.autograd.grad(active.sum(), variable)
        to_gate, to_up = (up * slope)[:, None], active.detach()[:, None]

        def vjp(cotangent: Tensor) -> Tensor:
            hidden = self.down.vjp(cotangent)
            out = self.gate.vjp(hidden * to_gate)
            up_part = hidden.mul_(to_up)
            return torch.addmm(out.flatten(0, 1), up_part.flatten(0, 1), self.up.weight).view_as(out)

        return vjp


@dataclass(frozen=True)
class Rotary:
    """Rotary position embedding by halves: ``x * cos + rotate(x) * sin``.

    ``table(positions)`` gives cos and sin, each ``[T, h]``, with the architecture's scaling in them.
    """

    table: Callable[[Tensor], tuple[Tensor, Tensor]]

    @classmethod
    def of(cls, table: Callable[[Tensor], tuple[Tensor, Tensor]]) -> Rotary:
        """From a function that gives cos and sin ``[1, T, h]``; each range of positions is worked out once."""
        made: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}

        def cached(positions: Tensor) -> tuple[Tensor, Tensor]:
            key = int(positions[0]), len(positions)
            if key not in made:
                made[key] = tuple(part[0] for part in table(positions))
            return made[key]

        return cls(cached)

    def __call__(self, x: Tensor, positions: Tensor) -> Tensor:
        """Rotate ``x`` ``[..., T, heads, h]``."""
        cos, sin = self.table(positions)
        return rotate(x, cos[:, None], sin[:, None])


def rotate(x: Tensor, cos: Tensor, sin: Tensor, out: Tensor | None = None) -> Tensor:
    """``x * cos + (-x2, x1) * sin`` with ``x1, x2`` the halves of ``x``; with ``-sin`` it is the transpose."""
    half = x.shape[-1] // 2
    out = torch.mul(x, cos, out=out)
    out[..., :half].addcmul_(x[..., half:], sin[..., :half], value=-1)
    out[..., half:].addcmul_(x[..., :half], sin[..., half:])
    return out


class Heads(NamedTuple):
    """What attention compares and carries: query ``[B, T, H, h]``, key and value ``[B, T, K, h]``."""

    query: Tensor
    key: Tensor
    value: Tensor


class Memory(NamedTuple):
    """Keys and values ``[B, S, K, h]`` of the positions before the ones that run."""

    key: Tensor
    value: Tensor


@dataclass(frozen=True)
class Attention:
    """Causal softmax attention with grouped key-value heads.

    ``window`` counts the positions that a query sees, its own included; ``scale`` multiplies the scores.
    """

    query: Linear
    key: Linear
    value: Linear
    output: Linear
    heads: int
    key_value_heads: int
    scale: float
    rotary: Rotary | None = None
    query_norm: RMSNorm | None = None
    key_norm: RMSNorm | None = None
    window: int | None = None

    def project(self, y: Tensor, positions: Tensor) -> Heads:
        """Queries, keys and values of ``y`` ``[B, T, d]`` at ``positions`` ``[T]``, normed and rotated."""
        return Heads(self.queries(y, positions), *self.keys_values(y, positions))

    def queries(self, y: Tensor, positions: Tensor) -> Tensor:
        """Normed and rotated queries ``[B, T, H, h]``."""
        return self._place(self._split(self.query(y), self.heads), self.query_norm, positions)

    def keys_values(self, y: Tensor, positions: Tensor) -> Memory:
        """Normed and rotated keys, and values, each ``[B, T, K, h]``."""
        key = self._place(self._split(self.key(y), self.key_value_heads), self.key_norm, positions)
        return Memory(key, self._split(self.value(y), self.key_value_heads))

    def _split(self, x: Tensor, heads: int) -> Tensor:
        return x.unflatten(-1, (heads, -1))

    def _place(self, x: Tensor, norm: RMSNorm | None, positions: Tensor) -> Tensor:
        x = norm(x) if norm else x
        return self.rotary(x, positions) if self.rotary else x

    def merge(self, z: Tensor) -> Tensor:
        """Head outputs ``[B, T, H, h]`` to the attention output ``[B, T, d]``."""
        return self.output(z.flatten(-2))

    def hidden(self, queries: int, keys: int, device: torch.device) -> Tensor:
        """What the last ``queries`` of ``keys`` positions may not see: bool ``[queries, keys]``."""
        position = torch.arange(keys - queries, keys, device=device)[:, None]
        source = torch.arange(keys, device=device)
        hidden = source > position
        return hidden if self.window is None else hidden | (source <= position - self.window)

    def pattern(self, query: Tensor, key: Tensor) -> Tensor:
        """Attention weights ``[B, K, H/K, T, S]`` of queries at the last ``T`` of ``S`` positions."""
        scores = self.scores(query, key)
        hidden = self.hidden(scores.shape[-2], scores.shape[-1], scores.device)
        return scores.masked_fill(hidden, -torch.inf).float().softmax(-1).to(query.dtype)

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        """Scaled scores before masking, ``[B, K, H/K, T, S]``."""
        rows, length = query.shape[:2]
        grouped = query.unflatten(2, (self.key_value_heads, -1)).permute(0, 2, 3, 1, 4)
        flat = grouped.reshape(rows, self.key_value_heads, -1, query.shape[-1])
        scores = (flat * self.scale) @ key.permute(0, 2, 3, 1)
        return scores.unflatten(2, (-1, length))

    def gather(self, pattern: Tensor, value: Tensor) -> Tensor:
        """Values ``[B, S, K, h]`` weighted by a pattern: head outputs ``[B, T, H, h]``."""
        length = pattern.shape[-2]
        mixed = pattern.flatten(2, 3) @ value.transpose(1, 2)
        return mixed.unflatten(2, (-1, length)).permute(0, 3, 1, 2, 4).flatten(2, 3)

    def __call__(self, y: Tensor, memory: Memory | None = None) -> Tensor:
        """Attention output ``[B, T, d]`` of ``y`` ``[B, T, d]``, the positions after those in ``memory``."""
        start = memory.key.shape[1] if memory else 0
        query, key, value = self.project(y, torch.arange(start, start + y.shape[1], device=y.device))
        if memory:
            key, value = torch.cat((memory.key, key), 1), torch.cat((memory.value, value), 1)
        return self.merge(self.gather(self.pattern(query, key), value))

    def remember(self, y: Tensor) -> Memory:
        """Keys and values of ``y`` ``[B, S, d]`` at positions 0 .. S-1."""
        return self.keys_values(y, torch.arange(y.shape[1], device=y.device))

    def linearise(self, y: Tensor, memory: Memory) -> Vjp:
        """The map of cotangents ``[T, C, d]`` at the input ``y`` ``[T, d]``; ``memory`` stays fixed.

        With cotangents second, each product of the backward pass has one operand that all cotangents share, and
        the sum over a group of query heads is part of a product.
        """
        start, length = memory.key.shape[1], y.shape[0]
        positions = torch.arange(start, start + length, device=y.device)
        heads = self.project(y[None], positions)
        key = torch.cat((memory.key, heads.key), 1)
        value = torch.cat((memory.value, heads.value), 1)
        pattern = self.pattern(heads.query, key)
        outputs = self.gather(pattern, value)[0]  # T H h
        weights = pattern[0].unsqueeze(3)  # K G T 1 S
        own = pattern[0, ..., start:].flatten(1, 2).mT.contiguous()  # K T(source) (G T)
        keys = key[0].transpose(0, 1) * self.scale  # K S h
        values = value[0].permute(1, 2, 0)  # K h S
        queries = (heads.query[0] * self.scale).transpose(0, 1)  # H T h
        queries = queries.reshape(self.key_value_heads, -1, queries.shape[-1])
        outputs = outputs.transpose(0, 1).flatten(0, 1).unsqueeze(-1)  # (H T) h 1
        back = self._project_vjp(y, positions)

        def vjp(cotangent: Tensor) -> Tensor:
            count = cotangent.shape[1]
            mixed = self._split(self.output.vjp(cotangent), self.heads).permute(2, 0, 1, 3).contiguous()  # H T C h
            along = (mixed.flatten(0, 1) @ outputs).view(*weights.shape[:3], count, 1)
            mixed = mixed.view(self.key_value_heads, -1, mixed.shape[-1])
            score = (mixed @ values).view(*weights.shape[:3], count, -1)  # K G T C S
            score = score.sub_(along).mul_(weights)
            to_query = (score.view(*mixed.shape[:2], -1) @ keys).view(self.heads, length, count, -1)
            to_key = (score.view(*queries.shape[:2], -1).mT @ queries).unflatten(1, (count, -1))[:, :, start:]
            to_value = (own @ mixed.view(*queries.shape[:2], -1)).unflatten(2, (count, -1))
            return back(to_query.permute(1, 2, 0, 3), to_key.permute(2, 1, 0, 3), to_value.permute(1, 2, 0, 3))

        return vjp

    def _project_vjp(self, y: Tensor, positions: Tensor) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
        """Back through norms, rotation and projections at ``y`` ``[T, d]``: from cotangents of query, key and
        value ``[T, C, heads, h]`` to those of ``y`` ``[T, C, d]``."""
        back_query = self._place_vjp(self._split(self.query(y), self.heads), self.query_norm, positions)
        back_key = self._place_vjp(self._split(self.key(y), self.key_value_heads), self.key_norm, positions)
        weight = torch.cat((self.query.weight, self.key.weight, self.value.weight))
        widths = [part.weight.shape[0] for part in (self.query, self.key, self.value)]

        def vjp(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            joint = query.new_empty(*query.shape[:2], sum(widths))
            to_query, to_key, to_value = (
                self._split(part, heads)
                for part, heads in zip(joint.split(widths, -1), (self.heads, *[self.key_value_heads] * 2), strict=True)
            )
            back_query(query, to_query)
            back_key(key, to_key)
            to_value.copy_(value)
            return joint @ weight

        return vjp

    def _place_vjp(self, raw: Tensor, norm: RMSNorm | None, positions: Tensor) -> Callable[[Tensor, Tensor], None]:
        """Back through rotation and norm at the raw projection ``[T, heads, h]``, written into the second argument;
        cotangents ``[T, C, heads, h]``."""
        norm_vjp = norm.linearise(raw.flatten(0, 1)) if norm else None
        cos, sin = (part[:, None, None] for part in self.rotary.table(positions)) if self.rotary else (None, None)

        def vjp(cotangent: Tensor, out: Tensor) -> None:
            if self.rotary:
                rotate(cotangent, cos, -sin, out)
            if norm_vjp is None:
                if not self.rotary:
                    out.copy_(cotangent)
                return
            source = out if self.rotary else cotangent
            rows = source.transpose(1, 2).flatten(0, 1)
            out.copy_(norm_vjp(rows).unflatten(0, (-1, source.shape[2])).transpose(1, 2))

        return vjp
