"""One prompt, read by one method at every layer and position."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import torch
from torch import Tensor

from lensproof.checkpoints import registry
from lensproof.checkpoints.anatomy.decoder import Decoder
from lensproof.checkpoints.load import context_length, encode, load, load_tokenizer
from lensproof.checkpoints.manifest import MANIFEST, digest
from lensproof.errors import LensproofError
from lensproof.frames import typical
from lensproof.frames.flow import flow
from lensproof.lenses import jacobian
from lensproof.lenses.reading import likeliest
from lensproof.presets import command_for
from lensproof.progress import SOON, bar
from lensproof.streams.trace import residuals

LENSES = "logit, jacobian, lexframe:N or native"
LONGEST = 256
"""Tokens of the longest prompt that is read without asking for it."""
ROWS = 64
"""Positions whose logits are in memory at once."""


def read(
    prompt: str,
    checkpoint: str,
    lens: str,
    layers: str,
    results: Path,
    device: str = "auto",
    precision: str = "float32",
    longest: int = LONGEST,
) -> pd.DataFrame:
    """The top token of every reading.

    Args:
        checkpoint: a folder, or a name below ``results/checkpoints``.
        lens: ``logit``, ``jacobian``, ``lexframe:N`` or ``native``.
        layers: ``all``, or layers with commas.
        longest: tokens of the longest prompt that is read; time grows with the prompt.

    Returns:
        One row per layer and position: ``layer``, ``position``, ``input`` (the prompt's token there), ``token``
        (the reading's top token), ``probability``.

    Raises:
        LensproofError: no such lens, checkpoint or layer, an artifact that has not been built or is damaged, a prompt
            without text or longer than ``longest`` or than the checkpoint takes, or a reading that is not finite.
    """
    _check(lens)
    if not prompt.strip():
        raise LensproofError("the prompt is empty: give some text")
    folder = _folder(checkpoint, results)
    tokenizer = load_tokenizer(folder)
    ids = encode(tokenizer, prompt)
    _refuse_long(len(ids), longest, context_length(folder), folder.name)
    decoder = load(folder, device, precision)
    chosen = _layers(layers, decoder.depth)
    tokens = torch.tensor(ids)
    decoder = decoder.on(tokens)
    states = residuals(decoder, tokens[None])[:, 0]
    last = _transport(decoder, states, lens, chosen, folder, results / "artifacts" / folder.name)
    rows = []
    layers_read = bar(list(zip(chosen, last, strict=True)), f"reading {len(ids)} tokens", unit="layer", delay=SOON)
    for layer, state in layers_read:
        tops, probabilities = (torch.cat(part)[:, 0] for part in zip(*_likeliest(decoder, state), strict=True))
        if not torch.isfinite(probabilities).all():
            raise LensproofError(f"the reading of layer {layer} is not finite: run with --precision float32")
        rows += [
            (layer, position, tokenizer.decode([ids[position]]), tokenizer.decode([top]), probability)
            for position, (top, probability) in enumerate(zip(tops.tolist(), probabilities.tolist(), strict=True))
        ]
    table = pd.DataFrame(rows, columns=["layer", "position", "input", "token", "probability"])
    table.attrs["checkpoint"] = folder.name
    return table


def _folder(checkpoint: str, results: Path) -> Path:
    """The folder of a checkpoint that goes by its folder or its name."""
    if Path(checkpoint, "config.json").is_file():
        return Path(checkpoint).absolute()
    folder = results / "checkpoints" / checkpoint
    if not (folder / "config.json").is_file() and checkpoint not in registry.names():
        built = sorted(path.parent.name for path in results.glob("checkpoints/*/config.json"))
        known = ", ".join(dict.fromkeys([*built, *registry.names()]))
        raise LensproofError(
            f"there is no checkpoint {checkpoint!r}: give the folder of one, or a name in the registry ({known})"
        )
    return folder


def _refuse_long(length: int, longest: int, context: int | None, name: str) -> None:
    if context is not None and length > context:
        raise LensproofError(f"the prompt has {length} tokens, {name} takes {context} at most: shorten it")
    if length > longest:
        raise LensproofError(
            f"the prompt has {length} tokens, {longest} are read at most: shorten it, or raise the limit with "
            f"--longest {length}, which takes longer and more memory"
        )


def _likeliest(decoder: Decoder, state: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Top tokens and their probabilities, of a few positions at a time: each has a number for every token."""
    return (likeliest(decoder, part, 1) for part in state.split(ROWS))


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
    weights = digest(folder) if (folder / MANIFEST).is_file() else None
    if lens == "jacobian":
        fitted = jacobian.load(_built(artifacts / "jacobian_lens.safetensors"), decoder, weights)
        return [fitted.transport(states[layer], layer) for layer in layers]
    order = math.inf if lens == "native" else int(lens.removeprefix("lexframe:"))
    needed = order != math.inf and any(decoder.depth - layer > order for layer in layers)
    fitted = typical.load(_built(artifacts / "typical_attention.safetensors"), decoder, weights) if needed else None
    if order != math.inf and fitted is None:
        return [states[-1]] * len(layers)
    progress = f"running {states.shape[1]} tokens from every layer"
    ((_, cuts, last),) = flow(decoder, states, [order], fitted, layers, progress=progress)
    found = dict(zip(cuts, last, strict=True))
    return [found.get(layer, states[-1]) for layer in layers]


def _built(path: Path) -> Path:
    if not path.is_file():
        build = command_for(path)
        raise LensproofError(
            f"this lens needs {path}: "
            + (f"build it with `{build}`" if build else "say with --results where it was built")
        )
    return path
