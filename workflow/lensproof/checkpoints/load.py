"""Load a local checkpoint: a directory in the Hugging Face layout, safetensors only."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch

from lensproof.checkpoints.anatomy import take_apart
from lensproof.errors import LensproofError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from lensproof.checkpoints.anatomy.decoder import Decoder


def load(directory: str | Path, device: str = "cpu", precision: str = "float32") -> Decoder:
    """The model of a checkpoint, in evaluation mode, taken apart.

    Args:
        directory: folder with ``config.json`` and safetensors weights.
        device: ``cpu``, ``cuda`` or ``auto`` (a GPU where there is one).
        precision: type of the weights, ``float32``, ``bfloat16`` or ``float16``.

    Raises:
        LensproofError: no checkpoint there, or an architecture that the project does not know.
    """
    from transformers import AutoModelForCausalLM, logging

    logging.disable_progress_bar()
    model = AutoModelForCausalLM.from_pretrained(
        _existing(directory),
        dtype=getattr(torch, precision),
        local_files_only=True,
        use_safetensors=True,
        trust_remote_code=False,
    )
    return take_apart(model.eval().to(resolve(device)))


def load_tokenizer(directory: str | Path) -> PreTrainedTokenizerBase:
    """The tokenizer of a checkpoint."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(_existing(directory), local_files_only=True, trust_remote_code=False)


def encode(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """Token ids of ``text``, with exactly one BOS in front where the model uses one and none where it does not."""
    ids = tokenizer(text, add_special_tokens=True, verbose=False)["input_ids"]
    eos = tokenizer.eos_token_id
    return ids[:-1] if ids and ids[-1] == eos and not text.endswith(tokenizer.eos_token) else ids


def starts_with_bos(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether the model expects a BOS token in front of every text."""
    ids = tokenizer("a", add_special_tokens=True)["input_ids"]
    return tokenizer.bos_token_id is not None and ids[:1] == [tokenizer.bos_token_id]


def resolve(device: str) -> str:
    """``auto`` becomes a GPU where there is one.

    Raises:
        LensproofError: a GPU is asked for and there is none.
    """
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise LensproofError("device is cuda, but torch sees no GPU: set device to cpu or auto")
    return device


def _existing(directory: str | Path) -> Path:
    directory = Path(directory)
    if not (directory / "config.json").is_file():
        raise LensproofError(
            f"no checkpoint in {directory}: build it with `snakemake --cores 2 {directory}/checkpoint.json`"
        )
    return directory
