"""What one architecture's GGUF files need to become Hugging Face checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lensproof.checkpoints.gguf.metadata import Gguf

Config = dict[str, Any]

NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
"""Names that every decoder shares: a whole tensor's, or a part of ``blk.<k>.<part>.weight``."""


@dataclass(frozen=True)
class Layout:
    """One architecture.

    Attributes:
        config: open file -> the keys of ``config.json`` that are the architecture's own.
        names: GGUF name -> Hugging Face name, as in :data:`NAMES`.
        restore: (GGUF name, values, config) -> the values as transformers keeps them.
    """

    config: Callable[[Gguf], Config]
    names: dict[str, str]
    restore: Callable[[str, np.ndarray, Config], np.ndarray]

    def target(self, name: str) -> str | None:
        """The Hugging Face name of a tensor; None if the architecture has no such tensor."""
        if name in self.names:
            return self.names[name]
        prefix, _, rest = name.partition(".")
        block, _, part = rest.partition(".")
        part, _, kind = part.partition(".")
        if prefix != "blk" or not block.isdigit() or kind != "weight" or part not in self.names:
            return None
        return f"model.layers.{block}.{self.names[part]}.weight"
