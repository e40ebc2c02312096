"""Readings along training: figure 6 of LexFrame.

Each checkpoint of a series is read with typical attention that was calibrated on that checkpoint, so no calibration
is carried over. Source: LexFrame appendix B, figure 6.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from lensproof.experiments.run import Run
from lensproof.frames import typical
from lensproof.frames.reading import compare_layers
from lensproof.lenses.reading import Comparison, NativeReading
from lensproof.streams.trace import residuals


def observe(run: Run) -> pd.DataFrame:
    """Read every layer of test sequences by the logit lens and the frames.

    Returns:
        One row per (method, layer, position): ``kl`` (nats, KL(model || reading)), ``agrees`` (same top token as the
        model). ``depth`` is L.
    """
    stand = typical.load(run.input("typical_attention"), run.decoder, run.weights)
    tables = []
    for row, ids in run.shard("readings along training"):
        decoder = run.decoder.on(ids)
        states = residuals(decoder, ids[None])[:, 0]
        native = NativeReading.of(decoder, states[-1])
        found = compare_layers(
            decoder, states, native, layers=run.layers, orders=run.options["orders"], typical=stand
        )  # fmt: skip
        tables += [
            _rows(method, layers, result, native).assign(document=row.document, sequence=row.sequence)
            for method, layers, result in found
        ]
    return pd.concat(tables, ignore_index=True).assign(depth=run.decoder.depth)


def _rows(method: str, layers: list[int], result: Comparison, native: NativeReading) -> pd.DataFrame:
    count, length = result.kl.shape
    return pd.DataFrame({
        "method": method,
        "layer": np.repeat(np.asarray(layers, dtype=np.int16), length),
        "position": np.tile(np.arange(length, dtype=np.int16), count),
        "kl": result.kl.float().cpu().numpy().ravel(),
        "agrees": (result.top == native.summary.top).cpu().numpy().ravel(),
    })  # fmt: skip
