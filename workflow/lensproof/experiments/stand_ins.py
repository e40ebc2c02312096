"""What stands in for attention in order 0, and on which text it is calibrated: Table 8 of LexFrame.

The stream of order 0 replaces attention by its typical value, mean and regression; here also by the mean alone, and by
nothing. Judged is order 1, which reads that stream: the KL of its reading from the model's output, the cosine of its
readouts with the native ones, and its attribution of whole blocks beside the measured effect, as in Table 6. Mean and
regression are also calibrated on other texts, of which only the KL is wanted.

Chosen: position 0, which has no prefix, keeps the model's own attention under every stand-in; layers 0 and L, which no
layer mean counts, are left out. Text 1 is that of the run's own typical attention; the texts share no document.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from lensproof.checkpoints.anatomy.decoder import Decoder
from lensproof.corpora import draw
from lensproof.errors import LensproofError
from lensproof.experiments.run import Run
from lensproof.frames import typical as typical_attention
from lensproof.frames.basis import covectors
from lensproof.frames.frame import Frame, frames, native_readouts
from lensproof.frames.typical import TypicalAttention
from lensproof.lenses.reading import NativeReading, compare
from lensproof.streams.replay import remember, replay
from lensproof.streams.trace import residuals

REGRESSION = "mean_and_regression"
OTHER = "calibration_"
"""Inputs of this name, with numbers from 2 on, are typical attention of other texts."""


@dataclass(frozen=True)
class Clean:
    """What order 1 is held against on one sequence.

    ``states`` ``[L + 1, T, d]``, ``native`` the model's own output, ``top`` w_v - w_mean of its top tokens ``[T, d]``,
    ``effect`` layer -> change of their centred logits when the block below is taken out ``[T - 1]``, from position 1;
    ``readouts`` native ones ``[L + 1, R, C, d]`` of ``labels`` ``[C]`` at positions ``at`` ``[R]``.
    """

    decoder: Decoder
    states: Tensor
    native: NativeReading
    top: Tensor
    effect: Mapping[int, Tensor]
    at: Tensor
    labels: Tensor
    readouts: Tensor

    @classmethod
    @torch.no_grad()
    def of(cls, decoder: Decoder, ids: Tensor, layers: Sequence[int], at: Tensor, labels: Tensor) -> Clean:
        """From ids ``[T]``; the decoder is bound to them (:meth:`Decoder.on`)."""
        states = residuals(decoder, ids[None])[:, 0]
        native, memories, later = NativeReading.of(decoder, states[-1]), remember(decoder, states), _later(states)
        top = covectors(decoder, native.summary.top)
        own = _coefficient(decoder, states[-1, 1:], top)
        effect = {
            layer: own
            - _coefficient(decoder, replay(decoder, memories, states, states[layer - 1, 1:], later, layer), top)
            for layer in layers
        }
        at = at.to(states.device)
        readouts = native_readouts(decoder, states, at, covectors(decoder, labels))
        return cls(decoder, states, native, top, effect, at, labels, readouts)


def observe(run: Run) -> pd.DataFrame:
    """Order 1 on every stand-in, for the shard's sequences.

    Returns:
        One row per sequence, position from 0, layer, method and ``calibration`` (number of the text): ``kl`` (nats);
        for text 1 and from position 1 also ``effect`` and ``score`` of the block below (logits). And one row per drawn
        position and ``label``: ``cosine``. What a row has not is missing there.

    Raises:
        LensproofError: no layer is configured between the embedding and the last.
    """
    layers = [layer for layer in run.layers if 0 < layer < run.decoder.depth]
    if not layers:
        raise LensproofError("experiments.stand_ins.layers names no layer between the embedding and the last")
    own, *others = _calibrations(run)
    labels = torch.from_numpy(draw.labels(run.sequences, run.options["labels"]))
    found = []
    for row, ids in run.shard("stand-ins"):
        at = torch.from_numpy(draw.positions(row.sequence, len(ids), run.options["positions"], run.seed))
        clean = Clean.of(run.decoder.on(ids), ids, layers, at, labels)
        tables = [judge(clean, own, layers), *(reread(clean, other, layers, n) for n, other in enumerate(others, 2))]
        found += [table.assign(document=row.document, sequence=row.sequence) for table in tables]
    return pd.concat(found, ignore_index=True).assign(batch_size=1)


def _calibrations(run: Run) -> Iterator[TypicalAttention]:
    """Typical attention of the run's own text and of the others."""
    numbers = sorted(int(name.removeprefix(OTHER)) for name in run.inputs if name.startswith(OTHER))
    for name in ("typical_attention", *(f"{OTHER}{number}" for number in numbers)):
        yield typical_attention.load(run.input(name), run.decoder, run.weights)


@torch.no_grad()
def judge(clean: Clean, typical: TypicalAttention, layers: Sequence[int]) -> pd.DataFrame:
    """Mean and regression, the mean alone and nothing, on one sequence; rows as in :func:`observe`, text 1."""
    stands = {REGRESSION: typical, "mean_only": typical.mean_only(), "zero": typical.zero()}
    rows = []
    for method, stand in stands.items():
        for layer, frame in frames(clean.decoder, clean.states, 1, layers, stand).items():
            rows += [table.assign(method=method, layer=np.int16(layer)) for table in _judged(clean, layer, frame)]
    return pd.concat(rows).assign(calibration=1)


@torch.no_grad()
def reread(clean: Clean, typical: TypicalAttention, layers: Sequence[int], number: int) -> pd.DataFrame:
    """The KL alone with typical attention of text ``number``."""
    made = frames(clean.decoder, clean.states, 1, layers, typical)
    rows = [_read(clean, layer, frame)[0].assign(layer=np.int16(layer)) for layer, frame in made.items()]
    return pd.concat(rows).assign(method=REGRESSION, calibration=number)


def _judged(clean: Clean, layer: int, frame: Frame) -> Iterator[pd.DataFrame]:
    table, last = _read(clean, layer, frame)
    removed = frame.transport(clean.states[layer - 1, 1:], _later(clean.states))
    score = _coefficient(clean.decoder, last[1:], clean.top) - _coefficient(clean.decoder, removed, clean.top)
    missing = [np.nan]
    yield table.assign(
        effect=np.concatenate([missing, clean.effect[layer].cpu()]), score=np.concatenate([missing, score.cpu()])
    )
    readouts = frame.readouts(clean.states[layer, clean.at], clean.at, covectors(clean.decoder, clean.labels))
    cosine = cosine_similarity(readouts.double(), clean.readouts[layer].double(), dim=-1)
    yield pd.DataFrame({
        "position": np.repeat(clean.at.cpu().numpy().astype(np.int16), len(clean.labels)),
        "label": np.tile(clean.labels.cpu().numpy().astype(np.int32), len(clean.at)),
        "cosine": cosine.cpu().numpy().ravel(),
    })  # fmt: skip


def _read(clean: Clean, layer: int, frame: Frame) -> tuple[pd.DataFrame, Tensor]:
    """KL by position, and the last-layer states ``[T, d]`` that are read."""
    last = frame.transport(clean.states[layer], torch.arange(clean.states.shape[1], device=clean.states.device))
    kl = compare(clean.decoder, clean.native, last[None]).kl[0].cpu().numpy()
    return pd.DataFrame({"position": np.arange(len(kl), dtype=np.int16), "kl": kl}), last


def _later(states: Tensor) -> Tensor:
    """Positions 1 .. T-1."""
    return torch.arange(1, states.shape[1], device=states.device)


def _coefficient(decoder: Decoder, x: Tensor, top: Tensor) -> Tensor:
    """Centred coefficients ``[T - 1]`` of the model's top tokens, of last-layer states ``x`` ``[T - 1, d]``."""
    return (decoder.final_norm(x).float() * top[1:]).sum(-1)
