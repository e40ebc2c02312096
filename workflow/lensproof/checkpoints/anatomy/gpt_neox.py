"""GPT-NeoX: layer norms, attention and a plain MLP side by side or one after the other, partial rotation (Pythia)."""

from __future__ import annotations

from torch import nn
from transformers import PreTrainedModel

from lensproof.checkpoints.anatomy.decoder import Decoder, ParallelBlock, SoftmaxBlock
from lensproof.checkpoints.anatomy.modules import layer_norm, linear, plain_mlp, rotary
from lensproof.checkpoints.anatomy.parts import Attention, Linear, Rotary

ARCHITECTURE = "GPTNeoXForCausalLM"


def take_apart(model: PreTrainedModel) -> Decoder:
    """Where a GPT-NeoX model keeps its parts."""
    inner, config = model.gpt_neox, model.config
    turn = rotary(inner)
    return Decoder(
        architecture=ARCHITECTURE,
        embed=inner.embed_in,
        blocks=[_block(layer, config, turn) for layer in inner.layers],
        final_norm=layer_norm(inner.final_layer_norm),
        unembedding=model.lm_head.weight,
        tied=config.tie_word_embeddings,
        model=model,
    )


def _block(layer, config, turn: Rotary) -> SoftmaxBlock:
    attention, mlp = layer.attention, layer.mlp
    query, key, value = _interleaved(attention.query_key_value, config.num_attention_heads)
    kind = ParallelBlock if layer.use_parallel_residual else SoftmaxBlock
    return kind(
        attention_norm=layer_norm(layer.input_layernorm),
        attention=Attention(
            query=query,
            key=key,
            value=value,
            output=linear(attention.dense),
            heads=config.num_attention_heads,
            key_value_heads=config.num_attention_heads,
            scale=attention.scaling,
            rotary=turn,
        ),
        mlp_norm=layer_norm(layer.post_attention_layernorm),
        mlp=plain_mlp(mlp.dense_h_to_4h, mlp.dense_4h_to_h, config.hidden_act),
    )


def _interleaved(module: nn.Linear, heads: int) -> list[Linear]:
    """Query, key and value projections of a fused one that keeps the three of each head together."""
    weights = module.weight.unflatten(0, (heads, 3, -1))
    biases = None if module.bias is None else module.bias.unflatten(0, (heads, 3, -1))
    return [
        Linear(weights[:, part].flatten(0, 1), None if biases is None else biases[:, part].flatten())
        for part in range(3)
    ]
