"""Gemma 3: norms before and after attention and MLP, normed queries and keys, windowed layers, scaled embedding."""

from __future__ import annotations

from transformers import PreTrainedModel

from lensproof.checkpoints.anatomy.decoder import Decoder, SoftmaxBlock
from lensproof.checkpoints.anatomy.modules import gated_mlp, linear, rotary
from lensproof.checkpoints.anatomy.parts import Attention, RMSNorm, Rotary
from lensproof.errors import LensproofError

ARCHITECTURE = "Gemma3ForCausalLM"


def take_apart(model: PreTrainedModel) -> Decoder:
    """Where a Gemma 3 text model keeps its parts."""
    inner, config = model.model, model.config
    turns = {kind: rotary(inner, kind) for kind in set(config.layer_types)}
    return Decoder(
        architecture=ARCHITECTURE,
        embed=inner.embed_tokens,
        blocks=[_block(layer, config, turns[layer.self_attn.layer_type]) for layer in inner.layers],
        final_norm=_norm(inner.norm),
        unembedding=model.lm_head.weight,
        softcap=config.final_logit_softcapping,
        tied=config.tie_word_embeddings,
        model=model,
    )


def _norm(module) -> RMSNorm:
    return RMSNorm(1.0 + module.weight.float(), module.eps)


def _block(layer, config, turn: Rotary) -> SoftmaxBlock:
    attention = layer.self_attn
    if attention.attn_logit_softcapping is not None:
        raise LensproofError("Gemma 3 with capped attention scores is not supported")
    return SoftmaxBlock(
        attention_norm=_norm(layer.input_layernorm),
        attention=Attention(
            query=linear(attention.q_proj),
            key=linear(attention.k_proj),
            value=linear(attention.v_proj),
            output=linear(attention.o_proj),
            heads=config.num_attention_heads,
            key_value_heads=config.num_key_value_heads,
            scale=attention.scaling,
            rotary=turn,
            query_norm=_norm(attention.q_norm),
            key_norm=_norm(attention.k_norm),
            window=attention.sliding_window,
        ),
        attention_post_norm=_norm(layer.post_attention_layernorm),
        mlp_norm=_norm(layer.pre_feedforward_layernorm),
        mlp=gated_mlp(layer.mlp, config.hidden_activation),
        mlp_post_norm=_norm(layer.post_feedforward_layernorm),
    )
