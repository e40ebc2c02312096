"""``lensproof estimate``: estimates of an experiment from its observations."""

from __future__ import annotations

from pathlib import Path

import click

from lensproof import options


@click.command("estimate")
@click.argument("experiment")
@options.files("observations")
@click.option("--resamples", default=1000, show_default=True, type=click.IntRange(min=100), help="Bootstrap resamples.")
@click.option("--level", default=0.95, show_default=True, type=click.FloatRange(0.5, 1, min_open=True, max_open=True))
@click.option("--seed", default=0, show_default=True, type=int, help="Seed of the resamples.")
@options.out(".parquet")
def command(
    experiment: str, observations: tuple[Path, ...], resamples: int, level: float, seed: int, out: Path
) -> None:
    """Estimate what EXPERIMENT is about, with intervals over documents.

    EXPERIMENT is a module of lensproof.statistics, for example readings. OBSERVATIONS are the shards of one
    checkpoint that it is computed from.
    """
    from lensproof.files import read_parquet, write_parquet
    from lensproof.provenance import record
    from lensproof.statistics.sample import FACTORS, join

    statistics = options.estimation(experiment)
    trials = join({str(path): read_parquet(path, FACTORS) for path in observations})
    estimates = statistics.estimate(trials, resamples=resamples, level=level, seed=seed)
    inputs = {str(path): path for path in observations}
    settings = {"experiment": experiment, "resamples": resamples, "level": level, "seed": seed}
    write_parquet(out, estimates, record("estimate", inputs, modules=(statistics.__name__,), **settings))
