"""Gemma 4: as Gemma 3, with normed values, keys and values that later blocks use again, and a third write.

Every block ends with a product by its own scalar. The third write comes of a *per-layer input*: a small vector for each
token and block, made of the token and its embedding before the first block. It is an input like the token itself, so
changing a state changes none of it: blocks have it after :meth:`Decoder.on`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor
from transformers import PreTrainedModel

from lensproof.checkpoints.anatomy.decoder import AutogradBlock, Decoder, Writes
from lensproof.checkpoints.anatomy.modules import gated_mlp, linear, rotary
from lensproof.checkpoints.anatomy.parts import Attention, GatedMLP, Linear, Memory, RMSNorm, Rotary
from lensproof.errors import LensproofError

ARCHITECTURE = "Gemma4ForCausalLM"


@dataclass(frozen=True)
class Gemma4Attention(Attention):
    """Attention with normed values. Without ``value``, values are the raw keys; without ``key``, keys and values are
    another block's."""

    key: Linear | None
    value: Linear | None
    value_norm: RMSNorm | None = None

    def keys_values(self, y: Tensor, positions: Tensor) -> Memory:
        """Normed and rotated keys, and normed values, each ``[B, T, K, h]``."""
        key = self._split(self.key(y), self.key_value_heads)
        value = self._split(self.value(y), self.key_value_heads) if self.value else key
        return Memory(self._place(key, self.key_norm, positions), self.value_norm(value))

    def __call__(self, y: Tensor, memory: Memory | None = None) -> Tensor:
        """Attention output ``[B, T, d]`` of ``y`` ``[B, T, d]``: of the positions after those in ``memory``, or, where
        keys and values are another block's, of the last ones in it."""
        if self.key:
            return super().__call__(y, memory)
        length = memory.key.shape[1]
        query = self.queries(y, torch.arange(length - y.shape[1], length, device=y.device))
        return self.merge(self.gather(self.pattern(query, memory.key), memory.value))


@dataclass(frozen=True)
class PerLayerInput:
    """The third write: ``norm(projection(activation(gate(x)) * inputs))``, ``inputs`` ``[B, T, p]`` those of one block
    for the sequences that the decoder is bound to."""

    gate: Linear
    projection: Linear
    norm: RMSNorm
    activation: Callable[[Tensor], Tensor]
    inputs: Tensor | None = None

    def __call__(self, x: Tensor, at: Tensor | None) -> Tensor:
        """The write ``[B, R, d]`` for ``x`` ``[B, R, d]`` at positions ``at`` (None: 0 .. R-1).

        Raises:
            LensproofError: the decoder is bound to no sequence.
        """
        if self.inputs is None:
            raise LensproofError(
                f"{ARCHITECTURE}: blocks take an input of each token; bind the decoder to the sequence (Decoder.on)"
            )
        inputs = self.inputs[:, : x.shape[1]] if at is None else self.inputs[:, at]
        return self.norm(self.projection(self.activation(self.gate(x)) * inputs))


@dataclass(frozen=True)
class Gemma4Block(AutogradBlock):
    """Attention, a gated MLP and, where there is one, the per-layer input, each write normed; then a product by
    ``scale``."""

    attention: Gemma4Attention
    attention_norm: RMSNorm
    attention_post_norm: RMSNorm
    mlp: GatedMLP
    mlp_norm: RMSNorm
    mlp_post_norm: RMSNorm
    scale: Tensor
    extra: PerLayerInput | None = None
    shares: int | None = None

    def attention_input(self, x: Tensor) -> Tensor:
        """What the attention module receives for the states ``x`` ``[..., d]``."""
        return self.attention_norm(x)

    def write(self, x: Tensor, a: Tensor, at: Tensor | None = None) -> Writes:
        """All writes and the next state, given states ``x`` and attention outputs ``a``, each ``[B, R, d]``."""
        attention = self.attention_post_norm(a)
        middle = x + attention
        mlp = self.mlp_post_norm(self.mlp(self.mlp_norm(middle)))
        end = middle + mlp
        extra = self.extra(end, at) if self.extra else None
        output = self.scale * (end if extra is None else end + extra)
        return Writes(attention, mlp, output, extra, self.scale)


def take_apart(model: PreTrainedModel) -> Decoder:
    """Where a Gemma 4 text model keeps its parts.

    Raises:
        LensproofError: a variant whose blocks are not these.
    """
    inner, config = model.model, model.config
    _refuse_others(config)
    turns = {kind: rotary(inner, kind) for kind in set(config.layer_types)}
    decoder = Decoder(
        architecture=ARCHITECTURE,
        embed=inner.embed_tokens,
        blocks=[
            _block(layer, config.per_layer_config[index], turns[config.layer_types[index]], shares)
            for index, (layer, shares) in enumerate(zip(inner.layers, _sources(config), strict=True))
        ],
        final_norm=_norm(inner.norm),
        unembedding=model.lm_head.weight,
        softcap=config.final_logit_softcapping,
        tied=config.tie_word_embeddings,
        model=model,
    )
    return replace(decoder, bind=partial(_bind, decoder)) if config.hidden_size_per_layer_input else decoder


def _refuse_others(config) -> None:
    """Of what the text models come with, these change what a block is."""
    if config.enable_moe_block:
        raise LensproofError("Gemma 4 with a mixture of experts is not supported: its MLP write is not one MLP's")
    if config.use_bidirectional_attention == "all":
        raise LensproofError("Gemma 4 with attention in both directions is not a decoder")
    if config.num_kv_shared_layers >= config.num_hidden_layers:
        raise LensproofError("Gemma 4 whose keys and values are all another model's cannot run by itself")


def _sources(config) -> list[int | None]:
    """For each block, the one whose keys and values it uses, if they are not its own: the last of its kind to have
    any."""
    kinds, first = config.layer_types, config.num_hidden_layers - config.num_kv_shared_layers
    last = {kind: index for index, kind in enumerate(kinds[:first])}
    return [None if index < first else last[kind] for index, kind in enumerate(kinds)]


def _bind(decoder: Decoder, tokens: Tensor) -> Decoder:
    """The decoder with the per-layer inputs of ``tokens`` ``[T]`` or ``[B, T]`` in its blocks."""
    inner, tokens = decoder.model.model, tokens.view(-1, tokens.shape[-1])
    with torch.no_grad():
        embedded = inner.embed_tokens(tokens)
        inputs = inner.project_per_layer_inputs(embedded, inner.get_per_layer_inputs(tokens, embedded))
    blocks = [
        replace(block, extra=replace(block.extra, inputs=part))
        for block, part in zip(decoder.blocks, inputs.unbind(2), strict=True)
    ]
    return replace(decoder, blocks=blocks, bind=partial(_bind, decoder))


def _norm(module) -> RMSNorm:
    return RMSNorm(module.weight.float(), module.eps)


def _block(layer, config, turn: Rotary, shares: int | None) -> Gemma4Block:
    return Gemma4Block(
        attention=_attention(layer.self_attn, config, turn, shares),
        attention_norm=_norm(layer.input_layernorm),
        attention_post_norm=_norm(layer.post_attention_layernorm),
        mlp=gated_mlp(layer.mlp, config.hidden_activation),
        mlp_norm=_norm(layer.pre_feedforward_layernorm),
        mlp_post_norm=_norm(layer.post_feedforward_layernorm),
        scale=layer.layer_scalar,
        extra=_extra(layer) if layer.hidden_size_per_layer_input else None,
        shares=shares,
    )


def _attention(module, config, turn: Rotary, shares: int | None) -> Gemma4Attention:
    own = shares is None
    return Gemma4Attention(
        query=linear(module.q_proj),
        key=linear(module.k_proj) if own else None,
        value=linear(module.v_proj) if own and module.v_proj is not None else None,
        output=linear(module.o_proj),
        heads=config.num_attention_heads,
        key_value_heads=config.num_key_value_heads,
        scale=module.scaling,
        rotary=turn,
        query_norm=_norm(module.q_norm),
        key_norm=_norm(module.k_norm) if own else None,
        value_norm=RMSNorm(torch.ones_like(module.k_norm.weight).float(), module.v_norm.eps) if own else None,
        window=module.sliding_window,
    )


def _extra(layer) -> PerLayerInput:
    return PerLayerInput(
        gate=linear(layer.per_layer_input_gate),
        projection=linear(layer.per_layer_projection),
        norm=_norm(layer.post_per_layer_input_norm),
        activation=layer.act_fn,
    )
