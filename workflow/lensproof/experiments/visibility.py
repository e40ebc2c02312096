"""How visible the latent variable is at the query position, arm by arm, and whether the arm is answered rightly.

Source: Gathered section 4 of the method (Stage 1); readouts and forced choice of its section 2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from lensproof.checkpoints.anatomy.decoder import Decoder, full
from lensproof.corpora.benchmark.record import Record
from lensproof.experiments.arms import ArmsRun
from lensproof.lenses import jacobian
from lensproof.lenses.band import band
from lensproof.lenses.jacobian import JacobianLens
from lensproof.lenses.visibility import visibility


class Choice(NamedTuple):
    """A forced choice: the candidate with the highest logit, whether it is the gold one, the winner's lead over the
    runner-up (nats; negated when wrong), and whether the gold token is the first of the whole vocabulary."""

    answer: int
    correct: bool
    margin: float
    open_correct: bool


def observe(run: ArmsRun) -> pd.DataFrame:
    """Read every record, and let the model choose among its candidates.

    Sets that are ``profiled`` are read at every layer of the lens and by the logit lens beside it, the others over the
    band alone.

    Returns:
        One row per (record, lens, layer): ``instance``, ``document`` (the cluster), ``method`` (the arm), ``lens``
        (``jacobian_lens`` or ``logit_lens``), ``layer``, ``depth`` (number of blocks), ``in_band``, ``rank`` (from 0),
        ``rz``, ``lz``, ``mz`` (nats), and of its forced choice ``answer``, ``correct``, ``choice_margin`` (nats),
        ``open_correct``, ``choices``.
    """
    lens = jacobian.load(run.input("jacobian_lens"), run.decoder, run.weights)
    whole = run.name in run.options["profiled"]
    choices = [choice(run.decoder, *pair) for pair in zip(run.records, run.states[:, -1], strict=True)]
    common = pd.DataFrame(list(_common(run.records, choices)))
    parts = [
        read(run.decoder, run.records, transported, layer, name).join(common)
        for layer, name, transported in _readings(run.decoder, lens, run.states, whole)
    ]
    table = pd.concat(parts, ignore_index=True)
    return table.assign(depth=np.int16(run.decoder.depth), in_band=table["layer"].isin(band(run.decoder.depth)))


def _readings(decoder: Decoder, lens: JacobianLens, states: Tensor, whole: bool) -> Iterator[tuple[int, str, Tensor]]:
    """Layer, name of the reading and last-layer states ``[N, d]``."""
    read = range(1, decoder.depth + 1) if whole else band(decoder.depth)  # the paper's layers are blocks' outputs
    for layer in sorted(set(lens.matrices) & set(read)):
        x = states[:, layer].to(decoder.device)
        yield layer, "jacobian_lens", lens.transport(x, layer)
        if whole:
            yield layer, "logit_lens", x


def read(decoder: Decoder, records: Sequence[Record], x: Tensor, layer: int, lens: str) -> pd.DataFrame:
    """Visibility of each record's z in the readings of last-layer states ``x`` ``[N, d]``, a row per record."""
    tokens = torch.tensor([record.latent_token_id for record in records])
    rivals = [torch.tensor(record.control_token_ids) for record in records]
    found = visibility(decoder, x, tokens.to(x.device), rivals)
    return pd.DataFrame({
        "lens": lens,
        "layer": np.int16(layer),
        "rank": found.rank.cpu().numpy().astype(np.int32),
        "rz": found.percentile.cpu().numpy(),
        "lz": found.log_rank.cpu().numpy(),
        "mz": found.margin.cpu().numpy(),
    })  # fmt: skip


def choice(decoder: Decoder, record: Record, x: Tensor) -> Choice:
    """The forced choice among a record's candidates at its last-layer state ``x`` ``[d]``."""
    normed = decoder.normed(x.to(decoder.device))
    rows = torch.tensor(record.candidate_token_ids, device=normed.device)
    scores = decoder.cap(full(decoder.unembedding[rows]) @ normed)
    ranked = scores.argsort(descending=True, stable=True).tolist()
    lead = float(scores[ranked[0]] - scores[ranked[1]])
    correct = ranked[0] == record.gold
    gold = record.candidate_token_ids[record.gold]
    top = int(decoder.project(normed).argmax())
    return Choice(ranked[0], correct, lead if correct else -lead, top == gold)


def _common(records: Sequence[Record], choices: Sequence[Choice]) -> Iterator[dict]:
    for record, made in zip(records, choices, strict=True):
        yield {
            "record": record.id,
            "instance": record.semantic_instance_id,
            "document": record.cluster,
            "method": record.condition,
            "family": record.family,
            "latent": record.latent_value,
            "answer": record.candidate_answers[made.answer],
            "correct": made.correct,
            "choice_margin": made.margin,
            "open_correct": made.open_correct,
            "choices": len(record.candidate_answers),
        }
