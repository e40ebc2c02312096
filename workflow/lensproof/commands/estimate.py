"""``lensproof estimate``: estimates of an experiment from its observations."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lensproof import options

if TYPE_CHECKING:
    from types import ModuleType


@click.command("estimate")
@click.argument("experiment")
@click.argument("observations", nargs=-1, required=True, type=options.FILE)
@click.option("--resamples", default=1000, show_default=True, type=click.IntRange(min=100), help="Bootstrap resamples.")
@click.option("--level", default=0.95, show_default=True, type=click.FloatRange(0.5, 1, min_open=True, max_open=True))
@click.option("--seed", default=0, show_default=True, type=int, help="Seed of the resamples.")
@options.out
def command(
    experiment: str, observations: tuple[Path, ...], resamples: int, level: float, seed: int, out: Path
) -> None:
    """Estimate what EXPERIMENT is about, with intervals over documents.

    EXPERIMENT is a module of lensproof.statistics, for example readings. OBSERVATIONS are the shards of one
    checkpoint that it is computed from.
    """
    statistics = _statistics(experiment)

    import pandas as pd

    from lensproof.files import read_parquet, write_parquet
    from lensproof.provenance import record

    trials = pd.concat([read_parquet(path) for path in observations], ignore_index=True)
    estimates = statistics.estimate(trials, resamples=resamples, level=level, seed=seed)
    inputs = {str(path): path for path in observations}
    settings = {"experiment": experiment, "resamples": resamples, "level": level, "seed": seed}
    write_parquet(out, estimates, record("estimate", inputs, modules=(statistics.__name__,), **settings))


def _statistics(experiment: str) -> ModuleType:
    """The module that estimates ``experiment``.

    Raises:
        LensproofError: there is none; the line names those that there are.
    """
    import importlib

    import lensproof.statistics
    from lensproof.errors import LensproofError

    known = sorted(path.stem for path in Path(lensproof.statistics.__path__[0]).glob("*.py") if _estimates(path))
    if experiment not in known:
        raise LensproofError(f"there is no experiment {experiment!r} to estimate: use one of {', '.join(known)}")
    return importlib.import_module(f"lensproof.statistics.{experiment}")


def _estimates(path: Path) -> bool:
    """Whether the module defines ``estimate``, found by reading it."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    return any(isinstance(node, ast.FunctionDef) and node.name == "estimate" for node in body)
