"""Estimates of what methods cost, from the measured times of a run's jobs (LexFrame appendix C.3)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pandas as pd

from lensproof.errors import LensproofError
from lensproof.statistics.sample import Sample
from lensproof.statistics.table import Row, finish, row

FIT, CALIBRATE, READ = "jacobian_lens", "calibration", "readings"
CLOCKS = {None: "seconds", "wall": "wall_seconds"}
"""Setting -> the column with its times: the processor's, or the wall clock's, which count what a GPU does too."""
UNKNOWN = {"lo": np.nan, "hi": np.nan}


def estimate(observations: pd.DataFrame, *, resamples: int, level: float, seed: int) -> pd.DataFrame:
    """Processor and wall seconds, and how a Jacobian lens's fit compares with calibrating and reading.

    Args:
        observations: one row per job of one checkpoint: ``method`` (``jacobian_lens``, ``calibration`` or
            ``readings``), ``items`` (prompts or sequences), ``seconds`` of the processor and ``wall_seconds`` (missing
            where the job was not timed: those that were stand for it).
        resamples: bootstrap resamples over jobs.
        level: of the intervals, 0.95 for 95%.
        seed: of the resamples.

    Returns:
        Measures ``seconds`` (in all), ``seconds_per_item`` (of a prompt or a sequence) and, for ``jacobian_lens``,
        ``time_ratio``: its fit's seconds over those of calibrating and reading the test set. ``setting`` is null for
        the processor's time, ``wall`` by the wall clock. Jobs are resampled within their step: the interval says how
        far times scatter on this machine; where no step behind a number was more than one job, there is none.
        ``clusters`` counts jobs.

    Raises:
        LensproofError: a step was not timed.
    """
    needs = ("items", *CLOCKS.values())
    sample = Sample.of(observations, resamples=resamples, level=level, seed=seed, needs=needs)
    for step, column in itertools.product((FIT, CALIBRATE, READ), CLOCKS.values()):
        if observations.loc[observations["method"] == step, column].isna().all():
            raise LensproofError(f"{sample.checkpoint}: no job of {step} was timed")
    rows = (_rows(sample, observations, column, setting) for setting, column in CLOCKS.items())
    return finish(sample, "costs", itertools.chain.from_iterable(rows))


def _rows(sample: Sample, observations: pd.DataFrame, column: str, setting: str | None) -> Iterator[Row]:
    totals, scatter = {}, {}
    generator = np.random.default_rng(sample.seed)
    common = {"summary": "all_layers", "setting": setting}
    for step in (FIT, CALIBRATE, READ):
        jobs = observations[observations["method"] == step]
        timed, items = jobs.dropna(subset=column), int(jobs["items"].sum())
        drawn = generator.integers(len(timed), size=(sample.resamples, len(timed)))
        drawn = np.vstack([np.arange(len(timed)), drawn])
        per_item = timed[column].to_numpy()[drawn].sum(axis=1) / timed["items"].to_numpy()[drawn].sum(axis=1)
        totals[step], scatter[step] = per_item * items, UNKNOWN if len(timed) == 1 else {}
        same = {**common, "n": len(timed), "unit": "seconds"}
        yield row(sample, step, totals[step], measure="seconds", **same) | scatter[step]
        yield row(sample, step, per_item, measure="seconds_per_item", **same) | scatter[step]
    ratio = totals[FIT] / (totals[CALIBRATE] + totals[READ])
    known = {} if any(not unknown for unknown in scatter.values()) else UNKNOWN
    yield row(sample, FIT, ratio, measure="time_ratio", unit="ratio", n=len(observations), **common) | known
