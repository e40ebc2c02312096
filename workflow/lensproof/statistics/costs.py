"""Estimates of what methods cost, from the measured times of a run's jobs (LexFrame appendix C.3)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from lensproof.errors import LensproofError
from lensproof.statistics.sample import Sample
from lensproof.statistics.table import Row, finish, row

FIT, CALIBRATE, READ = "jacobian_lens", "calibration", "readings"


def estimate(observations: pd.DataFrame, *, resamples: int, level: float, seed: int) -> pd.DataFrame:
    """Processor seconds, and how a Jacobian lens's fit compares with calibrating and reading.

    Args:
        observations: one row per job of one checkpoint: ``method`` (``jacobian_lens``, ``calibration`` or
            ``readings``), ``items`` (prompts or sequences), ``seconds`` (missing where the job was not timed: those
            that were stand for it).
        resamples: bootstrap resamples over jobs.
        level: of the intervals, 0.95 for 95%.
        seed: of the resamples.

    Returns:
        Measures ``seconds`` (in all), ``seconds_per_item`` (of a prompt or a sequence) and, for ``jacobian_lens``,
        ``time_ratio``: its fit's seconds over those of calibrating and reading the test set. Jobs are resampled within
        their step: the interval says how far times scatter on this machine. ``clusters`` counts jobs.

    Raises:
        LensproofError: a step was not timed.
    """
    sample = Sample.of(observations, resamples=resamples, level=level, seed=seed, needs=("items", "seconds"))
    for step in (FIT, CALIBRATE, READ):
        if observations.loc[observations["method"] == step, "seconds"].isna().all():
            raise LensproofError(f"{sample.checkpoint}: no job of {step} was timed")
    return finish(sample, "costs", _rows(sample, observations))


def _rows(sample: Sample, observations: pd.DataFrame) -> Iterator[Row]:
    totals = {}
    generator = np.random.default_rng(sample.seed)
    for step in (FIT, CALIBRATE, READ):
        jobs = observations[observations["method"] == step]
        timed, items = jobs.dropna(subset="seconds"), int(jobs["items"].sum())
        drawn = generator.integers(len(timed), size=(sample.resamples, len(timed)))
        drawn = np.vstack([np.arange(len(timed)), drawn])
        per_item = timed["seconds"].to_numpy()[drawn].sum(axis=1) / timed["items"].to_numpy()[drawn].sum(axis=1)
        totals[step] = per_item * items
        same = {"summary": "all_layers", "n": len(timed), "unit": "seconds"}
        yield row(sample, step, totals[step], measure="seconds", **same)
        yield row(sample, step, per_item, measure="seconds_per_item", **same)
    ratio = totals[FIT] / (totals[CALIBRATE] + totals[READ])
    yield row(sample, FIT, ratio, measure="time_ratio", unit="ratio", summary="all_layers", n=len(observations))
