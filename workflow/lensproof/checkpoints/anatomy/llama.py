"""Llama: a norm before attention and one before the MLP (SmolLM2, Llama 3)."""

from __future__ import annotations

from transformers import PreTrainedModel

from lensproof.checkpoints.anatomy.decoder import Decoder, SoftmaxBlock
from lensproof.checkpoints.anatomy.modules import gated_mlp, linear, rms_norm, rotary
from lensproof.checkpoints.anatomy.parts import Attention, Rotary

ARCHITECTURE = "LlamaForCausalLM"


def take_apart(model: PreTrainedModel) -> Decoder:
    """Where a Llama model keeps its parts."""
    inner, config = model.model, model.config
    turn = rotary(inner)
    return Decoder(
        architecture=ARCHITECTURE,
        embed=inner.embed_tokens,
        blocks=[_block(layer, config, turn) for layer in inner.layers],
        final_norm=rms_norm(inner.norm),
        unembedding=model.lm_head.weight,
        tied=config.tie_word_embeddings,
        model=model,
    )


def _block(layer, config, turn: Rotary) -> SoftmaxBlock:
    attention = layer.self_attn
    return SoftmaxBlock(
        attention_norm=rms_norm(layer.input_layernorm),
        attention=Attention(
            query=linear(attention.q_proj),
            key=linear(attention.k_proj),
            value=linear(attention.v_proj),
            output=linear(attention.o_proj),
            heads=config.num_attention_heads,
            key_value_heads=config.num_key_value_heads,
            scale=attention.scaling,
            rotary=turn,
        ),
        mlp_norm=rms_norm(layer.post_attention_layernorm),
        mlp=gated_mlp(layer.mlp, config.hidden_act),
    )
