"""Gemma 3: norms before and after attention and MLP, normed queries and keys, windowed layers, scaled embedding."""

from __future__ import annotations

from functools import partial

from transformers import PreTrainedModel
from transformers.activations import ACT2FN

from lensproof.checkpoints.anatomy.decoder import Decoder, SoftmaxBlock
from lensproof.checkpoints.anatomy.parts import Attention, GatedMLP, Linear, RMSNorm, Rotary

ARCHITECTURE = "Gemma3ForCausalLM"


def take_apart(model: PreTrainedModel) -> Decoder:
    """Where a Gemma 3 text model keeps its parts."""
    inner, config = model.model, model.config
    rotary = {kind: Rotary.of(partial(_table, inner, kind)) for kind in set(config.layer_types)}
    return Decoder(
        architecture=ARCHITECTURE,
        embed=inner.embed_tokens,
        blocks=[_block(layer, config, rotary[layer.self_attn.layer_type]) for layer in inner.layers],
        final_norm=_norm(inner.norm),
        unembedding=model.lm_head.weight,
        softcap=config.final_logit_softcapping,
        tied=config.tie_word_embeddings,
        model=model,
    )


def _table(inner, kind: str, positions):
    return inner.rotary_emb(inner.embed_tokens.weight, positions[None], kind)


def _norm(module) -> RMSNorm:
    return RMSNorm(1.0 + module.weight.float(), module.eps)


def _block(layer, config, rotary: Rotary) -> SoftmaxBlock:
    attention, mlp = layer.self_attn, layer.mlp
    if attention.attn_logit_softcapping is not None:
        raise ValueError("Gemma 3 with capped attention scores is not supported")
    return SoftmaxBlock(
        attention_norm=_norm(layer.input_layernorm),
        attention=Attention(
            query=Linear(attention.q_proj.weight, attention.q_proj.bias),
            key=Linear(attention.k_proj.weight, attention.k_proj.bias),
            value=Linear(attention.v_proj.weight, attention.v_proj.bias),
            output=Linear(attention.o_proj.weight, attention.o_proj.bias),
            heads=config.num_attention_heads,
            key_value_heads=config.num_key_value_heads,
            scale=attention.scaling,
            rotary=rotary,
            query_norm=_norm(attention.q_norm),
            key_norm=_norm(attention.k_norm),
            window=attention.sliding_window,
        ),
        attention_post_norm=_norm(layer.post_attention_layernorm),
        mlp_norm=_norm(layer.pre_feedforward_layernorm),
        mlp=GatedMLP(
            Linear(mlp.gate_proj.weight),
            Linear(mlp.up_proj.weight),
            Linear(mlp.down_proj.weight),
            ACT2FN[config.hidden_activation],
        ),
        mlp_post_norm=_norm(layer.post_feedforward_layernorm),
    )
