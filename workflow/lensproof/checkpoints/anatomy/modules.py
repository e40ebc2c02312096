"""Parts read off transformers' modules, where several architectures keep them alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from transformers.activations import ACT2FN

from lensproof.checkpoints.anatomy.parts import MLP, GatedMLP, LayerNorm, Linear, RMSNorm, Rotary
from lensproof.errors import LensproofError

if TYPE_CHECKING:
    from torch import nn


def linear(module: nn.Linear) -> Linear:
    """A linear map, with its bias where it has one."""
    return Linear(module.weight, module.bias)


def rms_norm(module: nn.Module) -> RMSNorm:
    """A root-mean-square norm whose weight is the gain itself."""
    return RMSNorm(module.weight.float(), module.variance_epsilon)


def layer_norm(module: nn.LayerNorm) -> LayerNorm:
    """A layer norm with gain and bias."""
    return LayerNorm(module.weight.float(), module.bias.float(), module.eps)


def gated_mlp(mlp: nn.Module, activation: str) -> GatedMLP:
    """A gated MLP of three projections."""
    return GatedMLP(linear(mlp.gate_proj), linear(mlp.up_proj), linear(mlp.down_proj), ACT2FN[activation])


def plain_mlp(up: nn.Linear, down: nn.Linear, activation: str) -> MLP:
    """An MLP of two projections."""
    return MLP(linear(up), linear(down), ACT2FN[activation])


def rotary(inner: nn.Module, kind: str | None = None) -> Rotary:
    """The rotation of a model's queries and keys.

    Args:
        inner: the model without its head, with ``rotary_emb``.
        kind: type of layer, where each has a rotation of its own.

    Raises:
        LensproofError: the rotation of a position depends on how long the text is, so that no position has a state
            of its own.
    """
    parameters = inner.config.rope_parameters
    _refuse_growing(parameters if kind is None else parameters[kind])
    like, kinds = inner.get_input_embeddings().weight, () if kind is None else (kind,)
    return Rotary.of(lambda positions: inner.rotary_emb(like, positions[None], *kinds))


def _refuse_growing(parameters: dict) -> None:
    scaling = parameters["rope_type"]
    same = scaling == "longrope" and parameters["short_factor"] == parameters["long_factor"]
    if scaling in ("dynamic", "longrope") and not same:
        raise LensproofError(
            f"rotary scaling {scaling!r} is not supported: how it turns a position depends on the length of the text"
        )
