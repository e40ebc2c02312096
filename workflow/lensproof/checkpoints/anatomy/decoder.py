"""What every decoder is to this project: an embedding, blocks, a final norm, an unembedding.

*Layer* l counts residual states, 0 the embedding and L the last block's output; *block* k maps layer k to
layer k+1. A block is ``F(x, a)`` with ``a`` the attention output: what the attention module returns for the
normed state, before any post-norm. The *attention write* and the *MLP write* are what is added to the
residual, after a post-norm where there is one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from lensproof.checkpoints.anatomy.parts import Attention, GatedMLP, Memory, RMSNorm, Vjp


class Writes(NamedTuple):
    """What one block added to the residual, each ``[B, T, d]``, and the state that came out."""

    attention: Tensor
    mlp: Tensor
    output: Tensor


class Block(Protocol):
    """What streams, frames and lenses ask of a block; an architecture may bring a class of its own."""

    def attention_input(self, x: Tensor) -> Tensor:
        """What the attention module receives for the states ``x`` ``[B, T, d]``."""

    def remember(self, x: Tensor) -> Any:
        """What later positions need of the states ``x`` ``[B, S, d]`` at positions 0 .. S-1."""

    def run(self, x: Tensor, memory: Any = None) -> Tensor:
        """The next layer's states of ``x`` ``[B, T, d]``, the positions after those in ``memory``."""

    def linearise(self, x: Tensor, memory: Any) -> Vjp:
        """The map of cotangents ``[T, C, d]`` of ``run(x, memory)`` to those of ``x`` ``[T, d]``."""


@dataclass(frozen=True)
class SoftmaxBlock:
    """Attention, then a gated MLP, each with an optional norm before it and an optional norm on its write."""

    attention: Attention
    mlp: GatedMLP
    attention_norm: RMSNorm | None = None
    attention_post_norm: RMSNorm | None = None
    mlp_norm: RMSNorm | None = None
    mlp_post_norm: RMSNorm | None = None

    def attention_input(self, x: Tensor) -> Tensor:
        """What the attention module receives for the states ``x`` ``[B, T, d]``."""
        return self.attention_norm(x) if self.attention_norm else x

    def remember(self, x: Tensor) -> Memory:
        """Keys and values of the states ``x`` ``[B, S, d]`` at positions 0 .. S-1."""
        return self.attention.remember(self.attention_input(x))

    def write(self, x: Tensor, a: Tensor) -> Writes:
        """Both writes and the next state, given states ``x`` and attention outputs ``a``, each ``[B, T, d]``."""
        attention = self.attention_post_norm(a) if self.attention_post_norm else a
        middle = x + attention
        mlp = self.mlp(self.mlp_norm(middle) if self.mlp_norm else middle)
        mlp = self.mlp_post_norm(mlp) if self.mlp_post_norm else mlp
        return Writes(attention, mlp, middle + mlp)

    def finish(self, x: Tensor, a: Tensor) -> Tensor:
        """``F(x, a)``: the next layer's states ``[B, T, d]``."""
        return self.write(x, a).output

    def run(self, x: Tensor, memory: Memory | None = None) -> Tensor:
        """The next layer's states of ``x`` ``[B, T, d]``, the positions after those in ``memory``."""
        return self.finish(x, self.attention(self.attention_input(x), memory))

    def linearise(self, x: Tensor, memory: Memory) -> Vjp:
        """The map of cotangents ``[T, C, d]`` of ``run(x, memory)`` to those of ``x`` ``[T, d]``."""
        y = self.attention_input(x)
        a = self.attention(y[None], memory)[0]
        middle = x + (self.attention_post_norm(a) if self.attention_post_norm else a)
        m = self.mlp_norm(middle) if self.mlp_norm else middle
        through_mlp = _chain(
            self.mlp_post_norm and self.mlp_post_norm.linearise(self.mlp(m)),
            self.mlp.linearise(m),
            self.mlp_norm and self.mlp_norm.linearise(middle),
        )
        through_attention = _chain(
            self.attention_post_norm and self.attention_post_norm.linearise(a),
            self.attention.linearise(y, memory),
            self.attention_norm and self.attention_norm.linearise(x),
        )

        def vjp(cotangent: Tensor) -> Tensor:
            cotangent = cotangent + through_mlp(cotangent)
            return through_attention(cotangent).add_(cotangent)

        return vjp


def _chain(*maps: Vjp | None) -> Vjp:
    steps = [step for step in maps if step is not None]

    def vjp(cotangent: Tensor) -> Tensor:
        for step in steps:
            cotangent = step(cotangent)
        return cotangent

    return vjp


class AutogradBlock:
    """For blocks without a hand-written backward pass: ``linearise`` by autograd, vectorised over cotangents."""

    def run(self, x: Tensor, memory: Any = None) -> Tensor:
        """The next layer's states of ``x`` ``[B, T, d]``, the positions after those in ``memory``."""
        raise TypeError(f"{type(self).__name__} does not say how it runs")

    def linearise(self, x: Tensor, memory: Any) -> Vjp:
        """The map of cotangents ``[T, C, d]`` of ``run(x, memory)`` to those of ``x`` ``[T, d]``."""
        with torch.enable_grad():
            variable = x.detach().clone().requires_grad_()
            output = self.run(variable[None], memory)[0]

        def vjp(cotangent: Tensor) -> Tensor:
            (gradient,) = torch.autograd.grad(
                output, variable, cotangent.transpose(0, 1), retain_graph=True, is_grads_batched=True
            )
            return gradient.transpose(0, 1)

        return vjp


@dataclass(frozen=True)
class Decoder:
    """A decoder-only language model, taken apart.

    ``unembedding`` is ``W`` ``[V, d]`` with any logit scale in it; ``softcap`` is applied to logits after it.
    """

    architecture: str
    embed: Callable[[Tensor], Tensor]
    blocks: list[Block]
    final_norm: RMSNorm | Callable[[Tensor], Tensor]
    unembedding: Tensor
    softcap: float | None = None
    tied: bool = False
    model: torch.nn.Module | None = None

    @property
    def depth(self) -> int:
        """Number of blocks, L."""
        return len(self.blocks)

    @property
    def width(self) -> int:
        """Width of the residual stream, d."""
        return self.unembedding.shape[1]

    @property
    def vocabulary(self) -> int:
        """Number of tokens, V."""
        return self.unembedding.shape[0]

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.unembedding.device

    def coefficients(self, x: Tensor) -> Tensor:
        """Logits before the softcap, ``[..., V]``, of last-layer states ``x`` ``[..., d]``."""
        return self.final_norm(x) @ self.unembedding.T

    def logits(self, x: Tensor) -> Tensor:
        """The model's logits ``[..., V]`` of last-layer states ``x`` ``[..., d]``, in float32."""
        return self.cap(self.coefficients(x).float())

    def cap(self, logits: Tensor) -> Tensor:
        """Logits after the softcap, where the architecture has one."""
        return logits if self.softcap is None else self.softcap * torch.tanh(logits / self.softcap)
