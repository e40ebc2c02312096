"""What every decoder is to this project: an embedding, blocks, a final norm, an unembedding.

*Layer* l counts residual states, 0 the embedding and L the last block's output; *block* k maps layer k to
layer k+1. A block is ``F(x, a)`` with ``a`` the attention output: what the attention module returns for the
normed state, before any post-norm. The *attention write* and the *MLP write* are what is added to the
residual, after a post-norm where there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from lensproof.checkpoints.anatomy.parts import Attention, FeedForward, Linearised, Memory, Norm, Vjp

TOKENS = 4096
"""Rows of an unembedding in half precision that are converted at once."""


def full(x: Tensor) -> Tensor:
    """``x`` itself in float32 or better, converted from half precision."""
    return x if x.dtype.itemsize >= 4 else x.float()


class Writes(NamedTuple):
    """What one block added to the residual, each ``[B, T, d]``, and the state that came out.

    ``output = scale * (x + attention + mlp + extra)``: a third write and a block's scale are Gemma 4's; without them
    ``extra`` is None and ``scale`` 1.
    """

    attention: Tensor
    mlp: Tensor
    output: Tensor
    extra: Tensor | None = None
    scale: Tensor | float = 1.0


class Block(Protocol):
    """What streams, frames and lenses ask of a block; an architecture may bring a class of its own.

    A *row* is one state at one position that knows nothing of the other rows: ``at`` ``[R]`` holds the rows'
    positions. What the attention module keeps of a position is its *own* (keys and values; for a recurrent block what
    feeds the recurrence), and :meth:`collect` makes of it the *memory* that later positions attend to; both are named
    tuples of tensors with batch first and positions second.
    """

    shares: int | None
    """Index of the block whose own and memory this one uses in place of its own; None: its own. Where a block that
    shares is given a memory, its last positions are those of the rows or the span themselves."""

    attention: Callable[..., Tensor]
    """The attention module: outputs ``[B, T, d]`` of inputs ``[B, T, d]`` at the positions after those in a memory."""

    def attention_input(self, x: Tensor) -> Tensor:
        """What the attention module receives for the states ``x`` ``[..., d]``."""

    def own(self, y: Tensor, at: Tensor) -> Any:
        """What the attention module keeps of ``y`` ``[B, R, d]`` at positions ``at`` ``[R]``."""

    def collect(self, own: Any) -> Any:
        """The memory of positions 0 .. S-1, from what is kept of each, in order."""

    def attend(self, y: Tensor, at: Tensor, memory: Any, own: Any) -> Tensor:
        """Attention outputs ``[B, R, d]`` of rows: each sees ``memory`` before its position, and its ``own``."""

    def write(self, x: Tensor, a: Tensor, at: Tensor | None = None) -> Writes:
        """What rows at ``at`` (None: positions 0 .. R-1) add to the residual, given attention outputs ``[B, R, d]``."""

    def finish(self, x: Tensor, a: Tensor, at: Tensor | None = None) -> Tensor:
        """``F(x, a)``: the next layer's states ``[B, R, d]``, the ``output`` of :meth:`write`."""

    def remember(self, x: Tensor) -> Any:
        """What later positions need of the states ``x`` ``[B, S, d]`` at positions 0 .. S-1."""

    def run(self, x: Tensor, memory: Any = None) -> Tensor:
        """The next layer's states of ``x`` ``[B, T, d]``, the positions after those in ``memory``."""

    def linearise(self, x: Tensor, memory: Any) -> Vjp:
        """The map of cotangents ``[T, C, d]`` of ``run(x, memory)`` to those of ``x`` ``[T, d]``."""


@dataclass(frozen=True)
class SoftmaxBlock:
    """Attention, then an MLP, each with an optional norm before it and an optional norm on its write."""

    attention: Attention
    mlp: FeedForward
    attention_norm: Norm | None = None
    attention_post_norm: Norm | None = None
    mlp_norm: Norm | None = None
    mlp_post_norm: Norm | None = None
    shares: int | None = None

    def attention_input(self, x: Tensor) -> Tensor:
        """What the attention module receives for the states ``x`` ``[..., d]``."""
        return self.attention_norm(x) if self.attention_norm else x

    def own(self, y: Tensor, at: Tensor) -> Memory:
        """Keys and values ``[B, R, K, h]`` of inputs ``y`` ``[B, R, d]`` at positions ``at`` ``[R]``."""
        return self.attention.keys_values(y, at)

    def collect(self, own: Memory) -> Memory:
        """The keys and values themselves."""
        return own

    def attend(self, y: Tensor, at: Tensor, memory: Memory, own: Memory) -> Tensor:
        """Attention outputs ``[B, R, d]`` of rows: each sees ``memory`` before its position, and its ``own``."""
        return self.attention.attend(y, at, memory, own)

    def remember(self, x: Tensor) -> Memory:
        """Keys and values of the states ``x`` ``[B, S, d]`` at positions 0 .. S-1."""
        return self.attention.remember(self.attention_input(x))

    def write(self, x: Tensor, a: Tensor, at: Tensor | None = None) -> Writes:
        """Both writes and the next state, given states ``x`` and attention outputs ``a``, each ``[B, T, d]``."""
        attention = self._attention_write(a)
        middle = x + attention
        mlp = self._mlp_write(middle)
        return Writes(attention, mlp, middle + mlp)

    def _attention_write(self, a: Tensor) -> Tensor:
        return self.attention_post_norm(a) if self.attention_post_norm else a

    def _mlp_write(self, x: Tensor) -> Tensor:
        """What the MLP adds where it is given the residual ``x``."""
        mlp = self.mlp(self.mlp_norm(x) if self.mlp_norm else x)
        return self.mlp_post_norm(mlp) if self.mlp_post_norm else mlp

    def finish(self, x: Tensor, a: Tensor, at: Tensor | None = None) -> Tensor:
        """``F(x, a)``: the next layer's states ``[B, T, d]``; the same at every position."""
        return self.write(x, a).output

    def run(self, x: Tensor, memory: Memory | None = None) -> Tensor:
        """The next layer's states of ``x`` ``[B, T, d]``, the positions after those in ``memory``."""
        return self.finish(x, self.attention(self.attention_input(x), memory))

    def linearise(self, x: Tensor, memory: Memory) -> Vjp:
        """The map of cotangents ``[T, C, d]`` of ``run(x, memory)`` to those of ``x`` ``[T, d]``."""
        y = self.attention_input(x)
        a = self.attention(y[None], memory)[0]
        return self._through(x, a, self.attention.linearise(y, memory), _ignored).vjp

    def linearise_at(
        self, x: Tensor, attention: Callable[[Tensor], tuple[Tensor, Linearised]]
    ) -> tuple[Tensor, Linearised]:
        """Next states ``[R, d]`` of rows ``x`` ``[R, d]`` and their derivative by ``x``.

        Args:
            attention: gives attention outputs ``[R, d]`` and their derivative for what the module receives ``[R, d]``:
                the model's own at given positions (:meth:`attention_at`), or what stands in for it.
        """
        a, through = attention(self.attention_input(x))
        return self.finish(x, a), self._through(x, a, through.vjp, through.jvp)

    def attention_at(self, at: Tensor, memory: Memory) -> Callable[[Tensor], tuple[Tensor, Linearised]]:
        """The model's own attention in the form that :meth:`linearise_at` takes: rows at ``at`` ``[R]``, or ``[B R]``
        rows, those of a sequence side by side, where ``memory`` holds B sequences or all share one."""

        def attention(y: Tensor) -> tuple[Tensor, Linearised]:
            y = y.unflatten(0, (-1, len(at)))
            a, through = self.attention.linearise_at(y, at, memory, self.attention.keys_values(y, at))
            return a.flatten(0, 1), through

        return attention

    def _through(self, x: Tensor, a: Tensor, attention_vjp: Vjp, attention_jvp: Vjp) -> Linearised:
        """The derivative of the next state by ``x``, given that of the attention output ``a`` by its input."""
        through_attention = self._through_attention(x, a, Linearised(attention_vjp, attention_jvp))
        through_mlp = self._through_mlp(x + self._attention_write(a))

        def vjp(cotangent: Tensor) -> Tensor:
            cotangent = cotangent + through_mlp.vjp(cotangent)
            return through_attention.vjp(cotangent).add_(cotangent)

        def jvp(tangent: Tensor) -> Tensor:
            tangent = tangent + through_attention.jvp(tangent)
            return through_mlp.jvp(tangent).add_(tangent)

        return Linearised(vjp, jvp)

    def _through_attention(self, x: Tensor, a: Tensor, through: Linearised) -> Linearised:
        """The derivative of the attention write by ``x``, given that of ``a`` by its input."""
        norm, post_norm = self.attention_norm, self.attention_post_norm
        return chain([norm and norm.linearise(x), through, post_norm and post_norm.linearise(a)])

    def _through_mlp(self, x: Tensor) -> Linearised:
        """The derivative of :meth:`_mlp_write` at ``x`` ``[R, d]``."""
        norm, post_norm = self.mlp_norm, self.mlp_post_norm
        y = norm(x) if norm else x
        return chain(
            [norm and norm.linearise(x), self.mlp.linearise(y), post_norm and post_norm.linearise(self.mlp(y))]
        )


@dataclass(frozen=True)
class ParallelBlock(SoftmaxBlock):
    """Attention and an MLP side by side, both given the state that the block is given."""

    def write(self, x: Tensor, a: Tensor, at: Tensor | None = None) -> Writes:
        """Both writes and the next state, given states ``x`` and attention outputs ``a``, each ``[B, T, d]``."""
        attention, mlp = self._attention_write(a), self._mlp_write(x)
        return Writes(attention, mlp, x + attention + mlp)

    def _through(self, x: Tensor, a: Tensor, attention_vjp: Vjp, attention_jvp: Vjp) -> Linearised:
        """The derivative of the next state by ``x``, given that of the attention output ``a`` by its input."""
        through_attention = self._through_attention(x, a, Linearised(attention_vjp, attention_jvp))
        through_mlp = self._through_mlp(x)

        def vjp(cotangent: Tensor) -> Tensor:
            return through_attention.vjp(cotangent).add_(through_mlp.vjp(cotangent)).add_(cotangent)

        def jvp(tangent: Tensor) -> Tensor:
            return through_attention.jvp(tangent).add_(through_mlp.jvp(tangent)).add_(tangent)

        return Linearised(vjp, jvp)


def _ignored(_: Tensor) -> Tensor:
    raise TypeError("a span is linearised for cotangents only")


def chain(maps: Iterable[Linearised | None]) -> Linearised:
    """The derivative of maps one after another, in the order in which they run; None stands for no map."""
    steps = [step for step in maps if step is not None]

    def vjp(cotangent: Tensor) -> Tensor:
        for step in reversed(steps):
            cotangent = step.vjp(cotangent)
        return cotangent

    def jvp(tangent: Tensor) -> Tensor:
        for step in steps:
            tangent = step.jvp(tangent)
        return tangent

    return Linearised(vjp, jvp)


class AutogradBlock:
    """For blocks without a hand-written backward pass: ``linearise`` by autograd, vectorised over cotangents.

    A subclass has ``attention``, a part with ``own``, ``collect``, ``attend`` and a call, and says what it receives
    (``attention_input``) and what becomes of its output (``write``).
    """

    attention: Any
    shares: int | None = None

    def attention_input(self, x: Tensor) -> Tensor:
        """What the attention module receives for the states ``x`` ``[..., d]``."""
        raise TypeError(f"{type(self).__name__} does not say what its attention receives")

    def own(self, y: Tensor, at: Tensor) -> Any:
        """What the attention module keeps of ``y`` ``[B, R, d]`` at positions ``at`` ``[R]``."""
        return self.attention.own(y, at)

    def collect(self, own: Any) -> Any:
        """The memory of positions 0 .. S-1, from what is kept of each, in order."""
        return self.attention.collect(own)

    def attend(self, y: Tensor, at: Tensor, memory: Any, own: Any) -> Tensor:
        """Attention outputs ``[B, R, d]`` of rows: each sees ``memory`` before its position, and its ``own``."""
        return self.attention.attend(y, at, memory, own)

    def write(self, x: Tensor, a: Tensor, at: Tensor | None = None) -> Writes:
        """What is added to the residual, given states ``x`` and attention outputs ``a``, each ``[B, R, d]``."""
        raise TypeError(f"{type(self).__name__} does not say what it writes")

    def finish(self, x: Tensor, a: Tensor, at: Tensor | None = None) -> Tensor:
        """``F(x, a)``: the next layer's states ``[B, R, d]``."""
        return self.write(x, a, at).output

    def remember(self, x: Tensor) -> Any:
        """What later positions need of the states ``x`` ``[B, S, d]`` at positions 0 .. S-1."""
        return self.collect(self.own(self.attention_input(x), torch.arange(x.shape[1], device=x.device)))

    def run(self, x: Tensor, memory: Any = None) -> Tensor:
        """The next layer's states of ``x`` ``[B, T, d]``, the positions after those in ``memory``."""
        start = 0 if memory is None else memory[0].shape[1]
        start -= 0 if self.shares is None else x.shape[1]
        positions = torch.arange(start, start + x.shape[1], device=x.device)
        return self.finish(x, self.attention(self.attention_input(x), memory), positions)

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

    ``unembedding`` is ``W`` ``[V, d]`` with any logit scale in it; ``softcap`` is applied to logits after it. Whatever
    the type of the weights, the head is computed in float32: logits of half precision are too coarse for a KL.
    """

    architecture: str
    embed: Callable[[Tensor], Tensor]
    blocks: list[Block]
    final_norm: Norm | Callable[[Tensor], Tensor]
    unembedding: Tensor
    softcap: float | None = None
    tied: bool = False
    model: torch.nn.Module | None = None
    bind: Callable[[Tensor], Decoder] | None = None

    def on(self, tokens: Tensor) -> Decoder:
        """This decoder for the sequences ``tokens`` ``[T]`` or ``[B, T]``.

        The same object, except where blocks take something of the tokens themselves besides the residual state.
        """
        return self if self.bind is None else self.bind(tokens.to(self.device))

    def is_shared(self, index: int) -> bool:
        """Whether a later block uses the keys and values of block ``index`` in place of its own."""
        return any(block.shares == index for block in self.blocks)

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

    def normed(self, x: Tensor) -> Tensor:
        """N(x) ``[..., d]`` of last-layer states ``x`` ``[..., d]``, in float32 or better."""
        return self.final_norm(full(x))

    def project(self, y: Tensor) -> Tensor:
        """W y ``[..., V]`` of vectors ``y`` ``[..., d]``, in float32 or better."""
        y = full(y)
        parts = [y @ weight.T for weight in self._rows()]
        return parts[0] if len(parts) == 1 else torch.cat(parts, -1)

    def expected(self, p: Tensor) -> Tensor:
        """sum_v p_v w_v ``[..., d]`` of probabilities ``p`` ``[..., V]``, in float32 or better."""
        total, start = 0, 0
        for weight in self._rows():
            total = total + p[..., start : start + len(weight)].to(weight) @ weight
            start += len(weight)
        return total

    def _rows(self) -> Iterator[Tensor]:
        """W in float32 or better: all of it where it is, else in parts."""
        if self.unembedding.dtype.itemsize >= 4:
            yield self.unembedding
        else:
            yield from map(full, self.unembedding.split(TOKENS))

    def coefficients(self, x: Tensor) -> Tensor:
        """Logits before the softcap, ``[..., V]``, of last-layer states ``x`` ``[..., d]``, in float32 or better."""
        return self.project(self.normed(x))

    def logits(self, x: Tensor) -> Tensor:
        """The model's logits ``[..., V]`` of last-layer states ``x`` ``[..., d]``, in float32."""
        return self.cap(self.coefficients(x).float())

    def cap(self, logits: Tensor) -> Tensor:
        """Logits after the softcap, where the architecture has one."""
        return logits if self.softcap is None else self.softcap * torch.tanh(logits / self.softcap)
