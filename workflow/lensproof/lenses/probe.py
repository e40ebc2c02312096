"""The ridge probe: supervised regression of a label's centred coefficient on the states of one layer.

LexFrame, section 4.1 and figure 7. At each layer the model's own centred coefficient of a label v,
(w_v - w_mean) . N(x_L), is predicted from the state x_l at the same position as ``mean + g . (x_l - x_mean)``; the
weight vector g is the probe's direction for v. It is fitted on documents that directions are not tested on. Chosen: one
strength for all labels of a layer, by two-fold cross-validation over sequences (:mod:`lensproof.lenses.ridge`), and
position 0 is left out, as in all direction statistics.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lensproof.checkpoints.anatomy.decoder import Decoder
from lensproof.errors import LensproofError
from lensproof.files import PROBE, check_shapes, read_provenance, read_safetensors, write_safetensors
from lensproof.lenses.ridge import RIDGES, Moments, solve
from lensproof.progress import bar
from lensproof.streams.trace import residuals

SHAPES = {
    "labels": ("labels",),
    "weight": ("layers", "labels", "width"),
    "input_mean": ("layers", "width"),
    "output_mean": ("layers", "labels"),
    "ridge": ("layers",),
    "unexplained": ("layers",),
}
"""Of the tensors of its file."""


@dataclass(frozen=True)
class RidgeProbe:
    """A fitted probe of every layer and C labels, in float32.

    ``labels`` token ids ``[C]``, ``weight`` g ``[L + 1, C, d]``, ``input_mean`` ``[L + 1, d]``, ``output_mean``
    ``[L + 1, C]``, ``ridge`` the chosen relative strengths ``[L + 1]``, ``unexplained`` the cross-validated share of
    the coefficients' variance that is left ``[L + 1]``.
    """

    labels: Tensor
    weight: Tensor
    input_mean: Tensor
    output_mean: Tensor
    ridge: Tensor
    unexplained: Tensor

    def predict(self, x: Tensor, layer: int) -> Tensor:
        """Centred coefficients ``[..., C]`` of the labels, from states ``x`` ``[..., d]`` of ``layer``."""
        return (x.float() - self.input_mean[layer]) @ self.weight[layer].T + self.output_mean[layer]


def fit(
    decoder: Decoder,
    tokens: Tensor,
    labels: Tensor,
    covectors: Tensor,
    *,
    batch: int = 4,
    ridges: Tensor = RIDGES,
    progress: str | None = None,
) -> RidgeProbe:
    """Fit the probe.

    Args:
        tokens: ids ``[N, T]``; even and odd sequences are the two folds.
        labels: token ids ``[C]``.
        covectors: their w_v - w_mean ``[C, d]``.
        batch: sequences that run at once; sums are in float64.
        ridges: relative strengths to choose from.
        progress: text of a progress bar, or None.

    Raises:
        LensproofError: fewer than two sequences.
    """
    if len(tokens) < 2:
        raise LensproofError("the ridge probe needs at least two sequences")
    folds = [
        _moments(decoder, tokens[fold::2], covectors, batch, progress and f"{progress} ({fold + 1}/2)")
        for fold in (0, 1)
    ]
    fits = [solve(even, odd, ridges) for even, odd in zip(*folds, strict=True)]
    return RidgeProbe(labels, *(torch.stack(part).float() for part in zip(*fits, strict=True)))


@torch.no_grad()
def _moments(decoder: Decoder, tokens: Tensor, covectors: Tensor, batch: int, progress: str | None) -> list[Moments]:
    """Sums of states and coefficients, one entry per layer."""
    total: list[Moments] = []
    batches = tokens.split(batch)
    for part in bar(batches, progress, unit="batch") if progress else batches:
        states = residuals(decoder, part)[:, :, 1:].flatten(1, 2)
        coefficients = decoder.final_norm(states[-1]).float() @ covectors.T
        found = [Moments.of(state, coefficients) for state in states]
        total = [old + new for old, new in zip(total, found, strict=True)] if total else found
    return total


def save(path: str | Path, probe: RidgeProbe, provenance: Mapping[str, Any]) -> None:
    """Write a probe as safetensors."""
    write_safetensors(path, vars(probe), provenance)


def load(path: str | Path, decoder: Decoder, labels: Tensor, weights: str | None = None) -> RidgeProbe:
    """Read a probe for ``decoder``.

    Args:
        labels: token ids ``[C]`` that it must have been fitted for, in this order.
        weights: sha256 of the model's weights; compared where the file records one.

    Raises:
        LensproofError: it was fitted on another model, for other labels, or is damaged.
    """
    tensors = read_safetensors(path, PROBE)
    check_shapes(path, tensors, SHAPES)
    probe = RidgeProbe(**tensors)
    layers, _, width = probe.weight.shape
    if (layers, width) != (decoder.depth + 1, decoder.width):
        raise LensproofError(
            f"{path} is for a model with layers 0 to {layers - 1} of width {width}, this one has 0 to {decoder.depth} "
            f"of {decoder.width}"
        )
    recorded = read_provenance(path).get("weights")
    if recorded and weights and recorded != weights:
        raise LensproofError(f"{path} was fitted on other weights (sha256 {recorded[:12]}, here {weights[:12]})")
    if probe.labels.tolist() != labels.tolist():
        raise LensproofError(f"{path} was fitted for other labels: build it again with as many labels as are tested")
    return RidgeProbe(**{name: part.to(decoder.device) for name, part in vars(probe).items()})
