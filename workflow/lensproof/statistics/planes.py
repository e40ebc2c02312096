"""The paths of LexFrame's figure 2: one example, whose coordinates are passed on as they are."""

from __future__ import annotations

import numpy as np
import pandas as pd

from lensproof.statistics.sample import depth_of, whole
from lensproof.statistics.table import COLUMNS, TYPES, behind

NEEDED = ("checkpoint", "method", "layer", "rank", "token", "x", "y", "kept")
MEASURES = {"x": "plane_x", "y": "plane_y"}


def estimate(observations: pd.DataFrame, *, resamples: int, level: float, seed: int) -> pd.DataFrame:
    """Two rows per layer and path, and one of the share that the plane keeps.

    Args:
        observations: trials of ``planes``.
        resamples: as of the other estimates of the run; nothing is drawn.
        level: likewise.
        seed: likewise.

    Returns:
        Rows (``workflow/schemas/estimates.schema.yaml``) without intervals: ``plane_x`` and ``plane_y`` of methods
        ``native_basis`` and ``state``, ``setting`` the token by its rank in the model's prediction (``token_1``), and
        ``plane_kept``; with a column ``token``, its text.

    Raises:
        LensproofError: there is no trial, or a column is missing.
    """
    whole(observations, NEEDED)
    points = observations.melt(
        ["checkpoint", "method", "layer", "rank", "token"], list(MEASURES), "axis", "point"
    ).assign(unit="cosine", summary="layer")
    points["measure"] = points["axis"].map(MEASURES)
    points["setting"] = [f"token_{rank + 1}" if rank >= 0 else None for rank in points["rank"]]
    kept = points.iloc[:1].assign(
        measure="plane_kept", method="state", setting=None, layer=None, token=None, summary="all_layers", unit="share",
        point=float(observations["kept"].iloc[0]),
    )  # fmt: skip
    layers = sorted(set(observations["layer"]))
    table = pd.concat([points.assign(layers=1, over=None), kept.assign(**behind(layers))], ignore_index=True).assign(
        experiment="planes", reference=None, contrast=None, lo=np.nan, hi=np.nan, numerator=np.nan, n=1, clusters=1,
        resamples=resamples, level=level, seed=seed, depth=depth_of(observations),
    )  # fmt: skip
    return table[[*COLUMNS, "token"]].astype({**TYPES, "token": "str"})
