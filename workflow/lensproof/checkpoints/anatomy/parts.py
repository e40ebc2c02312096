"""The parts that decoders are made of, as plain data that can be run and differentiated.

A part holds the model's own tensors (copied only where they are interleaved) and knows two things: how to run, and
how to send derivatives through itself at a given input (``linearise``). An architecture's file only says which parts
its blocks have and where they are kept. Shapes: ``d`` width, ``T`` positions, ``B`` any number of rows,
``H`` query heads, ``K`` key-value heads, ``h`` head width, ``C`` cotangents or tangents.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

Vjp = Callable[[Tensor], Tensor]


class Linearised(NamedTuple):
    """A map's derivative at one input per row: ``vjp`` takes cotangents ``[R, C, out]`` to ``[R, C, in]``, ``jvp``
    tangents ``[R, C, in]`` to ``[R, C, out]``."""

    vjp: Vjp
    jvp: Vjp


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

    def jvp(self, tangent: Tensor) -> Tensor:
        """``[..., in]`` to ``[..., out]``; the same at every input."""
        return tangent @ self.weight.T


class Norm(Protocol):
    """What blocks ask of a norm over the last axis."""

    def __call__(self, x: Tensor) -> Tensor:
        """The normed ``x`` ``[..., d]``, in the type of ``x``."""

    def linearise(self, x: Tensor) -> Linearised:
        """The derivative at the inputs ``x`` ``[R, d]``."""


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

    def linearise(self, x: Tensor) -> Linearised:
        """The derivative at the inputs ``x`` ``[R, d]``."""
        x = x.float()[:, None]
        inverse = self._inverse(x)
        scale = self.gain * inverse
        back = x * inverse.square() / x.shape[-1]
        forth = x * scale
        along, across = forth.transpose(1, 2), back.transpose(1, 2)

        def vjp(cotangent: Tensor) -> Tensor:
            along_x = cotangent.float() @ along
            return torch.addcmul(cotangent * scale, back, along_x, value=-1).to(cotangent.dtype)

        def jvp(tangent: Tensor) -> Tensor:
            along_x = tangent.float() @ across
            return torch.addcmul(tangent * scale, forth, along_x, value=-1).to(tangent.dtype)

        return Linearised(vjp, jvp)


@dataclass(frozen=True)
class LayerNorm:
    """``gain * (x - mean(x)) / sqrt(var(x) + eps) + bias`` over the last axis, in float32, returned in the type of
    ``x``."""

    gain: Tensor
    bias: Tensor
    eps: float

    def __call__(self, x: Tensor) -> Tensor:
        return F.layer_norm(x.float(), x.shape[-1:], self.gain, self.bias, self.eps).to(x.dtype)

    def linearise(self, x: Tensor) -> Linearised:
        """The derivative at the inputs ``x`` ``[R, d]``: the gain after a projection away from ones and from x."""
        x = x.float()[:, None]
        centred = x - x.mean(-1, keepdim=True)
        inverse = torch.rsqrt(centred.square().mean(-1, keepdim=True) + self.eps)
        scale = self.gain * inverse
        plane = torch.cat((torch.ones_like(x), centred * inverse), 1)  # R 2 d
        back = plane / x.shape[-1]
        forth = plane * scale

        def vjp(cotangent: Tensor) -> Tensor:
            within = cotangent.float() @ forth.mT
            return torch.baddbmm(cotangent * scale, within, back, alpha=-1).to(cotangent.dtype)

        def jvp(tangent: Tensor) -> Tensor:
            within = tangent.float() @ back.mT
            return torch.baddbmm(tangent * scale, within, forth, alpha=-1).to(tangent.dtype)

        return Linearised(vjp, jvp)


class FeedForward(Protocol):
    """What blocks ask of an MLP."""

    def __call__(self, y: Tensor) -> Tensor:
        """The MLP's output ``[..., d]`` for ``y`` ``[..., d]``."""

    def linearise(self, y: Tensor) -> Linearised:
        """The derivative at the inputs ``y`` ``[R, d]``."""


@dataclass(frozen=True)
class MLP:
    """``down(activation(up(y)))``."""

    up: Linear
    down: Linear
    activation: Callable[[Tensor], Tensor]

    def __call__(self, y: Tensor) -> Tensor:
        return self.down(self.activation(self.up(y)))

    def linearise(self, y: Tensor) -> Linearised:
        """The derivative at the inputs ``y`` ``[R, d]``."""
        _, slope = _activate(self.activation, self.up(y))
        slope = slope[:, None]

        def vjp(cotangent: Tensor) -> Tensor:
            return self.up.vjp(self.down.vjp(cotangent).mul_(slope))

        def jvp(tangent: Tensor) -> Tensor:
            return self.down.jvp(self.up.jvp(tangent).mul_(slope))

        return Linearised(vjp, jvp)


def _activate(activation: Callable[[Tensor], Tensor], x: Tensor) -> tuple[Tensor, Tensor]:
    """An elementwise function of ``x``, and its slope there."""
    with torch.enable_grad():
        variable = x.detach().requires_grad_()
        active = activation(variable)
        (slope,) = torch.autograd.grad(active.sum(), variable)
    return active.detach(), slope


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

    def linearise(self, y: Tensor) -> Linearised:
        """The derivative at the inputs ``y`` ``[R, d]``."""
        gate, up = self.gate(y), self.up(y)
        active, slope = _activate(self.activation, gate)
        to_gate, to_up = (up * slope)[:, None], active[:, None]

        def vjp(cotangent: Tensor) -> Tensor:
            hidden = self.down.vjp(cotangent)
            out = self.gate.vjp(hidden * to_gate)
            up_part = hidden.mul_(to_up)
            return torch.addmm(out.flatten(0, 1), up_part.flatten(0, 1), self.up.weight).view_as(out)

        def jvp(tangent: Tensor) -> Tensor:
            hidden = self.gate.jvp(tangent).mul_(to_gate)
            return self.down.jvp(hidden.addcmul_(self.up.jvp(tangent), to_up))

        return Linearised(vjp, jvp)


@dataclass(frozen=True)
class Rotary:
    """Rotary position embedding by halves: ``x * cos + rotate(x) * sin``.

    ``table(positions)`` gives cos and sin, each ``[T, r]``, with the architecture's scaling in them. Where the rotary
    width r is below the head width h, the last h - r entries of a head stay as they are.
    """

    table: Callable[[Tensor], tuple[Tensor, Tensor]]

    @classmethod
    def of(cls, table: Callable[[Tensor], tuple[Tensor, Tensor]]) -> Rotary:
        """From a function that gives cos and sin ``[1, T, r]``, worked out once for as many positions as are met."""
        made: list[tuple[Tensor, Tensor]] = []

        def cached(positions: Tensor) -> tuple[Tensor, Tensor]:
            last = int(positions.max()) if len(positions) else 0
            if not made or len(made[-1][0]) <= last:
                length = 1 << max(last, 255).bit_length()
                made.append(tuple(part[0] for part in table(torch.arange(length, device=positions.device))))
            cos, sin = made[-1]
            return cos[positions], sin[positions]

        return cls(cached)

    def __call__(self, x: Tensor, positions: Tensor) -> Tensor:
        """Rotate ``x`` ``[..., T, heads, h]``."""
        cos, sin = self.table(positions)
        return rotate(x, cos[:, None], sin[:, None])


def rotate(x: Tensor, cos: Tensor, sin: Tensor, out: Tensor | None = None) -> Tensor:
    """``x * cos + (-x2, x1) * sin`` with ``x1, x2`` the halves of ``x``; with ``-sin`` it is the transpose.

    What lies beyond the width of ``cos`` is carried over.
    """
    width = cos.shape[-1]
    if width < x.shape[-1]:
        if out is None:
            return torch.cat((rotate(x[..., :width], cos, sin), x[..., width:]), -1)
        rotate(x[..., :width], cos, sin, out[..., :width])
        out[..., width:] = x[..., width:]
        return out
    half = width // 2
    out = torch.mul(x, cos, out=out)
    out[..., :half].addcmul_(x[..., half:], sin[..., :half], value=-1)
    out[..., half:].addcmul_(x[..., :half], sin[..., half:])
    return out.to(x.dtype)


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
    ``query_norm`` and ``key_norm`` are over each head ``[h]``, with ``joint_norms`` over all heads together ``[H h]``.
    """

    query: Linear
    key: Linear
    value: Linear
    output: Linear
    heads: int
    key_value_heads: int
    scale: float
    rotary: Rotary | None = None
    query_norm: Norm | None = None
    key_norm: Norm | None = None
    joint_norms: bool = False
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

    def own(self, y: Tensor, at: Tensor) -> Memory:
        """What the module keeps of ``y`` ``[B, R, d]`` at positions ``at`` ``[R]``: keys and values."""
        return self.keys_values(y, at)

    def collect(self, own: Memory) -> Memory:
        """The memory of positions 0 .. S-1, from what is kept of each: the keys and values themselves."""
        return own

    def _split(self, x: Tensor, heads: int) -> Tensor:
        return x.unflatten(-1, (heads, -1))

    def _place(self, x: Tensor, norm: Norm | None, positions: Tensor) -> Tensor:
        if norm:
            x = norm(x.flatten(-2)).view_as(x) if self.joint_norms else norm(x)
        return self.rotary(x, positions) if self.rotary else x

    def merge(self, z: Tensor) -> Tensor:
        """Head outputs ``[B, T, H, h]`` to the attention output ``[B, T, d]``."""
        return self.output(z.flatten(-2))

    def hidden(self, at: Tensor, keys: int) -> Tensor:
        """Which of positions 0 .. keys - 1 the positions ``at`` ``[R]`` may not see: bool ``[R, keys]``."""
        source = torch.arange(keys, device=at.device)
        hidden = source > at[:, None]
        return hidden if self.window is None else hidden | (source <= at[:, None] - self.window)

    def pattern(self, query: Tensor, key: Tensor) -> Tensor:
        """Attention weights ``[B, K, H/K, T, S]`` of queries at the last ``T`` of ``S`` positions."""
        scores, keys = self.scores(query, key), key.shape[1]
        at = torch.arange(keys - query.shape[1], keys, device=query.device)
        return scores.masked_fill(self.hidden(at, keys), -torch.inf).float().softmax(-1).to(query.dtype)

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

    def attend(self, y: Tensor, at: Tensor, memory: Memory, own: Memory) -> Tensor:
        """Attention outputs ``[B, R, d]`` of rows that know nothing of one another.

        Row r stands at position ``at[r]`` and sees the keys and values in ``memory`` before it, and its own.

        Args:
            y: what the module receives ``[B, R, d]``.
            at: positions ``[R]``.
            memory: keys and values ``[B or 1, S, K, h]`` of positions 0 .. S-1, with S above every ``at``; what
                stands at a row's own position is not read.
            own: the rows' own keys and values ``[B, R, K, h]``.
        """
        pattern = self.pattern_at(self.queries(y, at), at, memory, own)
        return self.merge(self._gather_at(pattern, at, memory, own))

    def pattern_at(self, query: Tensor, at: Tensor, memory: Memory, own: Memory) -> Tensor:
        """Attention weights ``[B, K, H/K, R, S]`` of such rows; a row's weight on itself stands at its position."""
        # Only one column per row tells own from memory, so it is exchanged there.
        scores = self.scores(query, memory.key)
        grouped = query.unflatten(2, (self.key_value_heads, -1))
        itself = (grouped * own.key.unsqueeze(3)).sum(-1) * self.scale
        scores[..., torch.arange(len(at), device=at.device), at] = itself.permute(0, 2, 3, 1)
        hidden = self.hidden(at, memory.key.shape[1])
        return scores.masked_fill(hidden, -torch.inf).float().softmax(-1).to(query.dtype)

    def _gather_at(self, pattern: Tensor, at: Tensor, memory: Memory, own: Memory) -> Tensor:
        """Head outputs ``[B, R, H, h]``."""
        mixed = self.gather(pattern, memory.value)
        weight = self._own_weight(pattern, at)
        change = (own.value - memory.value[:, at]).repeat_interleave(self.heads // self.key_value_heads, 2)
        return mixed + change * weight.unsqueeze(-1)

    def _own_weight(self, pattern: Tensor, at: Tensor) -> Tensor:
        """The weight of each row on itself, ``[B, R, H]``."""
        own = pattern[..., torch.arange(len(at), device=at.device), at]
        return own.permute(0, 3, 1, 2).flatten(2)

    def linearise_at(self, y: Tensor, at: Tensor, memory: Memory, own: Memory) -> tuple[Tensor, Linearised]:
        """Outputs of :meth:`attend` and its derivative by ``y``, rows flattened to ``[B R]``; memory stays fixed.

        When a query moves, its head's output moves by the covariance of values and keys under the pattern:
        d z = scale * sum_s p_s (v_s - z) k_s . d q. One matrix per head, whatever the number of positions.
        """
        query = self.queries(y, at)
        pattern = self.pattern_at(query, at, memory, own)
        heads = self._gather_at(pattern, at, memory, own)
        group = self.heads // self.key_value_heads
        weight = self._own_weight(pattern, at)[..., None]  # B R H 1
        own_key, own_value = (part.repeat_interleave(group, 2) for part in own)
        covariance = self._covariance(pattern, at, memory, own_key, own_value, heads) * self.scale
        covariance = covariance.flatten(0, 1)  # rows H h h
        query, away = (part.flatten(0, 1)[:, None] for part in (query, own_value - heads))
        weight = weight.flatten(0, 1)[:, None]  # rows, 1, H, 1
        away = away * weight * self.scale
        project = self._linearise_projections(y.flatten(0, 1), at.repeat(len(y)))

        def vjp(cotangent: Tensor) -> Tensor:
            mixed = self._split(self.output.vjp(cotangent), self.heads)  # rows C H h
            to_query = (mixed.transpose(1, 2) @ covariance).transpose(1, 2)
            to_key = (mixed * away).sum(-1, keepdim=True) * query
            return project.vjp(to_query, self._sum_groups(to_key), self._sum_groups(mixed * weight))

        def jvp(tangent: Tensor) -> Tensor:
            to_query, to_key, to_value = project.jvp(tangent)
            to_key, to_value = (part.repeat_interleave(group, 2) for part in (to_key, to_value))
            mixed = (to_query.transpose(1, 2) @ covariance.mT).transpose(1, 2)
            mixed = mixed + away * (query * to_key).sum(-1, keepdim=True) + weight * to_value
            return self.output.jvp(mixed.flatten(-2))

        return self.merge(heads), Linearised(vjp, jvp)

    def _covariance(
        self, pattern: Tensor, at: Tensor, memory: Memory, own_key: Tensor, own_value: Tensor, heads: Tensor
    ) -> Tensor:
        """Sum_s p_s (v_s - z) k_s' for every row and head, ``[B, R, H, h, h]``."""
        group = self.heads // self.key_value_heads
        weights = pattern.flatten(1, 2).transpose(1, 2).clone()  # B R H S
        own = self._own_weight(pattern, at)
        # A row's own key and value are not in the memory: its column is added apart.
        weights.scatter_(-1, at[None, :, None, None].expand(*weights.shape[:3], 1), 0.0)
        key, value = (part.repeat_interleave(group, 2).transpose(1, 2) for part in memory)  # B H S h
        weighted = weights.transpose(1, 2).unsqueeze(-1) * key.unsqueeze(2)  # B H R S h
        product = (value.transpose(-1, -2).unsqueeze(2) @ weighted).transpose(1, 2)  # B R H h h
        mean_key = weighted.sum(-2).transpose(1, 2) + own[..., None] * own_key  # B R H h
        product = product + own[..., None, None] * own_value.unsqueeze(-1) * own_key.unsqueeze(-2)
        return product - heads.unsqueeze(-1) * mean_key.unsqueeze(-2)

    def _sum_groups(self, x: Tensor) -> Tensor:
        """``[rows, C, H, h]`` summed over the query heads that share a key-value head."""
        return x.unflatten(2, (self.key_value_heads, -1)).sum(3)

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
        back = self._linearise_projections(y, positions).vjp

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

    def _linearise_projections(self, y: Tensor, positions: Tensor) -> Linearised:
        """Through norms, rotation and projections at ``y`` ``[R, d]``: ``vjp`` from cotangents of query, key and value
        (three arguments, each ``[R, C, heads, h]``) to those of ``y`` ``[R, C, d]``, ``jvp`` the other way."""
        place_query = self._linearise_place(self._split(self.query(y), self.heads), self.query_norm, positions)
        place_key = self._linearise_place(self._split(self.key(y), self.key_value_heads), self.key_norm, positions)
        weight = torch.cat((self.query.weight, self.key.weight, self.value.weight))
        widths = [part.weight.shape[0] for part in (self.query, self.key, self.value)]
        counts = (self.heads, self.key_value_heads, self.key_value_heads)

        def split(joint: Tensor) -> list[Tensor]:
            return [self._split(part, heads) for part, heads in zip(joint.split(widths, -1), counts, strict=True)]

        def vjp(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            joint = query.new_empty(*query.shape[:2], sum(widths))
            to_query, to_key, to_value = split(joint)
            place_query.vjp(query, to_query)
            place_key.vjp(key, to_key)
            to_value.copy_(value)
            return joint @ weight

        def jvp(tangent: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            query, key, value = split(tangent @ weight.T)
            return place_query.jvp(query), place_key.jvp(key), value

        return Linearised(vjp, jvp)

    def _linearise_place(self, raw: Tensor, norm: Norm | None, positions: Tensor) -> Linearised:
        """Through norm and rotation at the raw projection ``[R, heads, h]``, for ``[R, C, heads, h]``; ``vjp`` writes
        into its second argument."""
        through = self._linearise_norm(norm, raw) if norm else None
        cos, sin = (part[:, None, None] for part in self.rotary.table(positions)) if self.rotary else (None, None)

        def vjp(cotangent: Tensor, out: Tensor) -> None:
            source = rotate(cotangent, cos, -sin, out) if self.rotary else cotangent
            if through is not None:
                out.copy_(through.vjp(source))
            elif not self.rotary:
                out.copy_(cotangent)

        def jvp(tangent: Tensor) -> Tensor:
            tangent = through.jvp(tangent) if through else tangent
            return rotate(tangent, cos, sin) if self.rotary else tangent

        return Linearised(vjp, jvp)

    def _linearise_norm(self, norm: Norm, raw: Tensor) -> Linearised:
        """Through a norm of queries or keys at ``[R, heads, h]``, for ``[R, C, heads, h]``."""
        through = norm.linearise(raw.flatten(-2) if self.joint_norms else raw.flatten(0, 1))
        shaped = _joint_rows if self.joint_norms else _head_rows
        return Linearised(partial(shaped, through.vjp), partial(shaped, through.jvp))


def _head_rows(map_: Vjp, x: Tensor) -> Tensor:
    """A map of rows ``[R heads, C, h]``, for ``[R, C, heads, h]``."""
    return map_(x.transpose(1, 2).flatten(0, 1)).unflatten(0, (-1, x.shape[2])).transpose(1, 2)


def _joint_rows(map_: Vjp, x: Tensor) -> Tensor:
    """A map of rows ``[R, C, heads h]``, for ``[R, C, heads, h]``."""
    return map_(x.flatten(-2)).unflatten(-1, x.shape[-2:])
