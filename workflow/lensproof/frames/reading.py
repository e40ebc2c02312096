"""Read the layers of one sequence by the logit lens and by reference frames, against the model's own output."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from lensproof.checkpoints.anatomy.decoder import Decoder
from lensproof.frames.flow import Stand, flow
from lensproof.lenses.reading import Comparison, NativeReading, compare


@torch.no_grad()
def compare_layers(
    decoder: Decoder,
    states: Tensor,
    native: NativeReading,
    *,
    layers: Sequence[int],
    orders: Sequence[int],
    typical: Stand,
    at: Tensor | None = None,
) -> Iterator[tuple[str, list[int], Comparison]]:
    """Every reading of the chosen layers.

    Args:
        decoder: the model, bound to the sequence (:meth:`Decoder.on`).
        states: residual states ``[L + 1, T, d]``.
        native: the model's own output at the positions read.
        layers: layers to read.
        orders: orders of the frames.
        typical: typical attention, or what stands in for it.
        at: positions to read ``[R]``; all by default.

    Yields:
        Method (``logit_lens``, ``lexframe_n``), layers ``[C]`` and comparisons ``[C, R]``. A method may come twice:
        layers at which its order is exact stand apart.
    """
    at = torch.arange(states.shape[1], device=states.device) if at is None else at
    yield "logit_lens", list(layers), compare(decoder, native, states[list(layers)][:, at])
    for order, cuts, last in flow(decoder, states, orders, typical, layers):
        if cuts:
            yield f"lexframe_{order}", cuts, compare(decoder, native, last[:, at])
        exact = [layer for layer in layers if decoder.depth - layer <= order]
        if exact:
            yield f"lexframe_{order}", exact, itself(native, len(exact))


def itself(native: NativeReading, layers: int) -> Comparison:
    """The model's own output compared with itself, ``[layers, R]``."""
    own = native.summary
    parts = torch.zeros_like(own.normaliser), own.top, own.log_probability.exp()
    return Comparison(*(part.expand(layers, *part.shape) for part in parts))
