"""One instance in every arm: where its latent variable ranks layer by layer, and which tokens stand first at a few.

An illustration without intervals. The instance is the first by name, not one that was looked for. Source: the worked
example in Gathered's appendix.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd
import torch
from torch import Tensor

from lensproof.corpora.benchmark.record import Record
from lensproof.experiments.arms import ArmsRun
from lensproof.lenses import jacobian
from lensproof.lenses.band import to_paper
from lensproof.lenses.reading import likeliest
from lensproof.lenses.visibility import visibility

Z = 0
"""Place of the latent variable's own rows; tokens that stand first have the places from 1 on."""


def observe(run: ArmsRun) -> pd.DataFrame:
    """Read the first instance by the Jacobian lens, at every layer that it has.

    Returns:
        One row per (arm, layer) for the latent variable (``place`` 0) and, at the layers nearest to the shares of depth
        ``depths``, one for each of the ``top`` tokens of the reading (``place`` from 1 on): ``token`` (its text),
        ``rank`` (from 0), ``rz`` of the latent variable, ``probability`` of the others; ``vocabulary`` is its size.
    """
    lens = jacobian.load(run.input("jacobian_lens"), run.decoder, run.weights)
    first = min(record.semantic_instance_id for record in run.records)
    places = [place for place, record in enumerate(run.records) if record.semantic_instance_id == first]
    records, states = [run.records[place] for place in places], run.states[places].to(run.decoder.device)
    layers = [layer for layer in sorted(lens.matrices) if layer > 0]  # the paper's layers are blocks' outputs
    shown = nearest(layers, run.decoder.depth, run.options["depths"])
    rows = []
    for layer in layers:
        x = lens.transport(states[:, layer], layer)
        rows += _latent(run, records, x, layer)
        rows += _first(run, records, x, layer) if layer in shown else ()
    return pd.DataFrame(rows).assign(vocabulary=run.decoder.vocabulary)


def nearest(layers: Sequence[int], depth: int, shares: Sequence[float]) -> list[int]:
    """The layers nearest to shares of the depth, which the paper counts by blocks; each once, rising."""
    return sorted({min(layers, key=lambda layer: abs(to_paper(layer) - share * depth)) for share in shares})


def _latent(run: ArmsRun, records: Sequence[Record], x: Tensor, layer: int) -> Iterator[dict]:
    tokens = torch.tensor([record.latent_token_id for record in records], device=x.device)
    found = visibility(run.decoder, x, tokens, [torch.tensor(record.control_token_ids) for record in records])
    for record, rank, rz in zip(records, found.rank.tolist(), found.percentile.tolist(), strict=True):
        yield {**_about(record, layer), "place": Z, "token": record.latent_value, "rank": rank, "rz": rz}


@torch.no_grad()
def _first(run: ArmsRun, records: Sequence[Record], x: Tensor, layer: int) -> Iterator[dict]:
    for record, state in zip(records, x, strict=True):
        best = likeliest(run.decoder, state, run.options["top"])
        for rank, (token, probability) in enumerate(zip(*(part.tolist() for part in best), strict=True)):
            said = {"token": run.tokenizer.decode([token]), "rank": rank, "probability": probability}
            yield {**_about(record, layer), "place": rank + 1, **said}


def _about(record: Record, layer: int) -> dict:
    return {
        "record": record.id,
        "instance": record.semantic_instance_id,
        "document": record.cluster,
        "method": record.condition,
        "layer": layer,
    }
