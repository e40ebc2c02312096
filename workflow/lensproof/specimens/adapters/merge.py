"""An adapted model as an ordinary checkpoint: the adapter added to the weights of its base."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lensproof.checkpoints.load import load
from lensproof.checkpoints.manifest import digest
from lensproof.files import read_json
from lensproof.provenance import sha256
from lensproof.specimens.adapters import lora
from lensproof.specimens.tokenizer import copy_tokenizer


def build(base: Path, adapter: Path, out: Path) -> dict[str, Any]:
    """Write the model of ``base`` with ``adapter`` merged into its weights, in float32.

    Args:
        base: folder of the checkpoint that was adapted.
        adapter: folder of the adapter.
        out: folder to fill.

    Returns:
        What it is made of, for the checkpoint's manifest: sha256 of the base's weights and of the adapter's, and the
        adapter's configuration.

    Raises:
        LensproofError: there is no checkpoint in ``base``, no adapter in ``adapter``, or it is for another model.
    """
    weights = digest(base)
    merged = lora.attach(load(base).model, adapter, weights).merge_and_unload(safe_merge=True)
    merged.save_pretrained(out)
    copy_tokenizer(base, out)
    return {
        "base": weights,
        "adapter": sha256(adapter / lora.WEIGHTS),
        "configuration": read_json(adapter / lora.CONFIG),
    }
