"""Observations of Gathered's experiments made up on purpose, with known properties, for the tests downstream."""

from __future__ import annotations

import numpy as np
import pandas as pd

from lensproof.corpora.benchmark.record import ARMS
from lensproof.lenses.band import band

DEPTH, VOCABULARY = 12, 1000
RANKS = {"report": 1, "flexible": 3, "automatic": 200, "control": 250, "supplied": 150}
"""Arm -> mean rank of the variable from the layer on at which demand tells."""
EARLY, TURN = 300, 7
"""Mean rank in every arm below that layer; and that layer."""
RIGHT = {"report": 0.95, "flexible": 0.9, "automatic": 0.6, "control": 0.9, "supplied": 0.97}
"""Arm -> accuracy."""


def visibility(
    checkpoint: str = "toy",
    records: str = "language",
    arms: tuple[str, ...] = ARMS,
    instances: int = 24,
    passages: int = 8,
    lowest: int = 1,
    seed: int = 0,
) -> pd.DataFrame:
    """Trials of ``visibility``: ranks scatter by a tenth around :data:`RANKS`."""
    generator = np.random.default_rng(seed)
    family = records.partition("_")[0]
    rows = []
    for number in range(instances):
        for arm in arms:
            common = {
                "record": f"i{number:03d}-{arm}", "instance": f"i{number:03d}", "document": f"p{number % passages}",
                "method": arm, "family": family, "latent": "alpha", "answer": "A", "choices": 4,
                "correct": bool(generator.random() < RIGHT[arm]), "open_correct": False,
                "choice_margin": float(generator.normal(2)),
            }  # fmt: skip
            for layer in range(lowest, DEPTH + 1):
                mean = RANKS[arm] if layer >= TURN else EARLY
                for lens in ("jacobian_lens", "logit_lens"):
                    rank = int(abs(round(mean * (1 + 0.1 * generator.standard_normal()))))
                    rows.append({**common, "layer": layer, "lens": lens, **_readouts(rank, generator)})
    table = pd.DataFrame(rows)
    return table.assign(
        checkpoint=checkpoint, records=records, depth=DEPTH, in_band=table["layer"].isin(band(DEPTH)),
        precision="float32", batch_size=1, seed=0,
    )  # fmt: skip


def _readouts(rank: int, generator: np.random.Generator) -> dict:
    rz, lz = 1 - rank / (VOCABULARY - 1), -np.log10(rank + 1)
    return {"rank": rank, "rz": rz, "lz": float(lz), "mz": float(lz + generator.normal(0, 0.1))}


def availability(checkpoint: str = "toy", splits: int = 3, instances: int = 30, seed: int = 0) -> pd.DataFrame:
    """Trials of ``availability``: right in 0.9 of the cases, in 0.2 where labels are permuted."""
    generator = np.random.default_rng(seed)
    rows = [
        {
            "method": arm, "trained_on": fitted, "centred": centred, "split": split, "permuted": permuted,
            "layer": layer, "instance": f"i{number:03d}", "document": f"p{number % 10}", "classes": 8,
            "correct": bool(generator.random() < (0.2 if permuted else 0.9)),
        }
        for split in range(splits)
        for permuted in (False, True)
        for fitted, centred in (("joint", False), *((arm, flag) for arm in ARMS for flag in (False, True)))
        for layer in (6, 9)
        for arm in ARMS
        for number in range(instances)
    ]  # fmt: skip
    return pd.DataFrame(rows).assign(
        checkpoint=checkpoint, records="language", depth=DEPTH, precision="float32", batch_size=1, seed=0
    )


def worked_example(checkpoint: str = "toy", shown: tuple[int, ...] = (7, 8, 9)) -> pd.DataFrame:
    """Trials of ``worked_example``, ranks without any scatter; the name itself stands first in the report arm."""
    rows = []
    for arm in ARMS:
        for layer in range(1, DEPTH + 1):
            rank = RANKS[arm] - 1 if layer >= TURN else EARLY
            about = {"record": f"i000-{arm}", "instance": "i000", "document": "p0", "method": arm, "layer": layer}
            rows.append({**about, "place": 0, "token": "alpha", "rank": rank, "rz": 1 - rank / (VOCABULARY - 1)})
            first = " alpha" if arm == "report" else " the"
            for place, token in enumerate((first, "\n", " 漢"), 1) if layer in shown else ():
                rows.append({**about, "place": place, "token": token, "rank": place - 1, "probability": 0.5 / place})
    return pd.DataFrame(rows).assign(
        checkpoint=checkpoint, records="language", vocabulary=VOCABULARY, depth=DEPTH, precision="float32",
        batch_size=1, seed=0,
    )  # fmt: skip
