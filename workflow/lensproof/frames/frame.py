"""Reference frames: what the rest of the model makes of one state, as a map that can be run and differentiated.

LexFrame, sections 3.2 and 3.3. The frame of order n at layer l of one sequence takes a state x at position t to
N(T^n(x)), with T^n the remaining blocks run for t alone against the order n-1 flow of the positions before it (the
clean run for order infinity) and N the final norm. From it follow the three quantities of a frame, for a token v:

- the *coefficient* z(v) = w_v . N(T(x));
- the *readout* b(v) = J' (w_v - w_mean), a covector: how the centred coefficient moves with the state;
- the *basis* s(v) = J^+ s_v, a vector: how to move the state so that the output moves along s_v
  (:mod:`lensproof.frames.basis`);

with J = d N(T(x)) / d x. ``R`` rows are states of one sequence that know nothing of one another; ``C`` directions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from lensproof.checkpoints.anatomy.decoder import Decoder
from lensproof.checkpoints.anatomy.parts import Linearised
from lensproof.frames.flow import Stand, prefixes
from lensproof.streams.replay import advance, remember


@dataclass(frozen=True)
class Frame:
    """The frame of one order at one layer of one sequence.

    ``states`` are the sequence's clean residual states ``[L + 1, T, d]``. ``memories`` holds what each block attends
    to, one entry per block from 0 (those below the cut are not used); None for order 0, where ``typical`` stands in
    for attention. Position 0 has no prefix and is the same in every order: ask the native frame for it.
    """

    decoder: Decoder
    states: Tensor
    layer: int
    order: float
    memories: Sequence[Any] | None
    typical: Stand | None = None

    def transport(self, x: Tensor, at: Tensor) -> Tensor:
        """T(x): last-layer states ``[R, d]`` of states ``x`` ``[R, d]`` at positions ``at`` ``[R]``."""
        self._refuse_first(at)
        owns: dict[int, Any] = {}
        x = x[None]
        for index in range(self.layer, self.decoder.depth):
            if self.memories is None:
                x = self._typically(index, x, at)
            else:
                x = advance(self.decoder, index, x, at, self.memories, self.states, owns)
        return x[0]

    def _refuse_first(self, at: Tensor) -> None:
        if self.memories is None and bool((at == 0).any()):
            raise ValueError("position 0 has no prefix to stand in for: use the native frame there")

    def _typically(self, index: int, x: Tensor, at: Tensor) -> Tensor:
        block = self.decoder.blocks[index]
        return block.finish(x, self.typical(index, block.attention_input(x)), at)

    def normed(self, x: Tensor, at: Tensor) -> Tensor:
        """N(T(x)) ``[R, d]``; its product with the unembedding gives the coefficients."""
        return self.decoder.final_norm(self.transport(x, at))

    def linearise(self, x: Tensor, at: Tensor) -> Linearised:
        """J at every row: ``vjp`` takes ``[R, C, d]`` at the output to the state, ``jvp`` the other way."""
        return linearise([self], x[None], at)

    def jacobian(self, x: Tensor, at: Tensor, batch: int = 64) -> Tensor:
        """J ``[R, d, d]`` in float32; see :func:`jacobians`."""
        return jacobians([self], x[None], at, batch)[0]

    def readouts(self, x: Tensor, at: Tensor, covectors: Tensor) -> Tensor:
        """J' c ``[R, C, d]`` for covectors ``[C, d]`` shared by all rows, or ``[R, C, d]``."""
        return self.linearise(x, at).vjp(covectors.expand(len(x), *covectors.shape[-2:]))


def transports(frames: Sequence[Frame], x: Tensor, at: Tensor) -> Tensor:
    """T(x) of several frames of one sequence at once, ``[F, R, d]``; arguments as for :func:`linearise`."""
    first, decoder = frames[0], frames[0].decoder
    if first.memories is None or any(block.shares is not None for block in decoder.blocks[first.layer :]):
        return torch.stack([frame.transport(rows, at) for frame, rows in zip(frames, x, strict=True)])
    x = x.clone()
    for index in range(first.layer, decoder.depth):
        block, joined = decoder.blocks[index], [frame for frame in frames if frame.layer <= index]
        rows = x[: len(joined)]
        y = block.attention_input(rows)
        a = block.attend(y, at, _stacked([frame.memories[index] for frame in joined]), block.own(y, at))
        x[: len(joined)] = block.finish(rows, a, at)
    return x


def linearise(frames: Sequence[Frame], x: Tensor, at: Tensor) -> Linearised:
    """J of several frames of one sequence at once: each block runs once, with the rows of all of them.

    Args:
        frames: F frames at layers that never fall, as :func:`frames` gives them; of any orders, but order 0 stands
            alone.
        x: their states ``[F, R, d]``.
        at: positions ``[R]``.

    Returns:
        Maps of ``[F R, C, d]``, the rows of a frame side by side: ``vjp`` from the output to the states, ``jvp`` the
        other way.
    """
    decoder = frames[0].decoder
    steps, last = _steps(frames, x, at)
    if steps is None or not hasattr(decoder.final_norm, "linearise"):
        return _side_by_side([by_autograd(partial(f.normed, at=at), rows) for f, rows in zip(frames, x, strict=True)])
    norm = decoder.final_norm.linearise(last)

    def vjp(cotangent: Tensor) -> Tensor:
        cotangent = norm.vjp(cotangent)
        for rows, step in reversed(steps):
            cotangent[:rows] = step.vjp(cotangent[:rows])
        return cotangent

    def jvp(tangent: Tensor) -> Tensor:
        tangent = tangent.clone()
        for rows, step in steps:
            tangent[:rows] = step.jvp(tangent[:rows])
        return norm.jvp(tangent)

    return Linearised(vjp, jvp)


def jacobians(frames: Sequence[Frame], x: Tensor, at: Tensor, batch: int = 64) -> Tensor:
    """J of several frames ``[F, R, d, d]`` in float32, entry ``[i, j]`` the derivative of output i by input j.

    Args:
        frames, x, at: as for :func:`linearise`.
        batch: outputs differentiated at once; it changes memory and speed, not the result.
    """
    back = linearise(frames, x, at).vjp
    eye = torch.eye(x.shape[-1], dtype=x.dtype, device=x.device)
    rows = len(frames) * len(at)
    found = torch.cat([back(part.expand(rows, *part.shape)) for part in eye.split(batch)], 1)
    return found.unflatten(0, (len(frames), -1)).float()


def _steps(frames: Sequence[Frame], x: Tensor, at: Tensor) -> tuple[list[tuple[int, Linearised]] | None, Tensor]:
    """For each block from the lowest frame's layer on, how many rows have met it and its derivative there; and the
    rows' last-layer states ``[F R, d]``. None where a block has no hand-written derivative."""
    decoder, first, steps = frames[0].decoder, frames[0], []
    first._refuse_first(at)
    rows = x.flatten(0, 1).clone()
    for index in range(first.layer, decoder.depth):
        block = decoder.blocks[index]
        if block.shares is not None or not hasattr(block, "linearise_at"):
            return None, rows
        joined = [frame for frame in frames if frame.layer <= index]
        met = len(joined) * len(at)
        if first.memories is None:
            attention = partial(_linear, first.typical, index)
        else:
            attention = block.attention_at(at, _stacked([frame.memories[index] for frame in joined]))
        rows[:met], step = block.linearise_at(rows[:met], attention)
        steps.append((met, step))
    return steps, rows


def _stacked(memories: Sequence[Any]) -> Any:
    """One memory for the rows of several frames; the same one serves all if they share it."""
    if all(memory is memories[0] for memory in memories):
        return memories[0]
    return type(memories[0])(*(torch.cat(parts) for parts in zip(*memories, strict=True)))


def _side_by_side(maps: Sequence[Linearised]) -> Linearised:
    """Derivatives of as many groups of rows."""

    def all_of(name: str, x: Tensor) -> Tensor:
        return torch.cat([getattr(map_, name)(rows) for map_, rows in zip(maps, x.chunk(len(maps)), strict=True)])

    return Linearised(partial(all_of, "vjp"), partial(all_of, "jvp"))


def _linear(stand: Stand, index: int, y: Tensor) -> tuple[Tensor, Linearised]:
    """Typical attention, whose derivative is the same at every input."""
    slope = stand.slope[index].to(y)
    return stand(index, y), Linearised(lambda cotangent: cotangent @ slope, lambda tangent: tangent @ slope.T)


@torch.no_grad()
def frames(
    decoder: Decoder, states: Tensor, order: float, cuts: Iterable[int], typical: Stand | None = None
) -> dict[int, Frame]:
    """Frames of one order at several layers of a sequence.

    Args:
        decoder: the model, bound to the sequence (:meth:`Decoder.on`).
        states: residual states ``[L + 1, T, d]``.
        order: 0, 1, 2, ... or ``math.inf`` for the native frame.
        cuts: layers.
        typical: typical attention, needed below order infinity.

    Returns:
        Layer -> frame, layers rising. Where L - l <= order the frame is the native one.
    """
    cuts = sorted(set(cuts))
    exact = [cut for cut in cuts if decoder.depth - cut <= order]
    found = {}
    if exact:
        native = remember(decoder, states)
        found = {cut: Frame(decoder, states, cut, math.inf, native) for cut in exact}
    left = [cut for cut in cuts if cut not in found]
    if order == 0:
        found |= {cut: Frame(decoder, states, cut, 0, None, typical) for cut in left}
    elif left:
        made = prefixes(decoder, states, int(order) - 1, typical, left)
        found |= {cut: Frame(decoder, states, cut, order, memories, typical) for cut, memories in made.items()}
    return {cut: found[cut] for cut in cuts}


@torch.no_grad()
def native_readouts(decoder: Decoder, states: Tensor, at: Tensor, covectors: Tensor) -> Tensor:
    """Native readouts of the clean states at positions ``at`` ``[R]`` at every layer, in one backward pass.

    Every layer's native frame runs through the same states, so the cotangents met on the way down are the readouts.

    Args:
        covectors: ``[C, d]`` or ``[R, C, d]`` at the output N.

    Returns:
        ``[L + 1, R, C, d]``.
    """
    frame = frames(decoder, states, math.inf, [0])[0]
    x = states[0, at]
    steps, last = _steps([frame], x[None], at)
    norm, cotangent = decoder.final_norm, covectors.expand(len(x), *covectors.shape[-2:])
    if steps is None or not hasattr(norm, "linearise"):
        return _native_by_autograd(frame, x, at, cotangent)
    found = [norm.linearise(last).vjp(cotangent)]
    for _, step in reversed(steps):
        found.append(step.vjp(found[-1]))
    return torch.stack(found[::-1])


def _native_by_autograd(frame: Frame, x: Tensor, at: Tensor, cotangent: Tensor) -> Tensor:
    with torch.enable_grad():
        owns: dict[int, Any] = {}
        met = [x.detach().clone().requires_grad_()]
        for index in range(frame.decoder.depth):
            met.append(advance(frame.decoder, index, met[-1][None], at, frame.memories, frame.states, owns)[0])
        output = frame.decoder.final_norm(met[-1])
    found = torch.autograd.grad(output, met, cotangent.transpose(0, 1), is_grads_batched=True)
    return torch.stack([part.transpose(0, 1) for part in found])


def by_autograd(function: Any, x: Tensor) -> Linearised:
    """The derivative of a map of rows that know nothing of one another, ``[R, d]`` to ``[R, e]``, by autograd."""
    with torch.enable_grad():
        variable = x.detach().clone().requires_grad_()
        output = function(variable)

    @cache
    def transposed() -> tuple[Tensor, Tensor]:
        """A cotangent and its product with J: linear in the cotangent, so the derivative by that is J itself."""
        with torch.enable_grad():
            dual = torch.zeros_like(output, requires_grad=True)
            return dual, torch.autograd.grad(output, variable, dual, create_graph=True)[0]

    def vjp(cotangent: Tensor) -> Tensor:
        (found,) = torch.autograd.grad(
            output, variable, cotangent.transpose(0, 1), retain_graph=True, is_grads_batched=True
        )
        return found.transpose(0, 1)

    def jvp(tangent: Tensor) -> Tensor:
        dual, pulled = transposed()
        (found,) = torch.autograd.grad(pulled, dual, tangent.transpose(0, 1), retain_graph=True, is_grads_batched=True)
        return found.transpose(0, 1)

    return Linearised(vjp, jvp)
