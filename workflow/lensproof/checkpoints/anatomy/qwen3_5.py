"""Qwen3.5 and 3.6: gated delta-net blocks, and full attention with an output gate in every fourth."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.activations import ACT2FN

from lensproof.checkpoints.anatomy.decoder import AutogradBlock, Decoder, Writes
from lensproof.checkpoints.anatomy.delta import GatedDeltaNet
from lensproof.checkpoints.anatomy.modules import gated_mlp, linear, rms_norm, rotary
from lensproof.checkpoints.anatomy.parts import Attention, GatedMLP, Memory, RMSNorm, Rotary

ARCHITECTURE = "Qwen3_5ForCausalLM"


@dataclass(frozen=True)
class GatedAttention(Attention):
    """Attention whose head outputs are multiplied by a sigmoid of the input; ``query`` gives each head's query and
    gate, one after the other."""

    def queries(self, y: Tensor, positions: Tensor) -> Tensor:
        """Normed and rotated queries ``[B, T, H, h]``."""
        return self._place(self._query_gate(y)[0], self.query_norm, positions)

    def __call__(self, y: Tensor, memory: Memory | None = None) -> Tensor:
        """Attention output ``[B, T, d]`` of ``y`` ``[B, T, d]``, the positions after those in ``memory``."""
        start = memory.key.shape[1] if memory else 0
        positions = torch.arange(start, start + y.shape[1], device=y.device)
        query, gate = self._query_gate(y)
        key, value = self.keys_values(y, positions)
        if memory:
            key, value = torch.cat((memory.key, key), 1), torch.cat((memory.value, value), 1)
        pattern = self.pattern(self._place(query, self.query_norm, positions), key)
        return self.merge(self.gather(pattern, value) * gate.sigmoid())

    def attend(self, y: Tensor, at: Tensor, memory: Memory, own: Memory) -> Tensor:
        """Attention outputs ``[B, R, d]`` of rows that know nothing of one another, as in :class:`Attention`."""
        query, gate = self._query_gate(y)
        pattern = self.pattern_at(self._place(query, self.query_norm, at), at, memory, own)
        return self.merge(self._gather_at(pattern, at, memory, own) * gate.sigmoid())

    def _query_gate(self, y: Tensor) -> tuple[Tensor, Tensor]:
        return self._split(self.query(y), self.heads).chunk(2, -1)


@dataclass(frozen=True)
class Qwen3_5Block(AutogradBlock):
    """Softmax or linear attention, then a gated MLP, each with a norm before it."""

    attention: GatedAttention | GatedDeltaNet
    attention_norm: RMSNorm
    mlp: GatedMLP
    mlp_norm: RMSNorm

    def attention_input(self, x: Tensor) -> Tensor:
        """What the attention module receives for the states ``x`` ``[..., d]``."""
        return self.attention_norm(x)

    def write(self, x: Tensor, a: Tensor, at: Tensor | None = None) -> Writes:
        """Both writes and the next state, given states ``x`` and attention outputs ``a``, each ``[B, R, d]``."""
        middle = x + a
        mlp = self.mlp(self.mlp_norm(middle))
        return Writes(a, mlp, middle + mlp)


def take_apart(model: PreTrainedModel) -> Decoder:
    """Where a Qwen3.5 text model keeps its parts."""
    inner, config = model.model, model.config
    turn = rotary(inner)
    return Decoder(
        architecture=ARCHITECTURE,
        embed=inner.embed_tokens,
        blocks=[_block(layer, config, turn) for layer in inner.layers],
        final_norm=_norm(inner.norm),
        unembedding=model.lm_head.weight,
        tied=config.tie_word_embeddings,
        model=model,
    )


def _norm(module) -> RMSNorm:
    return RMSNorm(1.0 + module.weight.float(), module.eps)


def _block(layer, config, turn: Rotary) -> Qwen3_5Block:
    recurrent = layer.block_type == "linear_attention"
    return Qwen3_5Block(
        attention=_delta_net(layer.linear_attn) if recurrent else _attention(layer.self_attn, config, turn),
        attention_norm=_norm(layer.input_layernorm),
        mlp=gated_mlp(layer.mlp, config.hidden_act),
        mlp_norm=_norm(layer.post_attention_layernorm),
    )


def _attention(module, config, turn: Rotary) -> GatedAttention:
    return GatedAttention(
        query=linear(module.q_proj),
        key=linear(module.k_proj),
        value=linear(module.v_proj),
        output=linear(module.o_proj),
        heads=config.num_attention_heads,
        key_value_heads=config.num_key_value_heads,
        scale=module.scaling,
        rotary=turn,
        query_norm=_norm(module.q_norm),
        key_norm=_norm(module.k_norm),
    )


def _delta_net(module) -> GatedDeltaNet:
    return GatedDeltaNet(
        mixed=linear(module.in_proj_qkv),
        gate=linear(module.in_proj_z),
        strength=linear(module.in_proj_b),
        decay=linear(module.in_proj_a),
        output=linear(module.out_proj),
        taps=module.conv1d.weight.squeeze(1),
        log_rate=module.A_log,
        offset=module.dt_bias,
        norm=rms_norm(module.norm),
        key_heads=module.num_k_heads,
        heads=module.num_v_heads,
        key_width=module.head_k_dim,
        activation=ACT2FN[module.activation],
    )
