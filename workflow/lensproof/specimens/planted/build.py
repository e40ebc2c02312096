"""Planted models as ordinary checkpoints: a Llama architecture, a word-level tokenizer, weights written by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from transformers import LlamaConfig

from lensproof.config import PlantedSource
from lensproof.specimens.planted import world
from lensproof.specimens.planted.circuit import NEEDED, rotary_base
from lensproof.specimens.planted.plan import COPY, Plan, plan
from lensproof.specimens.planted.weights import weights


def build(source: PlantedSource, out: str | Path) -> dict[str, Any]:
    """Write the planted model of ``source`` to the folder ``out``; the same source gives the same bytes.

    Returns:
        What is planted and where, for the checkpoint's manifest; blocks count from 0.

    Raises:
        LensproofError: it cannot be built; the message says why.
    """
    chosen, out = plan(source, NEEDED), Path(out)
    config(chosen).save_pretrained(out)
    save_file(weights(chosen), out / "model.safetensors", metadata={"format": "pt"})
    world.tokenizer().save_pretrained(out)
    return truth(chosen)


def config(chosen: Plan) -> LlamaConfig:
    """The configuration of a plan's model."""
    return LlamaConfig(
        architectures=["LlamaForCausalLM"],
        vocab_size=len(world.VOCABULARY),
        hidden_size=chosen.width,
        intermediate_size=chosen.neurons,
        num_hidden_layers=chosen.layers,
        num_attention_heads=chosen.heads,
        num_key_value_heads=chosen.heads,
        head_dim=chosen.head_width,
        max_position_embeddings=2048,
        rope_theta=rotary_base(chosen.head_width),
        rms_norm_eps=1e-6,
        tie_word_embeddings=False,
        bos_token_id=world.VOCABULARY.index(world.Token(world.BOS, "bos")),
        eos_token_id=None,
        dtype="float32",
    )


def truth(chosen: Plan) -> dict[str, Any]:
    """What a method that is right finds in a plan's model."""
    return {
        "variant": chosen.variant,
        "block": chosen.block,
        "component": {"gather": f"attention head {chosen.head}", "gate": "mlp"}[chosen.variant],
        "copy_block": COPY,
        "table_block": chosen.table,
        "decoy_block": chosen.late if chosen.decoy else None,
        "decoy": chosen.decoy,
    }
