"""OLMo 3: norms on the writes only, one norm over all queries and one over all keys, windowed layers.

Rotary scaling (YaRN) is that of the full-attention layers alone.
"""

from __future__ import annotations

from transformers import PreTrainedModel

from lensproof.checkpoints.anatomy.decoder import Decoder, SoftmaxBlock
from lensproof.checkpoints.anatomy.modules import gated_mlp, linear, rms_norm, rotary
from lensproof.checkpoints.anatomy.parts import Attention, Rotary

ARCHITECTURE = "Olmo3ForCausalLM"


def take_apart(model: PreTrainedModel) -> Decoder:
    """Where an OLMo 3 model keeps its parts."""
    inner, config = model.model, model.config
    turns = {kind: rotary(inner, kind) for kind in set(config.layer_types)}
    return Decoder(
        architecture=ARCHITECTURE,
        embed=inner.embed_tokens,
        blocks=[_block(layer, config, turns[layer.self_attn.attention_type]) for layer in inner.layers],
        final_norm=rms_norm(inner.norm),
        unembedding=model.lm_head.weight,
        tied=config.tie_word_embeddings,
        model=model,
    )


def _block(layer, config, turn: Rotary) -> SoftmaxBlock:
    attention = layer.self_attn
    return SoftmaxBlock(
        attention=Attention(
            query=linear(attention.q_proj),
            key=linear(attention.k_proj),
            value=linear(attention.v_proj),
            output=linear(attention.o_proj),
            heads=config.num_attention_heads,
            key_value_heads=config.num_key_value_heads,
            scale=attention.scaling,
            rotary=turn,
            query_norm=rms_norm(attention.q_norm),
            key_norm=rms_norm(attention.k_norm),
            joint_norms=True,
            window=attention.sliding_window,
        ),
        attention_post_norm=rms_norm(layer.post_attention_layernorm),
        mlp=gated_mlp(layer.mlp, config.hidden_act),
        mlp_post_norm=rms_norm(layer.post_feedforward_layernorm),
    )
