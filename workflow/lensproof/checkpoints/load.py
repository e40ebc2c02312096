"""Load a local checkpoint: a directory in the Hugging Face layout, safetensors only."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from lensproof.checkpoints.anatomy import take_apart
from lensproof.checkpoints.manifest import MANIFEST, existing
from lensproof.errors import LensproofError
from lensproof.files import damaged, read_json

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

    from lensproof.checkpoints.anatomy.decoder import Decoder


# What stands in front of the language model's weights in a checkpoint that has other parts too.
TEXT_PART = {
    r"^(?:model\.)?language_model\.(?:model\.)?(?!lm_head)": "model.",
    r"^language_model\.lm_head": "lm_head",
}


def load(directory: str | Path, device: str = "cpu", precision: str = "float32") -> Decoder:
    """The model of a checkpoint, in evaluation mode, taken apart; of one that also takes images or sound, its language
    model alone.

    Args:
        directory: folder with ``config.json`` and safetensors weights.
        device: ``cpu``, ``cuda`` or ``auto`` (a GPU where there is one).
        precision: type of the weights, ``float32``, ``bfloat16`` or ``float16``.

    Raises:
        LensproofError: no checkpoint there, it is damaged, weights are missing from it, or the project does not know
            its architecture.
    """
    directory, place = existing(directory), resolve(device)
    with _whole(directory):
        model = _model(directory, precision)
    return take_apart(model.eval().to(place))


def _model(directory: Path, precision: str) -> PreTrainedModel:
    from transformers import AutoConfig, AutoModelForCausalLM, logging

    logging.disable_progress_bar()
    local = {"local_files_only": True, "trust_remote_code": False}
    config = AutoConfig.from_pretrained(directory, **local)
    text = _text(config)
    with _quietly():  # other parts of the checkpoint are left out on purpose
        model, found = AutoModelForCausalLM.from_pretrained(
            directory,
            config=text,
            key_mapping=None if text is config else TEXT_PART,
            dtype=getattr(torch, precision),
            use_safetensors=True,
            output_loading_info=True,
            **local,
        )
    if found["missing_keys"]:
        first, *others = sorted(found["missing_keys"])
        more = f" and {len(others)} more" if others else ""
        raise LensproofError(f"{directory}: the weights lack {first}{more}: fetch the checkpoint again")
    return model


def _text(config: PreTrainedConfig) -> PreTrainedConfig:
    """The language model's configuration; whether its embeddings are tied is the whole model's affair."""
    text = config.get_text_config()
    text.tie_word_embeddings = config.tie_word_embeddings
    return text


@contextlib.contextmanager
def _whole(directory: Path) -> Iterator[None]:
    """What goes wrong inside is the folder's fault: transformers, tokenizers and safetensors each have errors of their
    own for files that are cut short or changed."""
    try:
        yield
    except (LensproofError, MemoryError):
        raise
    except Exception as error:
        raise damaged(directory, error, directory / MANIFEST) from error


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    from transformers import logging

    before = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(before)


def load_tokenizer(directory: str | Path) -> PreTrainedTokenizerBase:
    """The tokenizer of a checkpoint.

    Raises:
        LensproofError: no checkpoint there, or it is damaged.
    """
    from transformers import AutoTokenizer

    directory = existing(directory)
    with _whole(directory):
        return AutoTokenizer.from_pretrained(directory, local_files_only=True, trust_remote_code=False)


def context_length(directory: str | Path) -> int | None:
    """How many tokens a checkpoint takes, as its configuration says; None where it does not say."""
    config = read_json(existing(directory) / "config.json", "model_type")
    found = (config.get("text_config") or config).get("max_position_embeddings")
    return found if isinstance(found, int) else None


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
