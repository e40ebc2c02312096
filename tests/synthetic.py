"""Observations of the readings experiment made up on purpose, with known properties, for the tests downstream."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

METHODS = ("logit_lens", "jacobian_lens", "lexframe_0", "lexframe_1", "lexframe_2")
LAYERS = 8


def paper_like(method: str, layer: int, layers: int = LAYERS) -> dict[str, float]:
    """Mean KL, Top-1 agreement and confidence of a reading, shaped like the paper's Figure 4."""
    left = layers - layer
    if method == "logit_lens":
        return {"kl": 4.0 + left if left else 0.0, "agrees": 0.05 if left else 1.0, "confidence": 0.9}
    if method == "jacobian_lens":
        return {"kl": 3.0 + 0.3 * left if left else 0.0, "agrees": 0.15 if left else 1.0, "confidence": 0.75}
    order = int(method.removeprefix("lexframe_"))
    if left <= order:
        return {"kl": 0.0, "agrees": 1.0, "confidence": 0.4}
    kl = (1.0, 0.15, 0.05)[order] * (left / layers + 0.2) * (3.0 if layer == 0 else 1.0)
    agrees = (0.6, 0.9, 0.95)[order] - (0.45 if layer == 0 else 0.0)
    return {"kl": kl, "agrees": agrees, "confidence": (0.45, 0.4, 0.42)[order]}


def observations(
    world: Callable[..., dict[str, float]] = paper_like,
    *,
    checkpoint: str = "toy",
    documents: int = 12,
    positions: int = 40,
    layers: int = LAYERS,
    accuracy: float = 0.4,
    noise: float = 0.1,
    seed: int = 0,
) -> pd.DataFrame:
    """Trials whose means follow ``world(method, layer, layers)``; documents differ by a factor for each method."""
    generator = np.random.default_rng(seed)
    own = {"kl": 0.0, "agrees": 1.0, "confidence": accuracy}
    frames = [_cell("model", layers, own, np.ones(documents), positions, generator)]
    for method in METHODS:
        factor = np.exp(noise * generator.standard_normal(documents))
        for layer in range(layers + 1):
            frames.append(_cell(method, layer, world(method, layer, layers), factor, positions, generator))
    table = pd.concat(frames, ignore_index=True)
    right = generator.random(len(table)) < accuracy
    table["correct"] = pd.array(right, dtype="boolean")
    table.loc[table["position"] == positions - 1, "correct"] = pd.NA
    table.insert(0, "checkpoint", checkpoint)
    return table.assign(precision="float32", batch_size=1).astype(
        {"document": "int32", "sequence": "int32", "position": "int16", "layer": "int16", "kl": "float32",
         "confidence": "float32", "checkpoint": "category", "method": "category", "precision": "category"}
    )  # fmt: skip


def _cell(method, layer, mean, factor, positions, generator) -> pd.DataFrame:
    document = np.repeat(np.arange(len(factor)), positions)
    trials = len(document)
    return pd.DataFrame({
        "document": document,
        "sequence": document,
        "position": np.tile(np.arange(positions), len(factor)),
        "layer": layer,
        "method": method,
        "kl": mean["kl"] * factor[document],
        "agrees": generator.random(trials) < mean["agrees"],
        "confidence": np.clip(mean["confidence"] + 0.05 * generator.standard_normal(trials), 0.001, 1.0),
    })  # fmt: skip
