"""The tuned lens: one affine map per layer, trained so that what it reads is what the model says.

A translator takes a state x of layer l to A x + b, in the place of the last block's output; the final norm and the
unembedding read it. Training minimises the mean KL(model || reading) over positions of unlabelled text (Belrose and
others 2023). It starts from the closed-form ridge regression of the last layer's state on the layer's own, which is
kept beside it, so that what training adds can be seen. LexFrame leaves the tuned lens out of its comparison.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lensproof.checkpoints.anatomy.decoder import Decoder, full
from lensproof.errors import LensproofError
from lensproof.files import (
    TUNED,
    check_shapes,
    damaged,
    layer_number,
    read_provenance,
    read_safetensors,
    write_safetensors,
)
from lensproof.lenses.ridge import Moments, solve
from lensproof.progress import bar
from lensproof.streams.trace import residuals

SEQUENCES = 4
"""Sequences that are traced at once."""
SHAPES = {"weight": ("width", "width"), "bias": ("width",)}
"""Of the tensors of a translator in its file."""


@dataclass(frozen=True)
class Translator:
    """``x -> weight x + bias``, weight ``[d, d]``, bias ``[d]``, both float32."""

    weight: Tensor
    bias: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """Last-layer states ``[..., d]``, in float32 or better, in place of states ``x`` ``[..., d]``."""
        x = full(x)
        return torch.nn.functional.linear(x, self.weight.to(x), self.bias.to(x))


@dataclass(frozen=True)
class TunedLens:
    """Translators by layer, as trained and as they started."""

    trained: dict[int, Translator]
    start: dict[int, Translator]

    @property
    def layers(self) -> list[int]:
        """Layers that have a translator, rising."""
        return sorted(self.trained)


def identity(width: int) -> Translator:
    """The translator that changes nothing: read by it, a state reads as by the logit lens."""
    return Translator(torch.eye(width), torch.zeros(width))


def random(width: int, seed: int) -> Translator:
    """A translator that knows nothing: independent normal entries of variance 1/d, no bias."""
    generator = torch.Generator().manual_seed(seed)
    return Translator(torch.randn(width, width, generator=generator) / width**0.5, torch.zeros(width))


@torch.no_grad()
def collect(
    decoder: Decoder, tokens: Tensor, layers: Sequence[int], progress: str | None = None
) -> tuple[Tensor, Tensor]:
    """States of the chosen layers ``[layers, N, T, d]`` and of the last ``[N, T, d]``, of sequences ``[N, T]``."""
    found, last = [], []
    batches = tokens.split(SEQUENCES)
    for part in bar(batches, progress, unit="batch") if progress else batches:
        states = residuals(decoder, part)
        found.append(states[list(layers)])
        last.append(states[-1])
    return torch.cat(found, 1), torch.cat(last)


def start(x: Tensor, last: Tensor) -> Translator:
    """The ridge regression of last-layer states on states, each ``[N, T, d]``; even and odd sequences are the folds."""
    folds = [Moments.of(x[fold::2].flatten(0, 1), last[fold::2].flatten(0, 1)) for fold in (0, 1)]
    slope, x_mean, last_mean, _, _ = solve(*folds)
    return Translator(slope.float(), (last_mean - slope @ x_mean).float())


def train(
    decoder: Decoder,
    x: Tensor,
    last: Tensor,
    begin: Sequence[Translator],
    *,
    batch: int,
    rate: float,
    epochs: int = 1,
    seed: int = 0,
    progress: str | None = None,
) -> list[Translator]:
    """Train translators of several layers on the same text.

    Adam, at a rate that falls linearly to 0; each batch's model distribution is worked out once for all layers.

    Args:
        x: states ``[S, M, d]`` of S layers at M positions.
        last: last-layer states ``[M, d]``.
        begin: S translators to start from.
        batch: positions per step.
        rate: learning rate at the first step.
        epochs: passes over the positions.
        seed: of the order of positions.
        progress: text of a progress bar, or None.

    Raises:
        LensproofError: a loss is not finite, naming the step.
    """
    parameters = [(part.weight.clone().requires_grad_(), part.bias.clone().requires_grad_()) for part in begin]
    optimiser = torch.optim.Adam([tensor for pair in parameters for tensor in pair], lr=rate)
    batches = list(_batches(len(last), batch, epochs, seed))
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.0, total_iters=len(batches))
    for step, chosen in enumerate(bar(batches, progress, unit="step") if progress else batches):
        with torch.no_grad():
            target = decoder.logits(last[chosen]).softmax(-1)
        for (weight, bias), states in zip(parameters, x, strict=True):
            with torch.enable_grad():
                logits = decoder.logits(torch.nn.functional.linear(states[chosen].float(), weight, bias))
                loss = logits.logsumexp(-1).mean() - (target * logits).sum(-1).mean()
            if not torch.isfinite(loss):
                raise LensproofError(f"the tuned lens diverged at step {step + 1}: lower its rate")
            loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        schedule.step()
    return [Translator(weight.detach(), bias.detach()) for weight, bias in parameters]


def _batches(positions: int, batch: int, epochs: int, seed: int) -> Iterator[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    for _ in range(epochs):
        yield from torch.randperm(positions, generator=generator).split(batch)


def fit(
    decoder: Decoder,
    tokens: Tensor,
    layers: Sequence[int],
    *,
    batch: int,
    rate: float,
    epochs: int = 1,
    seed: int = 0,
    progress: str | None = None,
) -> TunedLens:
    """The tuned lens of some layers, trained on sequences ``[N, T]``; other arguments as for :func:`train`."""
    states, last = collect(decoder, tokens, layers, progress and f"{progress}, states")
    begin = [start(x, last) for x in states]
    settings = {"batch": batch, "rate": rate, "epochs": epochs, "seed": seed}
    trained = train(decoder, states.flatten(1, 2), last.flatten(0, 1), begin, **settings, progress=progress)
    return TunedLens(*(dict(zip(layers, parts, strict=True)) for parts in (trained, begin)))


def combine(lenses: Sequence[TunedLens]) -> TunedLens:
    """One lens of lenses of different layers.

    Raises:
        LensproofError: two have one layer.
    """
    layers = [layer for lens in lenses for layer in lens.layers]
    if twice := sorted({layer for layer in layers if layers.count(layer) > 1}):
        raise LensproofError(f"layer {twice[0]} stands in two groups: give each group once")
    parts = [{k: v for lens in lenses for k, v in getattr(lens, part).items()} for part in ("trained", "start")]
    return TunedLens(*parts)


def save(path: str | Path, lens: TunedLens, provenance: Mapping[str, Any]) -> None:
    """Write a lens as safetensors."""
    tensors = {
        name: getattr(translator, which)
        for kind in ("trained", "start")
        for layer, translator in getattr(lens, kind).items()
        for which, name in _names(layer, kind).items()
    }
    write_safetensors(path, tensors, provenance)


def _names(layer: int, kind: str) -> dict[str, str]:
    """Part of a translator -> its name in the file."""
    return {which: f"layer_{layer:03d}.{kind}.{which}" for which in SHAPES}


def load(path: str | Path, decoder: Decoder | None = None, weights: str | None = None) -> TunedLens:
    """Read a lens for ``decoder``.

    Args:
        weights: sha256 of that model's weights; compared where the file records one.

    Raises:
        LensproofError: it was trained for another model, or is damaged.
    """
    tensors = read_safetensors(path, TUNED)
    layers = sorted({layer_number(path, name.split(".")[0]) for name in tensors})
    if not layers:
        raise damaged(path, "it has no layer")
    kinds = {kind: [_names(layer, kind) for layer in layers] for kind in ("trained", "start")}
    shapes = {name: SHAPES[which] for found in kinds.values() for names in found for which, name in names.items()}
    check_shapes(path, tensors, shapes)
    if decoder is not None:
        tensors = {name: tensor.to(decoder.device) for name, tensor in tensors.items()}
    lens = TunedLens(**{
        kind: {
            layer: Translator(**{which: tensors[name] for which, name in names.items()})
            for layer, names in zip(layers, found, strict=True)
        }
        for kind, found in kinds.items()
    })  # fmt: skip
    width = next(iter(lens.trained.values())).weight.shape[0]
    if decoder is not None and (width != decoder.width or lens.layers[-1] > decoder.depth):
        raise LensproofError(
            f"{path} is for a model of width {width} with a layer {lens.layers[-1]}, "
            f"this one has width {decoder.width} and layers 0 to {decoder.depth}"
        )
    recorded = read_provenance(path).get("weights")
    if recorded and weights and recorded != weights:
        raise LensproofError(f"{path} was trained on other weights (sha256 {recorded[:12]}, here {weights[:12]})")
    return lens
