"""Long sequences against short ones of the same text: figure 9 of LexFrame.

A long sequence is read as it is, and cut into sequences of the usual length, each with a BOS token of its own where
the model uses one. Typical attention is calibrated for each length on the same number of tokens. Source: LexFrame
appendix B, figure 9.
"""

from __future__ import annotations

import pandas as pd
import torch
from torch import Tensor

from lensproof.checkpoints.anatomy.decoder import Decoder
from lensproof.corpora import sequences
from lensproof.corpora.sequences import take, tokens
from lensproof.experiments.run import Run, compared
from lensproof.frames import typical
from lensproof.frames.flow import Stand
from lensproof.frames.reading import compare_layers
from lensproof.lenses.reading import NativeReading
from lensproof.progress import bar
from lensproof.streams.trace import residuals


def observe(run: Run) -> pd.DataFrame:
    """Read one position of every few in long sequences, and in their short pieces.

    Returns:
        One row per (length, method, layer, position): ``length`` (tokens of the sequence that was run), ``position``
        within it, ``kl`` (nats, KL(model || reading)), ``agrees`` (same top token as the model). ``depth`` is L.
    """
    chosen = take(sequences.read(run.input("long_sequences")), "test", run.count, run.first)
    short = run.sequences["tokens"].iloc[0].size
    stands = {
        length: typical.load(run.input(f"typical_{name}"), run.decoder, run.weights)
        for name, length in (("long", run.options["long"]), ("short", short))
    }
    bos = starts_alike(run.sequences)
    tables, rows = [], list(chosen.itertuples())
    for row, ids in zip(bar(rows, f"long context, {run.checkpoint}", unit="sequence"), tokens(chosen), strict=True):
        pieces = [ids, *cut(ids, short, bos)]
        tables += [
            read(run.decoder, piece, run, stands[len(piece)]).assign(document=row.document, sequence=row.sequence)
            for piece in pieces
        ]
    return pd.concat(tables, ignore_index=True).assign(depth=run.decoder.depth)


def starts_alike(sequences: pd.DataFrame) -> bool:
    """Whether all sequences start with one token, a BOS."""
    return sequences["tokens"].map(lambda ids: ids[0]).nunique() == 1


def cut(ids: Tensor, length: int, bos: bool) -> list[Tensor]:
    """Pieces of ``length`` tokens ``[length]`` of a sequence ``[T]``, in order; with ``bos``, its first token starts
    each of them. What is left over is dropped."""
    first, body = (ids[:1], ids[1:]) if bos else (ids[:0], ids)
    room = length - len(first)
    return [torch.cat((first, body[start : start + room])) for start in range(0, len(body) - room + 1, room)]


def read(decoder: Decoder, ids: Tensor, run: Run, stand: Stand) -> pd.DataFrame:
    """All readings of one sequence ``[T]`` at the positions that are read."""
    decoder = decoder.on(ids)
    states = residuals(decoder, ids[None])[:, 0]
    at = torch.arange(run.options["stride"] - 1, len(ids), run.options["stride"])
    native = NativeReading.of(decoder, states[-1, at])
    tables = [
        compared(method, layers, at, result, native.summary.top)
        for method, layers, result in compare_layers(
            decoder, states, native, layers=run.layers, orders=run.options["orders"], typical=stand, at=at
        )
    ]
    return pd.concat(tables).assign(length=len(ids))
