"""The tuned lens and its controls, on the corpus that it was trained on and on another.

Translators of each layer: trained, as it started (closed form), the identity (which reads as the logit lens does)
and a random one. The test sequences of the training corpus are documents that training did not see.
"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
import torch
from torch import Tensor

from lensproof.checkpoints.anatomy.decoder import Decoder
from lensproof.corpora import sequences
from lensproof.corpora.sequences import take, tokens
from lensproof.experiments.run import Run, compared
from lensproof.lenses import tuned
from lensproof.lenses.reading import NativeReading, compare
from lensproof.progress import bar
from lensproof.streams.trace import residuals

OTHER = "held_out"


def observe(run: Run) -> pd.DataFrame:
    """Read test sequences of both corpora.

    Returns:
        One row per (corpus, method, layer, position): ``corpus`` (the one trained on by its name, or ``held_out``, the
        run's own), ``kl`` (nats, KL(model || reading)), ``agrees`` (same top token as the model). Documents of the two
        corpora have different numbers.
    """
    lens = tuned.load(run.input("tuned_lens"), run.decoder, run.weights)
    corpora = {run.options["corpus"]: sequences.read(run.input("trained_on")), OTHER: run.sequences}
    tables = []
    for place, (corpus, table) in enumerate(corpora.items()):
        chosen = take(table, "test", run.count, run.first)
        rows = bar(list(chosen.itertuples()), f"translators, {run.checkpoint}, {corpus}", unit="sequence")
        for row, ids in zip(rows, tokens(chosen), strict=True):
            found = read(run.decoder, ids, lens, run.seed)
            tables.append(found.assign(corpus=corpus, document=2 * row.document + place, sequence=row.sequence))
    return pd.concat(tables, ignore_index=True)


@torch.no_grad()
def read(decoder: Decoder, ids: Tensor, lens: tuned.TunedLens, seed: int = 0) -> pd.DataFrame:
    """Every translator's reading of one sequence ``[T]`` at the lens's layers, against the model's own output."""
    states = residuals(decoder, ids[None])[:, 0]
    native = NativeReading.of(decoder, states[-1])
    same = tuned.identity(decoder.width)
    translators: Mapping[str, Mapping[int, tuned.Translator]] = {
        "tuned_lens": lens.trained,
        "tuned_lens_start": lens.start,
        "identity_translator": dict.fromkeys(lens.layers, same),
        "random_translator": {layer: tuned.random(decoder.width, seed + layer) for layer in lens.layers},
    }
    tables = []
    for method, by_layer in translators.items():
        moved = torch.stack([by_layer[layer](states[layer]) for layer in lens.layers])
        result = compare(decoder, native, moved)
        tables.append(compared(method, lens.layers, torch.arange(len(ids)), result, native.summary.top))
    return pd.concat(tables)
