"""Trials of the readings experiment, whole or refused: several estimates are computed from them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from lensproof.errors import LensproofError
from lensproof.statistics.methods import MODEL
from lensproof.statistics.sample import Cells, Sample

NEEDED = ("sequence", "position", "kl", "agrees", "confidence", "correct")


class Trials(NamedTuple):
    """Each method read every position once at each of its layers, so that all statistics of them are paired."""

    sample: Sample
    readings: pd.DataFrame
    """Without the model's own."""
    depth: int
    """L, the layer at which the model itself was read."""

    @classmethod
    def of(cls, observations: pd.DataFrame, *, resamples: int, level: float, seed: int) -> Trials:
        """Check and divide the observations.

        Args:
            observations: trials of ``readings`` (``workflow/schemas/observations_readings.schema.yaml``).
            resamples: bootstrap resamples.
            level: of the intervals, 0.95 for 95%.
            seed: of the resamples.

        Raises:
            LensproofError: a column, a method, a trial, every middle layer or all but one document is missing, or a
                trial stands twice.
        """
        sample = Sample.of(observations, resamples=resamples, level=level, seed=seed, needs=NEEDED)
        model = (observations["method"] == MODEL).to_numpy()
        if not model.any() or model.all():
            raise LensproofError("the observations need trials of the model itself and of at least one reading")
        own, readings = observations[model], observations[~model]
        if own[["document", "sequence", "position"]].duplicated().any():
            raise LensproofError("the observations hold a position twice: give each shard once")
        depth = int(own["layer"].max())
        layers = _whole(sample, own, readings)
        if not any(0 < layer < depth for layer in layers):
            raise LensproofError("no layer between the embedding and the last was read: widen readings.layers")
        return cls(sample, readings, depth)


def _whole(sample: Sample, own: pd.DataFrame, readings: pd.DataFrame) -> list[int]:
    """The layers read, if no trial of a method at one of its layers is missing."""
    cells = Cells.of(sample, readings)
    positions = np.bincount(sample.document(own), minlength=len(sample.documents))
    wrong = (cells.counts != positions[:, None, None]) & cells.counts.any(axis=0)
    if wrong.any():
        _, method, layer = np.argwhere(wrong)[0]
        raise LensproofError(
            f"the observations are not whole: {cells.methods[method]} at layer {cells.layers[layer]} has not exactly "
            "one trial per position; remove the observations and build them again"
        )
    return cells.layers
