"""LoRA weights (by peft) around a model, in files and out of them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from lensproof.errors import LensproofError
from lensproof.files import damaged, read_json, read_provenance, read_safetensors, write_json, write_safetensors

if TYPE_CHECKING:
    from peft import LoraConfig, PeftModel
    from transformers import PreTrainedModel

WEIGHTS, CONFIG = "adapter_model.safetensors", "adapter_config.json"
LARGEST = 10_000_000
"""Bytes of a file of adapter weights that may be shipped."""
HEADER = 256
"""Bytes that a tensor takes in the header of its file, at most."""


def wrap(model: PreTrainedModel, rank: int, seed: int, base: str) -> PeftModel:
    """The model with fresh adapters on all projections, which change nothing yet; they alone are trained.

    Args:
        model: to adapt; it is changed in place.
        rank: of the adapters, which are scaled by 2.
        seed: of their random halves.
        base: name of the model, which the adapter's file names.

    Raises:
        LensproofError: adapters of this rank do not fit into a file that may be shipped.
    """
    from peft import LoraConfig

    config = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=_projections(model), task_type="CAUSAL_LM")
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        wrapped = _wrapped(model, config)
    wrapped.peft_config["default"].base_model_name_or_path = base  # peft puts the folder there
    _fitting(tensors(wrapped), rank)
    return wrapped


def _projections(model: PreTrainedModel) -> list[str]:
    """What the linear maps of the blocks are called: a short name stands for those of all blocks."""
    linear = ((name, part) for name, part in model.named_modules() if isinstance(part, torch.nn.Linear))
    return sorted({name.rpartition(".")[2] for name, part in linear if part is not model.get_output_embeddings()})


def _wrapped(model: PreTrainedModel, config: LoraConfig) -> PeftModel:
    from peft import get_peft_model

    with warnings.catch_warnings():  # about a name of transformers that peft still uses
        warnings.simplefilter("ignore", FutureWarning)
        return get_peft_model(model, config).eval()


def _fitting(adapter: Mapping[str, Tensor], rank: int) -> None:
    header = HEADER * len(adapter)
    one = sum(2 * tensor.numel() for tensor in adapter.values()) // rank
    if rank * one + header > LARGEST:
        raise LensproofError(
            f"an adapter of rank {rank} takes {(rank * one + header) / 1e6:.1f} MB and may take {LARGEST / 1e6:.0f}: "
            f"rank {(LARGEST - header) // one} would fit"
        )


def tensors(wrapped: PeftModel) -> dict[str, Tensor]:
    """The adapter's weights by the names that they have in files; the model's own tensors, not copies."""
    from peft import get_peft_model_state_dict

    return dict(sorted(get_peft_model_state_dict(wrapped, save_embedding_layers=False).items()))


def put(wrapped: PeftModel, adapter: Mapping[str, Tensor]) -> None:
    """Give the model these adapter weights, whatever their precision."""
    for name, own in tensors(wrapped).items():
        own.data.copy_(adapter[name])


def half(adapter: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights in float16.

    Raises:
        LensproofError: one is not finite there.
    """
    rounded = {name: tensor.detach().half() for name, tensor in adapter.items()}
    for name, tensor in rounded.items():
        if not torch.isfinite(tensor).all():
            raise LensproofError(f"{name} has an entry that float16 cannot hold: train with a lower rate")
    return rounded


def write(folder: Path, wrapped: PeftModel, adapter: Mapping[str, Tensor], provenance: Mapping[str, Any]) -> None:
    """Write an adapter's weights and configuration, as peft reads them."""
    config = wrapped.peft_config["default"].to_dict()
    plain = {key: sorted(value) if isinstance(value, set) else value for key, value in config.items()}
    write_json(folder / CONFIG, {**plain, "inference_mode": True})
    write_safetensors(folder / WEIGHTS, adapter, provenance)


def attach(model: PreTrainedModel, folder: Path, weights: str | None = None) -> PeftModel:
    """The model with the adapter of a folder, in float32 and not merged; the model is changed in place.

    Args:
        weights: sha256 of the model's weights; compared where the adapter's file records one.

    Raises:
        LensproofError: there is no adapter, it is damaged, pickled or of another kind, or it is for another model.
    """
    config = _config(folder)
    adapter = read_safetensors(folder / WEIGHTS)
    recorded = read_provenance(folder / WEIGHTS).get("weights")
    if recorded and weights and recorded != weights:
        raise LensproofError(f"{folder} was trained on other weights (sha256 {recorded[:12]}, here {weights[:12]})")
    try:
        wrapped = _wrapped(model, config)
    except TypeError as error:
        raise damaged(folder / CONFIG, error) from error
    except ValueError as error:
        raise LensproofError(f"{folder} is an adapter for another model ({str(error).splitlines()[0]})") from None
    _same(folder, adapter, tensors(wrapped))
    put(wrapped, adapter)
    return wrapped


def _config(folder: Path) -> LoraConfig:
    from peft import LoraConfig

    missing = [name for name in (CONFIG, WEIGHTS) if not (folder / name).is_file()]
    if missing:
        pickled = ", and pickled weights are never loaded" if list(folder.glob("*.bin")) else ""
        raise LensproofError(f"{folder} has no {' and no '.join(missing)}: it is not an adapter{pickled}")
    kind = read_json(folder / CONFIG, "peft_type")["peft_type"]
    if kind != "LORA":
        raise LensproofError(f"{folder} is an adapter of type {kind}: only LORA is known")
    try:
        config = LoraConfig.from_pretrained(str(folder))
    except (TypeError, ValueError) as error:
        raise damaged(folder / CONFIG, error) from error
    config.base_model_name_or_path = None  # peft would warn that the base is in another folder here
    return config


def _same(folder: Path, adapter: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> None:
    for name in sorted({*adapter, *own}):
        sides = [tuple(side[name].shape) if name in side else "missing" for side in (adapter, own)]
        if sides[0] != sides[1]:
            raise LensproofError(
                f"{folder} is an adapter for another model: {name} is {sides[0]} in it and {sides[1]} in this model"
            )
