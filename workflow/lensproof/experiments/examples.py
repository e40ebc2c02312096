"""Example prefixes: what each reading says of the next token, layer by layer (LexFrame table 9)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from lensproof.checkpoints.anatomy.decoder import Decoder
from lensproof.checkpoints.load import encode, load_tokenizer
from lensproof.experiments.run import Run
from lensproof.frames import typical
from lensproof.frames.flow import flow
from lensproof.lenses import jacobian
from lensproof.lenses.reading import likeliest
from lensproof.streams.trace import residuals


def observe(run: Run) -> pd.DataFrame:
    """Read the last position of every prefix.

    Returns:
        One row per (prefix, method, layer): ``prefix`` (its text), ``position`` (the last), ``rank`` (0, the top
        token), ``token`` (its text) and ``probability``. Of the model itself, at layer L, the first few ranks.
    """
    stand = typical.load(run.input("typical_attention"), run.decoder, run.weights)
    lens = jacobian.load(run.input("jacobian_lens"), run.decoder, run.weights)
    tokenizer = load_tokenizer(run.folder)
    prefixes = run.options["prefixes"][run.first : run.first + run.count]
    rows = []
    for number, prefix in enumerate(prefixes, run.first):
        ids = torch.tensor(encode(tokenizer, prefix))
        same = {"prefix": prefix, "document": number, "sequence": number, "position": len(ids) - 1}
        for method, layer, x in last_states(run.decoder, ids, run.layers, run.options["orders"], stand, lens):
            best = likeliest(run.decoder, x, run.options["top"] if method == "model" else 1)
            for rank, (token, probability) in enumerate(zip(*(part.tolist() for part in best), strict=True)):
                found: dict[str, Any] = {"rank": rank, "token": tokenizer.decode([token]), "probability": probability}
                rows.append({"method": method, "layer": layer, **same, **found})
    return pd.DataFrame(rows).astype({"layer": "int16", "position": "int16", "rank": "int16"})


@torch.no_grad()
def last_states(
    decoder: Decoder,
    ids: Tensor,
    layers: list[int],
    orders: list[int],
    stand: typical.TypicalAttention,
    lens: jacobian.JacobianLens,
) -> Iterator[tuple[str, int, Tensor]]:
    """Method, layer and the last-layer state ``[d]`` that it reads at the last position of ``ids`` ``[T]``."""
    decoder = decoder.on(ids)
    states = residuals(decoder, ids[None])[:, 0]
    yield "model", decoder.depth, states[-1, -1]
    for layer in layers:
        yield "logit_lens", layer, states[layer, -1]
        yield "jacobian_lens", layer, lens.transport(states[layer, -1], layer)
    for order, cuts, last in flow(decoder, states, orders, stand, layers):
        found = dict(zip(cuts, last[:, -1], strict=True))
        for layer in layers:
            yield f"lexframe_{order}", layer, found.get(layer, states[-1, -1])
