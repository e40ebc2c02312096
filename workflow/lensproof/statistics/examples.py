"""The examples of LexFrame's table 9: nothing is averaged, so the trials stand as they are."""

from __future__ import annotations

import pandas as pd

from lensproof.errors import LensproofError

COLUMNS = ("checkpoint", "prefix", "method", "layer", "rank", "token", "probability")


def estimate(observations: pd.DataFrame, *, resamples: int, level: float, seed: int) -> pd.DataFrame:
    """The examples themselves, one row per prefix, method, layer and rank; the other arguments are not used.

    Raises:
        LensproofError: there is none, or a column is missing.
    """
    missing = [column for column in COLUMNS if column not in observations.columns]
    if missing or observations.empty:
        raise LensproofError(f"the observations lack {', '.join(missing) or 'trials'}: build them again")
    return observations[list(COLUMNS)].reset_index(drop=True)
