"""Phi-3 and Phi-4: as Llama, with fused projections, partial rotation, and a window on every layer where configured."""

from __future__ import annotations

from transformers import PreTrainedModel
from transformers.activations import ACT2FN

from lensproof.checkpoints.anatomy.decoder import Decoder, SoftmaxBlock
from lensproof.checkpoints.anatomy.modules import linear, rms_norm, rotary
from lensproof.checkpoints.anatomy.parts import Attention, GatedMLP, Linear, Rotary

ARCHITECTURE = "Phi3ForCausalLM"


def take_apart(model: PreTrainedModel) -> Decoder:
    """Where a Phi-3 or Phi-4 model keeps its parts."""
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
    attention, mlp = layer.self_attn, layer.mlp
    kept = config.num_key_value_heads * attention.head_dim
    query, key, value = attention.qkv_proj.weight.split([config.num_attention_heads * attention.head_dim, kept, kept])
    gate, up = mlp.gate_up_proj.weight.chunk(2)
    return SoftmaxBlock(
        attention_norm=rms_norm(layer.input_layernorm),
        attention=Attention(
            query=Linear(query),
            key=Linear(key),
            value=Linear(value),
            output=linear(attention.o_proj),
            heads=config.num_attention_heads,
            key_value_heads=config.num_key_value_heads,
            scale=attention.scaling,
            rotary=turn,
            window=config.sliding_window,
        ),
        mlp_norm=rms_norm(layer.post_attention_layernorm),
        mlp=GatedMLP(Linear(gate), Linear(up), linear(mlp.down_proj), ACT2FN[config.hidden_act]),
    )
