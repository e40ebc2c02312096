"""Estimates of the ``worked_example`` experiment: single trials, of which nothing is averaged and no interval is had.

``rank`` (from 0) and ``rz`` are the latent variable's, whose text is ``token``; ``probability`` is that of the token
that stands first in the reading, ``further_probability`` of those after it, with ``rank`` and ``token`` beside the
columns of all estimates; ``vocabulary`` is the number of tokens.
"""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from lensproof.statistics.examples import singles
from lensproof.statistics.sample import depth_of, whole
from lensproof.statistics.table import Row

NEEDED = ("checkpoint", "records", "method", "layer", "place", "token", "rank", "rz", "probability", "vocabulary")


def estimate(observations: pd.DataFrame, *, resamples: int, level: float, seed: int) -> pd.DataFrame:
    """One row per record set, arm, layer and place; ``setting`` is the set.

    Args:
        observations: trials of one checkpoint.
        resamples: as of the other estimates of the run; nothing is drawn.
        level: likewise.
        seed: likewise.

    Raises:
        LensproofError: there is no trial, or a column is missing.
    """
    whole(observations, NEEDED)
    about = {"resamples": resamples, "level": level, "seed": seed, "depth": depth_of(observations)}
    return singles(_rows(observations), "worked_example", **about)


def _rows(observations: pd.DataFrame) -> Iterator[Row]:
    for (checkpoint, name), trials in observations.groupby(["checkpoint", "records"], sort=True, observed=True):
        common = {"checkpoint": str(checkpoint), "setting": str(name)}
        for trial in trials.sort_values(["method", "layer", "place"], kind="stable").to_dict("records"):
            where = {"method": trial["method"], "layer": trial["layer"], "summary": "layer", "token": trial["token"]}
            yield from ({**common, **where, **row} for row in (_first if trial["place"] else _latent)(trial))
        whole = {"method": "any_token", "layer": None, "summary": "all_layers", "unit": "tokens"}
        yield {**common, **whole, "measure": "vocabulary", "point": float(trials["vocabulary"].iloc[0])}


def _latent(trial: Row) -> Iterator[Row]:
    yield {"measure": "rank", "point": float(trial["rank"]), "unit": "tokens"}
    yield {"measure": "rz", "point": trial["rz"], "unit": "percentile rank"}


def _first(trial: Row) -> Iterator[Row]:
    measure = "further_probability" if trial["rank"] else "probability"
    said = {"rank": trial["rank"], "probability": trial["probability"]}
    yield {"measure": measure, "point": trial["probability"], "unit": "probability", **said}
