"""Llama: a norm before attention and one before the MLP (SmolLM2, Llama 3)."""

from __future__ import annotations

from transformers import PreTrainedModel
from transformers.activations import ACT2FN

from lensproof.checkpoints.anatomy.decoder import Decoder, SoftmaxBlock
from lensproof.checkpoints.anatomy.parts import Attention, GatedMLP, Linear, RMSNorm, Rotary

ARCHITECTURE = "LlamaForCausalLM"


def take_apart(model: PreTrainedModel) -> Decoder:
    """Where a Llama model keeps its parts."""
    inner, config = model.model, model.config
    rotary = Rotary.of(lambda positions: inner.rotary_emb(inner.embed_tokens.weight, positions[None]))
    return Decoder(
        architecture=ARCHITECTURE,
        embed=inner.embed_tokens,
        blocks=[_block(layer, config, rotary) for layer in inner.layers],
        final_norm=_norm(inner.norm),
        unembedding=model.lm_head.weight,
        tied=config.tie_word_embeddings,
        model=model,
    )


def _norm(module) -> RMSNorm:
    return RMSNorm(module.weight.float(), module.variance_epsilon)


def _linear(module) -> Linear:
    return Linear(module.weight, module.bias)


def _block(layer, config, rotary: Rotary) -> SoftmaxBlock:
    attention, mlp = layer.self_attn, layer.mlp
    return SoftmaxBlock(
        attention_norm=_norm(layer.input_layernorm),
        attention=Attention(
            query=_linear(attention.q_proj),
            key=_linear(attention.k_proj),
            value=_linear(attention.v_proj),
            output=_linear(attention.o_proj),
            heads=config.num_attention_heads,
            key_value_heads=config.num_key_value_heads,
            scale=attention.scaling,
            rotary=rotary,
        ),
        mlp_norm=_norm(layer.post_attention_layernorm),
        mlp=GatedMLP(_linear(mlp.gate_proj), _linear(mlp.up_proj), _linear(mlp.down_proj), ACT2FN[config.hidden_act]),
    )
