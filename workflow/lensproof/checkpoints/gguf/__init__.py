"""GGUF files to Hugging Face checkpoints.

transformers can read GGUF files into memory, but not write what it read, needs accelerate for it, takes most of
a minute each time, and gets details of the tokenizers wrong. Here a file is unpacked once, exactly, by the gguf
package. Everything in the file must be accounted for: an architecture, a tensor or a scaling that is not known
is refused by name, never guessed.
"""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import TYPE_CHECKING

from lensproof.checkpoints.gguf.gemma3 import GEMMA3
from lensproof.checkpoints.gguf.layout import Config, Layout
from lensproof.checkpoints.gguf.llama import LLAMA
from lensproof.checkpoints.gguf.metadata import Gguf, open_gguf
from lensproof.errors import LensproofError
from lensproof.progress import bar

if TYPE_CHECKING:
    import numpy as np
    import torch
    from gguf import ReaderTensor

LAYOUTS: dict[str, Layout] = {"llama": LLAMA, "gemma3": GEMMA3}


def convert(path: str | Path, out: str | Path) -> None:
    """Unpack a GGUF file into a Hugging Face checkpoint in the folder ``out``.

    Weights are float32 with the values that the gguf package unpacks, bit for bit; written are
    ``model.safetensors``, ``config.json``, ``generation_config.json``, ``tokenizer.json`` and
    ``tokenizer_config.json``.

    Raises:
        LensproofError: not a GGUF file, or one with something in it that is not known.
    """
    from lensproof.checkpoints.gguf.tokenizer import build

    file, out = open_gguf(path), Path(out)
    layout = _layout(file)
    config = _config(file, layout)
    tokenizer, tokenizer_config = build(file)
    names = _names(file, layout)
    _check(file, config, names)
    tensors = _tensors(file, layout, config, names)
    out.mkdir(parents=True, exist_ok=True)
    _json(out / "config.json", config)
    _save(out / "model.safetensors", tensors)
    _json(out / "generation_config.json", {key: config[key] for key in _TOKENS.values() if key in config})
    _json(out / "tokenizer_config.json", tokenizer_config)
    (out / "tokenizer.json").write_text(tokenizer.to_str(), encoding="utf-8")


_TOKENS = {"bos": "bos_token_id", "eos": "eos_token_id", "padding": "pad_token_id"}


def _layout(file: Gguf) -> Layout:
    if file.architecture not in LAYOUTS:
        raise LensproofError(
            f"{file.path}: architecture {file.architecture} is not known (known: {', '.join(LAYOUTS)})"
        )
    return LAYOUTS[file.architecture]


def _config(file: Gguf, layout: Layout) -> Config:
    blocks, tensors = file.count("block_count"), file.tensors
    if blocks > len(tensors):
        raise LensproofError(f"{file.path}: its metadata asks for {blocks} blocks, but it has {len(tensors)} tensors")
    scaling = file.text("rope.scaling.type", "none")
    if scaling not in ("none", "linear"):
        raise LensproofError(f"{file.path}: rope scaling {scaling} is not known (known: none, linear)")
    linear = {"rope_type": "linear", "factor": file.number("rope.scaling.factor")} if scaling == "linear" else None
    tokens = {key: file.token(role) for role, key in _TOKENS.items()}
    return {
        **layout.config(file),
        "vocab_size": _vocabulary(file),
        "hidden_size": file.count("embedding_length"),
        "intermediate_size": file.count("feed_forward_length"),
        "num_hidden_layers": blocks,
        "num_attention_heads": file.count("attention.head_count"),
        "max_position_embeddings": file.count("context_length"),
        "rms_norm_eps": file.number("attention.layer_norm_rms_epsilon"),
        "rope_scaling": linear,
        "tie_word_embeddings": "output.weight" not in tensors,
        "dtype": "float32",
        **{key: index for key, index in tokens.items() if index is not None},
    }


def _vocabulary(file: Gguf) -> int:
    """Rows of the embedding: as many as tokens, or more."""
    embedding, tokens = file.tensors.get("token_embd.weight"), len(file.vocabulary)
    rows = 0 if embedding is None else _shape(embedding)[0]
    if rows < tokens:
        raise LensproofError(f"{file.path}: the embedding has {rows} rows for {tokens} tokens")
    return rows


def _shape(tensor: ReaderTensor) -> tuple[int, ...]:
    """Rows first: the file names the fastest dimension first."""
    return tuple(reversed(tensor.shape.tolist()))


def _names(file: Gguf, layout: Layout) -> dict[str, str]:
    """Name of each tensor in the file -> its name in the checkpoint."""
    names = {name: layout.target(name) for name in file.tensors}
    for name, target in names.items():
        if target is None:
            raise LensproofError(f"{file.path}: tensor {name} is not known in {file.architecture}")
    return names


def _check(file: Gguf, config: Config, names: dict[str, str]) -> None:
    """Names and shapes must be exactly those of the model that transformers builds from the config."""
    expected = _expected(file, config)
    found = {names[name]: _shape(tensor) for name, tensor in file.tensors.items()}
    for name in sorted(expected.keys() | found.keys()):
        if expected.get(name) != found.get(name):
            raise LensproofError(
                f"{file.path}: {name} is {found.get(name, 'missing')}, but its metadata asks for "
                f"{expected.get(name, 'no such tensor')}"
            )


def _expected(file: Gguf, config: Config) -> dict[str, tuple[int, ...]]:
    import torch
    from huggingface_hub.errors import StrictDataclassError
    from transformers import AutoConfig, AutoModelForCausalLM

    settings = {key: value for key, value in config.items() if key not in ("model_type", "dtype")}
    try:
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(AutoConfig.for_model(config["model_type"], **settings))
    except (StrictDataclassError, ValueError, TypeError, ArithmeticError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise LensproofError(f"{file.path}: its metadata do not make a model ({reason})") from error
    return {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}


def _tensors(file: Gguf, layout: Layout, config: Config, names: dict[str, str]) -> dict[str, torch.Tensor]:
    import torch

    tensors = {}
    for name, tensor in bar(file.tensors.items(), f"unpack {file.path.name}", total=len(names), unit="tensor"):
        values = layout.restore(name, _unpack(file, tensor), config)
        tensors[names[name]] = torch.from_numpy(values.copy(order="C"))
    return tensors


def _unpack(file: Gguf, tensor: ReaderTensor) -> np.ndarray:
    """The float32 values."""
    from gguf import dequantize

    try:
        return dequantize(tensor.data, tensor.tensor_type).reshape(_shape(tensor))
    except NotImplementedError as error:
        raise LensproofError(f"{file.path}: packing {tensor.tensor_type.name} is not known") from error


def _save(path: Path, tensors: dict[str, torch.Tensor]) -> None:
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    try:
        save_file(tensors, path, metadata={"format": "pt"})
    except SafetensorError as error:
        raise OSError(errno.ENOSPC if "No space" in str(error) else errno.EIO, str(error)) from error


def _json(path: Path, value: Config) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
