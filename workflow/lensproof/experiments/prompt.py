"""One prompt, read by one method at every layer and position."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pandas as pd
import torch
from torch import Tensor

from lensproof.checkpoints.anatomy.decoder import Decoder
from lensproof.checkpoints.load import encode, load, load_tokenizer
from lensproof.errors import LensproofError
from lensproof.files import read_json
from lensproof.frames import typical
from lensproof.frames.flow import flow
from lensproof.lenses import jacobian
from lensproof.lenses.reading import likeliest
from lensproof.presets import command_for
from lensproof.streams.trace import residuals

LENSES = "logit, jacobian, lexframe:N or native"


def read(
    prompt: str,
    checkpoint: str,
    lens: str,
    layers: str,
    results: Path,
    device: str = "auto",
    precision: str = "float32",
) -> pd.DataFrame:
    """The top token of every reading.

    Args:
        checkpoint: a folder, or a name below ``results/checkpoints``.
        lens: ``logit``, ``jacobian``, ``lexframe:N`` or ``native``.
        layers: ``all``, or layers with commas.

    Returns:
        One row per layer and position: ``layer``, ``position``, ``input`` (the prompt's token there), ``token``
        (the reading's top token), ``probability``.

    Raises:
        LensproofError: no such lens, checkpoint or layer, or an artifact that has not been built.
    """
    _check(lens)
    folder = Path(checkpoint) if Path(checkpoint, "config.json").is_file() else results / "checkpoints" / checkpoint
    tokenizer = load_tokenizer(folder)
    ids = encode(tokenizer, prompt)
    if not ids:
        raise LensproofError("the prompt is empty: give some text")
    decoder = load(folder, device, precision)
    chosen = _layers(layers, decoder.depth)
    tokens = torch.tensor(ids)
    decoder = decoder.on(tokens)
    states = residuals(decoder, tokens[None])[:, 0]
    last = _transport(decoder, states, lens, chosen, folder, results / "artifacts" / folder.name)
    rows = []
    for layer, state in zip(chosen, last, strict=True):
        best = zip(*(part[:, 0].tolist() for part in likeliest(decoder, state, 1)), strict=True)
        rows += [
            (layer, position, tokenizer.decode([ids[position]]), tokenizer.decode([top]), probability)
            for position, (top, probability) in enumerate(best)
        ]
    table = pd.DataFrame(rows, columns=["layer", "position", "input", "token", "probability"])
    table.attrs["checkpoint"] = folder.name
    return table


def _check(lens: str) -> None:
    if not re.fullmatch(r"logit|jacobian|native|lexframe:\d+", lens):
        raise LensproofError(f"there is no lens {lens!r}: use {LENSES}")


def _layers(text: str, depth: int) -> list[int]:
    try:
        chosen = list(range(depth + 1)) if text == "all" else sorted({int(part) for part in text.split(",")})
    except ValueError:
        raise LensproofError(f"--layers {text!r}: give `all`, or layers with commas") from None
    if chosen[0] < 0 or chosen[-1] > depth:
        raise LensproofError(f"--layers {text}: the model has layers 0 to {depth}")
    return chosen


@torch.no_grad()
def _transport(
    decoder: Decoder, states: Tensor, lens: str, layers: list[int], folder: Path, artifacts: Path
) -> list[Tensor]:
    """Last-layer states ``[T, d]`` to read in place of each layer's."""
    if lens == "logit":
        return [states[layer] for layer in layers]
    manifest = folder / "checkpoint.json"
    weights = read_json(manifest)["sha256"] if manifest.is_file() else None
    if lens == "jacobian":
        fitted = jacobian.load(_built(artifacts / "jacobian_lens.safetensors"), decoder, weights)
        return [fitted.transport(states[layer], layer) for layer in layers]
    order = math.inf if lens == "native" else int(lens.removeprefix("lexframe:"))
    needed = order != math.inf and any(decoder.depth - layer > order for layer in layers)
    fitted = typical.load(_built(artifacts / "typical_attention.safetensors"), decoder, weights) if needed else None
    if order != math.inf and fitted is None:
        return [states[-1]] * len(layers)
    ((_, cuts, last),) = flow(decoder, states, [order], fitted, layers)
    found = dict(zip(cuts, last, strict=True))
    return [found.get(layer, states[-1]) for layer in layers]


def _built(path: Path) -> Path:
    if not path.is_file():
        raise LensproofError(f"this lens needs {path}: build it with `{command_for(path)}`")
    return path
