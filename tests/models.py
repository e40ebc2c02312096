"""Models that tests use: tiny random ones of each architecture, and toys whose Jacobians are known by hand."""

from __future__ import annotations

import json
import tempfile
from functools import cache
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from lensproof.checkpoints.anatomy import take_apart
from lensproof.checkpoints.anatomy.decoder import AutogradBlock, Decoder
from lensproof.config import RandomSource
from lensproof.specimens.tiny import draw, random_model

ARCHITECTURES = (
    "llama",
    "gemma3_text",
    "smollm3",
    "olmo3",
    "phi3",
    "gpt_neox",
    "gpt_neox/sequential",
    "gemma4_text",
    "gemma4_text/large",
    "qwen3_5_text",
)

VARIANTS: dict[str, dict] = {
    # As the large ones have it: keys are values on the full layers, all blocks have their own, and no third write.
    "gemma4_text/large": {
        "attention_k_eq_v": True,
        "num_global_key_value_heads": 1,
        "hidden_size_per_layer_input": 0,
        "num_kv_shared_layers": 0,
        "use_double_wide_mlp": False,
    },
    "gpt_neox/sequential": {"use_parallel_residual": False},
}
"""Settings that an architecture is tested with besides its own, under its name and theirs."""

# The keys of config.json as checkpoints are released with them, sizes scaled down.
RELEASED = {
    "smollm3-3b": {
        "architectures": ["SmolLM3ForCausalLM"], "model_type": "smollm3", "attention_bias": False,
        "attention_dropout": 0.0, "bos_token_id": 0, "eos_token_id": 12, "hidden_act": "silu", "hidden_size": 64,
        "initializer_range": 0.02, "intermediate_size": 160, "layer_types": ["full_attention"] * 4,
        "max_position_embeddings": 65536, "max_window_layers": 28, "mlp_bias": False, "no_rope_layer_interval": 4,
        "no_rope_layers": [1, 1, 1, 0], "num_attention_heads": 4, "num_hidden_layers": 4, "num_key_value_heads": 1,
        "pad_token_id": 4, "pretraining_tp": 2, "rms_norm_eps": 1e-06, "rope_scaling": None, "rope_theta": 5000000.0,
        "sliding_window": None, "torch_dtype": "bfloat16", "use_sliding_window": False, "vocab_size": 300,
    },
    "olmo3-7b": {
        "architectures": ["Olmo3ForCausalLM"], "model_type": "olmo3", "attention_bias": False, "attention_dropout": 0.0,
        "eos_token_id": 7, "hidden_act": "silu", "hidden_size": 64, "initializer_range": 0.02,
        "intermediate_size": 160, "layer_types": ["sliding_attention"] * 3 + ["full_attention"],
        "max_position_embeddings": 65536, "num_attention_heads": 4, "num_hidden_layers": 4, "num_key_value_heads": 4,
        "pad_token_id": 8, "rms_norm_eps": 1e-06, "rope_theta": 500000, "sliding_window": 16,
        "rope_scaling": {
            "attention_factor": 1.2079441541679836, "beta_fast": 32.0, "beta_slow": 1.0, "factor": 8.0,
            "original_max_position_embeddings": 8192, "rope_type": "yarn",
        },
        "tie_word_embeddings": False, "torch_dtype": "float32", "vocab_size": 300,
    },
    "phi-4": {
        "architectures": ["Phi3ForCausalLM"], "model_type": "phi3", "attention_bias": False, "attention_dropout": 0.0,
        "bos_token_id": 1, "embd_pdrop": 0.0, "eos_token_id": 1, "hidden_act": "silu", "hidden_size": 64,
        "initializer_range": 0.02, "intermediate_size": 160, "max_position_embeddings": 16384,
        "num_attention_heads": 4, "num_hidden_layers": 4, "num_key_value_heads": 1,
        "original_max_position_embeddings": 16384, "pad_token_id": 2, "partial_rotary_factor": 1.0, "resid_pdrop": 0.0,
        "rms_norm_eps": 1e-05, "rope_scaling": None, "rope_theta": 250000, "sliding_window": None,
        "tie_word_embeddings": False, "torch_dtype": "bfloat16", "vocab_size": 300,
    },
    "pythia-160m": {
        "architectures": ["GPTNeoXForCausalLM"], "model_type": "gpt_neox", "bos_token_id": 0, "eos_token_id": 0,
        "hidden_act": "gelu", "hidden_size": 64, "initializer_range": 0.02, "intermediate_size": 256,
        "layer_norm_eps": 1e-05, "max_position_embeddings": 2048, "num_attention_heads": 4, "num_hidden_layers": 4,
        "rotary_emb_base": 10000, "rotary_pct": 0.25, "tie_word_embeddings": False, "torch_dtype": "float16",
        "use_parallel_residual": True, "vocab_size": 300,
    },
    "japanese-gpt-neox-3.6b": {
        "architectures": ["GPTNeoXForCausalLM"], "model_type": "gpt_neox", "bos_token_id": 2, "eos_token_id": 3,
        "hidden_act": "gelu", "hidden_size": 64, "initializer_range": 0.02, "intermediate_size": 256,
        "layer_norm_eps": 1e-05, "max_position_embeddings": 2048, "num_attention_heads": 4, "num_hidden_layers": 4,
        "rotary_emb_base": 10000, "rotary_pct": 1.0, "tie_word_embeddings": False, "torch_dtype": "float16",
        "use_parallel_residual": False, "vocab_size": 300,
    },
}  # fmt: skip


@cache
def tiny(architecture: str, seed: int = 0, precision: torch.dtype = torch.float32, **sizes) -> Decoder:
    """A tiny random model; its windowed layers see 16 positions."""
    spec = RandomSource(kind="random", architecture=architecture.split("/")[0], seed=seed, **sizes)
    return take_apart(random_model(spec, **VARIANTS.get(architecture, {})).to(precision))


@cache
def released(name: str) -> Decoder:
    """A small random model, configured with the keys of a released checkpoint."""
    return configured(RELEASED[name])


def configured(keys: dict) -> Decoder:
    """A random model of these keys of ``config.json``, read as those of a checkpoint are."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(keys))
        config = AutoConfig.from_pretrained(folder)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    draw(model, 0)
    return take_apart(model)


def layers(decoder: Decoder) -> torch.nn.ModuleList:
    """transformers' own blocks."""
    return decoder.model.get_decoder().layers


def last_states(decoder: Decoder, ids: torch.Tensor, layer: int, states: torch.Tensor) -> torch.Tensor:
    """The last block's output ``[B, T, d]`` in transformers' own run on ``ids``, with the states of one layer
    replaced by ``states``."""
    if layer == decoder.depth:
        return states
    blocks, seen = layers(decoder), []
    replace = blocks[layer].register_forward_pre_hook(lambda module, given: (states, *given[1:]))
    capture = blocks[-1].register_forward_hook(lambda module, given, output: seen.append(output))
    decoder.model(ids)
    replace.remove()
    capture.remove()
    return seen[0]


def memory(decoder: Decoder, states: torch.Tensor, index: int, length: int = 0):
    """What block ``index`` is given beside states at positions ``length`` .. T-1 of sequences with the residual states
    ``[L + 1, B, T, d]``: what it keeps of those before, or all that the block keeps whose keys and values it uses."""
    block = decoder.blocks[index]
    if block.shares is not None:
        return decoder.blocks[block.shares].remember(states[block.shares])
    return block.remember(states[index][:, :length]) if length else None


def tokens(rows: int, length: int, vocabulary: int = 300, seed: int = 0) -> torch.Tensor:
    """Random ids ``[rows, length]``."""
    return torch.randint(0, vocabulary, (rows, length), generator=torch.Generator().manual_seed(seed))


def rounding(decoder: Decoder) -> float:
    """Up to where our run and transformers' own agree, relative to the norm: some sum in another order there, and
    small random models let the difference grow."""
    return {"Gemma4ForCausalLM": 1e-4, "Qwen3_5ForCausalLM": 1e-3}.get(decoder.architecture, 1e-5)


def assert_same(ours: torch.Tensor, theirs: torch.Tensor, relative: float = 1e-5) -> None:
    """Equal up to ``relative`` of the norm: what floating point leaves of an identity."""
    assert ours.shape == theirs.shape
    assert (ours - theirs).norm() <= relative * theirs.norm()


class SumBlock(AutogradBlock):
    """h'_t = h_t + A times the sum of h_s over s <= t."""

    def __init__(self, matrix: torch.Tensor):
        self.matrix = matrix

    def attention_input(self, x):
        return x

    def remember(self, x):
        return x.sum(1, keepdim=True)

    def run(self, x, memory=None):
        before = 0 if memory is None else memory
        return x + (before + x.cumsum(1)) @ self.matrix.T


class LinearBlock(AutogradBlock):
    """h'_t = M h_t: no attention, no norm."""

    def __init__(self, matrix: torch.Tensor):
        self.matrix = matrix

    def attention_input(self, x):
        return x

    def own(self, y, at):
        return None

    def attend(self, y, at, memory, own):
        return torch.zeros_like(y)

    def finish(self, x, a, at=None):
        return x @ self.matrix.T

    def remember(self, x):
        return None

    def run(self, x, memory=None):
        return x @ self.matrix.T


def toy(blocks: list, width: int) -> Decoder:
    """A decoder of the given blocks; tokens are embedded as their own number times a vector of ones."""
    return Decoder(
        architecture="toy",
        embed=lambda ids: ids[..., None].double().expand(*ids.shape, width).contiguous(),
        blocks=blocks,
        final_norm=lambda x: x,
        unembedding=torch.eye(width, dtype=torch.float64),
    )
