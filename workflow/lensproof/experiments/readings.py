"""Readings against the model's output: Table 1 and figures 4 and 9 of LexFrame.

Every layer of every test sequence is read by each method at every position, and compared with what the model
itself says there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from lensproof.checkpoints.anatomy.decoder import Decoder
from lensproof.frames.reading import compare_layers, itself
from lensproof.frames.typical import TypicalAttention
from lensproof.lenses.jacobian import JacobianLens
from lensproof.lenses.reading import Comparison, NativeReading, compare
from lensproof.streams.trace import residuals


def observe(
    decoder: Decoder,
    tokens: Tensor,
    *,
    orders: Sequence[int],
    layers: Sequence[int],
    typical: TypicalAttention,
    lens: JacobianLens,
) -> pd.DataFrame:
    """Compare all readings of one sequence ``[T]`` with the model's own.

    Returns:
        One row per (method, layer, position): ``method``, ``layer``, ``position``, ``kl`` (nats, KL(model ||
        reading)), ``agrees`` (same top token as the model), ``confidence`` (the reading's top probability),
        ``correct`` (its top token is the next token of the text; missing at the last position), ``reads_input`` (its
        top token is the token at the position itself). Method ``model`` stands once per position, at layer L.
    """
    decoder = decoder.on(tokens)
    states = residuals(decoder, tokens[None])[:, 0]
    native = NativeReading.of(decoder, states[-1])
    found = [("model", [decoder.depth], itself(native, 1))]
    found += compare_layers(decoder, states, native, layers=layers, orders=orders, typical=typical)
    with torch.no_grad():
        transported = torch.stack([lens.transport(states[layer], layer) for layer in layers])
    found.append(("jacobian_lens", layers, compare(decoder, native, transported)))
    return pd.concat([_rows(method, cuts, result, tokens, native.summary.top) for method, cuts, result in found])


def _rows(method: str, layers: Sequence[int], result: Comparison, tokens: Tensor, model_top: Tensor) -> pd.DataFrame:
    count, length = result.kl.shape
    tops = result.top.cpu()
    correct = np.full((count, length), None, dtype=object)
    correct[:, :-1] = (tops[:, :-1] == tokens[1:].cpu()).numpy()
    columns: dict[str, Any] = {
        "method": method,
        "layer": np.repeat(np.asarray(layers, dtype=np.int16), length),
        "position": np.tile(np.arange(length, dtype=np.int16), count),
        "kl": result.kl.float().cpu().numpy().ravel(),
        "agrees": (tops == model_top.cpu()).numpy().ravel(),
        "confidence": result.confidence.float().cpu().numpy().ravel(),
        "correct": pd.array(correct.ravel(), dtype="boolean"),
        "reads_input": (tops == tokens.cpu()).numpy().ravel(),
    }
    return pd.DataFrame(columns)
