"""Gemma 3, text only."""

from __future__ import annotations

import numpy as np

from lensproof.checkpoints.gguf.layout import NAMES, Config, Layout
from lensproof.checkpoints.gguf.metadata import Gguf

# What llama.cpp keeps in its code and not in the file.
_PERIOD = 6  # every sixth block attends to all positions
_LOCAL_THETA = 10000.0
_BLOCKS_27B = 62


def config(file: Gguf) -> Config:
    """The architecture's part of ``config.json``."""
    blocks, head = file.count("block_count"), file.count("attention.key_length", 256)
    period = file.count("attention.sliding_window_pattern", _PERIOD)
    # The 27B model alone scales queries by its width per head.
    scale = file.count("embedding_length") // file.count("attention.head_count") if blocks == _BLOCKS_27B else head
    return {
        "architectures": ["Gemma3ForCausalLM"],
        "model_type": "gemma3_text",
        "num_key_value_heads": file.count("attention.head_count_kv"),
        "head_dim": head,
        "query_pre_attn_scalar": scale,
        "hidden_activation": "gelu_pytorch_tanh",
        "attention_bias": False,
        "attn_logit_softcapping": None,
        "final_logit_softcapping": None,
        "sliding_window": file.count("attention.sliding_window"),
        "layer_types": [
            "full_attention" if (block + 1) % period == 0 else "sliding_attention" for block in range(blocks)
        ],
        "rope_theta": file.number("rope.freq_base", 1000000.0),
        "rope_local_base_freq": file.number("rope.freq_base_swa", _LOCAL_THETA),
    }


def restore(name: str, values: np.ndarray, config: Config) -> np.ndarray:
    """Undo llama.cpp's change: it keeps the gain of a norm, 1 + w, where transformers keeps w."""
    return values - np.float32(1) if name.endswith("norm.weight") else values


GEMMA3 = Layout(
    config=config,
    names={
        **NAMES,
        "attn_q_norm": "self_attn.q_norm",
        "attn_k_norm": "self_attn.k_norm",
        "post_attention_norm": "post_attention_layernorm",
        "ffn_norm": "pre_feedforward_layernorm",
        "post_ffw_norm": "post_feedforward_layernorm",
    },
    restore=restore,
)
