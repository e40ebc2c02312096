"""Readings along training: figure 6 of LexFrame.

Each checkpoint of a series is read with typical attention that was calibrated on that checkpoint, so no calibration
is carried over. Source: LexFrame appendix B, figure 6.
"""

from __future__ import annotations

import pandas as pd
import torch

from lensproof.experiments.run import Run, compared
from lensproof.frames import typical
from lensproof.frames.reading import compare_layers
from lensproof.lenses.reading import NativeReading
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
        native, at = NativeReading.of(decoder, states[-1]), torch.arange(len(ids))
        orders, where = run.options["orders"], {"document": row.document, "sequence": row.sequence}
        found = compare_layers(decoder, states, native, layers=run.layers, orders=orders, typical=stand)
        tables += [
            compared(method, layers, at, result, native.summary.top).assign(**where) for method, layers, result in found
        ]
    return pd.concat(tables, ignore_index=True).assign(depth=run.decoder.depth)
