"""``lensproof estimate-readings``: estimates of the readings experiment from its observations."""

from __future__ import annotations

from pathlib import Path

import click

from lensproof import options


@click.command("estimate-readings")
@click.argument("observations", nargs=-1, required=True, type=options.FILE)
@click.option("--resamples", default=1000, show_default=True, type=click.IntRange(min=100), help="Bootstrap resamples.")
@click.option("--level", default=0.95, show_default=True, type=click.FloatRange(0.5, 1, min_open=True, max_open=True))
@click.option("--seed", default=0, show_default=True, type=int, help="Seed of the resamples.")
@options.out
def command(observations: tuple[Path, ...], resamples: int, level: float, seed: int, out: Path) -> None:
    """Estimate KL, Top-1 and calibration error of one checkpoint's readings, with intervals over documents.

    OBSERVATIONS are the shards of one checkpoint.
    """
    import pandas as pd

    from lensproof.files import read_parquet, write_parquet
    from lensproof.provenance import record
    from lensproof.statistics.readings import estimate_readings

    trials = pd.concat([read_parquet(path) for path in observations], ignore_index=True)
    estimates = estimate_readings(trials, resamples=resamples, level=level, seed=seed)
    inputs = {path.name: path for path in observations}
    settings = {"resamples": resamples, "level": level, "seed": seed}
    write_parquet(out, estimates, record("estimate_readings", inputs, **settings))
