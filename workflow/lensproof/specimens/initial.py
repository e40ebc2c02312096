"""A model before training: another checkpoint's architecture, sizes and tokenizer, with freshly drawn weights."""

from __future__ import annotations

import shutil
from pathlib import Path

import torch

from lensproof.checkpoints.manifest import existing

_TOKENIZER = ("tokenizer*", "special_tokens_map.json", "vocab.*", "merges.txt", "*.jinja")


def build(base: Path, seed: int, out: Path) -> None:
    """Write the model that ``base`` was before training, as far as its architecture's own initialisation tells.

    Args:
        base: folder of the trained checkpoint; only its configuration and tokenizer are read.
        seed: of the draw.
        out: folder to fill.

    Raises:
        LensproofError: there is no checkpoint in ``base``, or it is damaged.
    """
    from transformers import AutoConfig, AutoModelForCausalLM, logging

    logging.disable_progress_bar()

    config = AutoConfig.from_pretrained(existing(base), local_files_only=True, trust_remote_code=False)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, trust_remote_code=False)
    model.to(torch.bfloat16).save_pretrained(out)  # a draw loses nothing by being rounded
    for pattern in _TOKENIZER:
        for path in base.glob(pattern):
            shutil.copyfile(path, out / path.name)
