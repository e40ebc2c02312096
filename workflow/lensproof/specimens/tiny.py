"""Tiny models with random weights, saved as ordinary checkpoints: for smoke runs and tests.

Norm gains and biases are drawn away from 1 and 0, so that code that forgets one of them gives wrong numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

from lensproof.config import RandomSource
from lensproof.errors import LensproofError

BOS, EOS = "<bos>", "<eos>"
# Architectures that put a BOS token in front of every text.
WITH_BOS = {"gemma3_text", "gemma4_text"}
TEXT = (
    "The boat that left the harbour this morning was carrying bread, lamps and letters for the people on the island.",
    "After the rain the children ran down to the river, where the water had covered the stones and the lower path.",
    "She asked the baker whether there was anything left, and he gave her the two loaves from the back of the shop.",
)


def _windows(spec: RandomSource) -> dict[str, Any]:
    """Windowed and full layers in turn."""
    kinds = ["full_attention" if index % 2 else "sliding_attention" for index in range(spec.layers)]
    return {"sliding_window": spec.window, "layer_types": kinds}


def _smollm3(spec: RandomSource) -> dict[str, Any]:
    """Layers with and without positions, of each a windowed and a full one."""
    rotary = [int(index % 4 in (0, 3)) for index in range(spec.layers)]
    return {**_windows(spec), "use_sliding_window": True, "no_rope_layers": rotary}


def _olmo3(spec: RandomSource) -> dict[str, Any]:
    """Rotary scaling on the full layers; its factor changes the scores."""
    yarn = {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 64}
    return {**_windows(spec), "rope_parameters": {"full_attention": yarn, "sliding_attention": None}}


def _gemma4(spec: RandomSource) -> dict[str, Any]:
    """As the small models have it: a third write, and a second half of blocks that use the first half's keys and
    values and have a wider MLP. Heads of the full layers have a width of their own, half of it rotated."""
    rotary = {"rope_type": "proportional", "rope_theta": 1e4, "partial_rotary_factor": 0.5}
    return {
        **_windows(spec),
        "global_head_dim": max(4, spec.width // spec.heads // 2),
        "rope_parameters": {"full_attention": rotary, "sliding_attention": {"rope_type": "default", "rope_theta": 1e3}},
        "final_logit_softcapping": 30.0,
        "hidden_size_per_layer_input": spec.width // 4,
        "vocab_size_per_layer_input": spec.vocabulary,
        "num_kv_shared_layers": spec.layers // 2,
        "use_double_wide_mlp": True,
    }


def _qwen3_5(spec: RandomSource) -> dict[str, Any]:
    """Linear attention with more value than key heads, of other widths; a quarter of the layers have softmax."""
    return {
        "linear_num_key_heads": max(1, spec.heads // 2),
        "linear_num_value_heads": spec.heads,
        "linear_key_head_dim": spec.width // spec.heads,
        "linear_value_head_dim": 2 * spec.width // spec.heads,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5},
    }


OWN: dict[str, Callable[[RandomSource], dict[str, Any]]] = {
    "gemma3_text": _windows,
    "gemma4_text": _gemma4,
    "gpt_neox": lambda spec: {"rotary_pct": 0.5},
    "olmo3": _olmo3,
    "phi3": lambda spec: {"sliding_window": spec.window, "partial_rotary_factor": 0.5},
    "qwen3_5_text": _qwen3_5,
    "smollm3": _smollm3,
}
"""What an architecture's configuration needs besides the sizes that all have."""


def build(spec: RandomSource, out: str | Path) -> None:
    """Write a random model of ``spec`` and a byte-level tokenizer to the folder ``out``.

    Raises:
        LensproofError: the library has no such architecture, or the sizes do not go together.
    """
    if spec.width % spec.heads:
        raise LensproofError(f"a width of {spec.width} does not divide among {spec.heads} heads")
    model = random_model(spec)
    model.save_pretrained(out)
    random_tokenizer(spec).save_pretrained(out)


def random_model(spec: RandomSource, **settings: Any) -> torch.nn.Module:
    """The model of ``spec`` in evaluation mode; the same seed gives the same weights.

    Args:
        settings: of the configuration, in place of what stands in :data:`OWN`.
    """
    own = OWN.get(spec.architecture)
    try:
        config = AutoConfig.for_model(
            spec.architecture,
            vocab_size=spec.vocabulary,
            hidden_size=spec.width,
            intermediate_size=3 * spec.width,
            num_hidden_layers=spec.layers,
            num_attention_heads=spec.heads,
            num_key_value_heads=max(1, spec.heads // 2),
            head_dim=spec.width // spec.heads,
            max_position_embeddings=512,
            tie_word_embeddings=spec.tied,
            bos_token_id=0,
            eos_token_id=1,
            pad_token_id=None,
            **((own(spec) if own else {}) | settings),
        )
        model = AutoModelForCausalLM.from_config(config).eval()
    except ValueError as error:
        raise LensproofError(f"no random model of architecture {spec.architecture!r}: {error}") from error
    draw(model, spec.seed)
    return model


def draw(model: torch.nn.Module, seed: int) -> None:
    """Random weights in place of a fresh model's; gains, biases and scalars end up around the 1 or 0 that they had.

    Rates of decay are random in a fresh model, and mostly so high that nothing is remembered; these are low.
    """
    generator = torch.Generator().manual_seed(seed)
    parameters = dict(model.named_parameters(remove_duplicate=False))
    buffers = {name: part for name, part in model.state_dict().items() if name not in parameters}
    with torch.no_grad():
        for name, part in [*model.named_parameters(), *buffers.items()]:
            noise = torch.randn(part.shape, generator=generator)
            if name.endswith("A_log"):
                part.copy_(noise - 2)
            elif part.ndim == 1:
                part.add_((0.1 if name in buffers else 0.3) * noise)
            else:
                part.copy_(1.5 * noise / part.shape[-1] ** 0.5)


def random_tokenizer(spec: RandomSource) -> PreTrainedTokenizerFast:
    """A byte-level tokenizer of the vocabulary's size, with a BOS in front where the architecture wants one."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=spec.vocabulary,
        special_tokens=[BOS, EOS],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXT, trainer)
    if spec.architecture in WITH_BOS:
        tokenizer.post_processor = processors.TemplateProcessing(single=f"{BOS} $A", special_tokens=[(BOS, 0)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=BOS, eos_token=EOS)
