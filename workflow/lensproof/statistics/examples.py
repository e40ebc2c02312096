"""The examples of LexFrame's table 9: single trials, of which nothing is averaged and no interval can be had.

Every token that a reading says of a prefix is a row: ``probability`` for the top token, ``further_probability`` for the
ranks below it, the second first, with ``prefix``, ``rank`` and ``token`` beside the columns of all estimates.
``first_layer`` is the lowest observed layer at which a reading's top token is the model's, L where there is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pandas as pd

from lensproof.statistics.methods import MODEL
from lensproof.statistics.sample import depth_of, whole
from lensproof.statistics.table import COLUMNS, TYPES, Row, of_all

NEEDED = ("checkpoint", "document", "prefix", "method", "layer", "rank", "token", "probability")
SAID = ("prefix", "rank", "token", "probability")


def estimate(observations: pd.DataFrame, *, resamples: int, level: float, seed: int) -> pd.DataFrame:
    """One row per prefix, method, layer and rank, and one per prefix and method for the first layer.

    Args:
        observations: trials of ``examples``.
        resamples: as of the other estimates of the run; nothing is drawn.
        level: likewise.
        seed: likewise.

    Returns:
        Rows (``workflow/schemas/estimates.schema.yaml``) whose interval is the point, ``setting`` the prefix by its
        place in the configuration (``prefix_1``), with columns ``prefix``, ``rank``, ``token`` and ``probability``.

    Raises:
        LensproofError: there is no trial, or a column is missing.
    """
    whole(observations, NEEDED)
    about = {"resamples": resamples, "level": level, "seed": seed, "depth": depth_of(observations)}
    return singles(_rows(observations), "examples", **about)


def singles(
    rows: Iterable[Row], experiment: str, *, resamples: int, level: float, seed: int, depth: int | None
) -> pd.DataFrame:
    """The table of estimates of single trials: an interval is the point, and tokens stand beside (:data:`SAID`).

    Args:
        rows: each with what :data:`_EMPTY` does not say; ``prefix``, ``rank``, ``token`` and ``probability`` are null
            unless they are there.
        experiment: whose estimates they are.
        resamples: as of the other estimates of the run, like ``level`` and ``seed``.
        depth: L, where the observations tell it.
    """
    about = {"resamples": resamples, "level": level, "seed": seed, "depth": depth, "experiment": experiment}
    table = pd.DataFrame([{**_EMPTY, **about, **row} for row in rows])
    table = table.assign(lo=table["point"], hi=table["point"])
    return table[[*COLUMNS, *SAID]].astype({**TYPES, "rank": "Int16", "token": "str", "prefix": "str"})


_EMPTY = {
    "reference": None, "contrast": None, "numerator": np.nan, "layers": 1, "over": None, "n": 1, "clusters": 1,
    "prefix": None, "rank": None, "token": None, "probability": np.nan,
}  # fmt: skip


def _rows(observations: pd.DataFrame) -> Iterator[Row]:
    by_prefix = observations.groupby(["checkpoint", "document"], sort=True, observed=True)
    for (checkpoint, number), trials in by_prefix:
        prefix = str(trials["prefix"].iloc[0])
        common = {"checkpoint": str(checkpoint), "setting": f"prefix_{number + 1}", "prefix": prefix}
        for trial in trials.sort_values("rank", kind="stable").to_dict("records"):
            said = {name: trial[name] for name in ("method", "layer", "rank", "token", "probability")}
            measure = "further_probability" if trial["rank"] else "probability"
            point = {"measure": measure, "point": trial["probability"], "unit": "probability", "summary": "layer"}
            yield {**common, **said, **point}
        for method, layers, first in _first(trials):
            where = {"layer": None, **of_all(layers)}
            yield {**common, **where, "method": method, "measure": "first_layer", "point": first, "unit": "layers"}


def _first(trials: pd.DataFrame) -> Iterator[tuple[str, list[int], float]]:
    """Method, layers observed, and the lowest at which it says what the model says."""
    top = trials[trials["rank"] == 0]
    model = top[top["method"] == MODEL].iloc[0]
    for method, rows in top[top["method"] != MODEL].groupby("method", sort=False, observed=True):
        agreeing = rows[rows["token"] == model["token"]]["layer"]
        yield str(method), sorted(rows["layer"]), float(agreeing.min() if len(agreeing) else model["layer"])
