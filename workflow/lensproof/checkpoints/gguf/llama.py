"""Llama, SmolLM2 and others that llama.cpp calls ``llama``."""

from __future__ import annotations

import numpy as np

from lensproof.checkpoints.gguf.layout import NAMES, Config, Layout
from lensproof.checkpoints.gguf.metadata import Gguf


def config(file: Gguf) -> Config:
    """The architecture's part of ``config.json``."""
    heads = file.count("attention.head_count")
    head = file.count("embedding_length") // heads
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "num_key_value_heads": file.count("attention.head_count_kv", heads),
        "head_dim": file.count("attention.key_length", file.count("rope.dimension_count", head)),
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "rope_theta": file.number("rope.freq_base", 10000.0),
    }


def restore(name: str, values: np.ndarray, config: Config) -> np.ndarray:
    """Undo llama.cpp's reordering: it keeps the two halves of each rotary pair side by side."""
    if ".attn_q." in name:
        return _halves_apart(values, config["num_attention_heads"])
    if ".attn_k." in name:
        return _halves_apart(values, config["num_key_value_heads"])
    return values


def _halves_apart(weight: np.ndarray, heads: int) -> np.ndarray:
    """[heads * (pair, half), width] -> [heads * (half, pair), width]."""
    rows, width = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, width).swapaxes(1, 2).reshape(rows, width)


LLAMA = Layout(config=config, names={**NAMES, "ffn_norm": "post_attention_layernorm"}, restore=restore)
