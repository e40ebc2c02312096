"""``lensproof timings``: what jobs of a run cost, from the benchmark files that Snakemake left."""

from __future__ import annotations

from pathlib import Path

import click

from lensproof import options


@click.command()
@click.option("--checkpoint", "checkpoint", required=True, help="Name of the checkpoint that the jobs ran.")
@click.option(
    "--job", "jobs", multiple=True, required=True, metavar="STEP:ITEMS=FILE",
    help="A benchmark file, the step it timed, and how many prompts or sequences the job took.",
)  # fmt: skip
@options.out(".parquet")
def command(checkpoint: str, jobs: tuple[str, ...], out: Path) -> None:
    """Gather benchmark files into one row per job: step, items, processor seconds, wall seconds, peak memory.

    A job whose file is gone was run elsewhere or before a restart: its times are missing.
    """
    import pandas as pd

    from lensproof.errors import LensproofError
    from lensproof.files import read_benchmark, write_parquet
    from lensproof.provenance import record

    rows, inputs, missing = [], {}, dict.fromkeys(("cpu_time", "s", "max_rss"), float("nan"))
    for text in jobs:
        name, _, file = text.partition("=")
        step, _, items = name.partition(":")
        if not items.isdecimal() or not file:
            raise LensproofError(f"--job {text}: write it as STEP:ITEMS=FILE")
        timed = read_benchmark(file) if Path(file).is_file() else missing
        rows.append({
            "checkpoint": checkpoint, "document": len(rows), "method": step, "items": int(items), "layer": 0,
            "seconds": float(timed["cpu_time"]), "wall_seconds": float(timed["s"]),
            "peak_megabytes": float(timed["max_rss"]),
        })  # fmt: skip
        inputs |= {file: Path(file)} if Path(file).is_file() else {}
    write_parquet(out, pd.DataFrame(rows), record("timings", inputs))
