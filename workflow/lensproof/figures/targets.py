"""Every figure and table as a target: the command that builds it, what its own steps cost, and its claims' verdicts.

Times are sums over the benchmark files that Snakemake left, of the steps that serve that experiment alone (what is
shared, such as typical attention and the Jacobian lens, stands in rows of its own): of processor time, which what else
the machine does lengthens little, and of wall time, one job after another. Memory is the largest of any of its jobs. A
verdict cell counts the claims on the target's experiments.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import pandas as pd

from lensproof.experiments.catalogue import DERIVED
from lensproof.figures.catalogue import CLAIMS, FIGURES, TABLES, title
from lensproof.files import read_benchmark
from lensproof.presets import command

OWN = {
    "directions": ("ridge_probe/{checkpoint}*.tsv",),
    "translators": ("tuned_lens/{checkpoint}/*.tsv",),
    "long_context": ("typical_attention/{checkpoint}/*.tsv",),
    "training": ("training/{checkpoint}-*/*.tsv", "typical_attention/{checkpoint}-*.tsv"),
    "stand_ins": ("calibrations/{checkpoint}/*.tsv",),
}
"""Experiment -> benchmark files of steps besides its observations and estimates that nothing else needs."""
SHARED = {
    "Typical attention": ("typical_attention/{checkpoint}.tsv",),
    "Jacobian lens": ("jacobian_lens/{checkpoint}/*.tsv",),
}
COLUMNS = (
    "target", "item", "command", "checkpoint", "cpu_seconds", "seconds", "peak_megabytes", "jobs", "verdicts",
)  # fmt: skip
ORDER = ("reproduced", "contradicted", "inconclusive", "not testable", "not run")


def tidy(benchmarks: Path, claims: pd.DataFrame, experiments: Mapping[str, str]) -> pd.DataFrame:
    """One row per target and checkpoint (:data:`COLUMNS`).

    Args:
        benchmarks: ``results/benchmarks``.
        claims: ``results/claims.csv``.
        experiments: claim -> experiment, ``lexframe/readings``.
    """
    checkpoints = list(dict.fromkeys(claims["checkpoint"].dropna()))
    of = claims["claim"].map(experiments).str.split("/").str[1]
    rows = []
    for name, needed in {**FIGURES, **TABLES}.items():
        for checkpoint in checkpoints if needed and CLAIMS not in needed else ():
            own = claims[(claims["checkpoint"] == checkpoint) & of.isin(needed)]
            files = [file for experiment in needed for file in _files(benchmarks, experiment, checkpoint)]
            rows.append((name, title(name), command(f"lexframe_{name}"), checkpoint, *_cost(files),
                         _verdicts(own["verdict"])))  # fmt: skip
    for item, patterns in SHARED.items():
        for checkpoint in checkpoints:
            files = _matching(benchmarks, patterns, checkpoint)
            artifact = f"results/artifacts/{checkpoint}/{item.lower().replace(' ', '_')}.safetensors"
            rows.append((item.lower().replace(" ", "_"), item, command(artifact), checkpoint,
                         *_cost(files), ""))  # fmt: skip
    return pd.DataFrame(rows, columns=list(COLUMNS))


def markdown(table: pd.DataFrame, titles: Mapping[str, str] | None = None) -> str:
    """The table as Markdown: a line per target, time, memory and verdicts of every checkpoint beside one another."""
    checkpoints = list(dict.fromkeys(table["checkpoint"]))
    names = [(titles or {}).get(name, name) for name in checkpoints]
    columns = ("processor time, memory", "claims")
    header = ["target", "command", *(f"{name}: {what}" for name in names for what in columns)]
    lines = [header, ["---", "---", *["---:", "---"] * len(names)]]
    for _, own in table.groupby("target", sort=False):
        first = own.iloc[0]
        cells = own.set_index("checkpoint")
        shared = len(set(own["command"])) > 1  # one command per checkpoint
        command = first["command"].replace(first["checkpoint"], "…") if shared else first["command"]
        line = [first["item"], f"`{command}`"]
        for name in checkpoints:
            row = cells.loc[name]
            cost = f"{_duration(row['cpu_seconds'])}, {row['peak_megabytes'] / 1024:.1f} GB" if row["jobs"] else ""
            line += [cost, row["verdicts"] or ""]
        lines.append(line)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _files(benchmarks: Path, experiment: str, checkpoint: str) -> list[Path]:
    source = DERIVED.get(experiment, experiment)
    patterns = (f"{source}/{{checkpoint}}/*.tsv", f"estimates/{experiment}/{{checkpoint}}.tsv")
    return _matching(benchmarks, (*patterns, *OWN.get(experiment, ())), checkpoint)


def _matching(benchmarks: Path, patterns: Iterable[str], checkpoint: str) -> list[Path]:
    return [file for pattern in patterns for file in sorted(benchmarks.glob(pattern.format(checkpoint=checkpoint)))]


def _cost(files: list[Path]) -> tuple[float, float, float, int]:
    """Seconds of processor and of wall time, the largest memory in MB, and the number of jobs.

    Of jobs too short to be sampled Snakemake knows the wall time only, and that stands in for the other.
    """
    timed = [read_benchmark(file) for file in files]
    memory = max((float(row["max_rss"]) for row in timed if pd.notna(row["max_rss"])), default=0.0)
    busy = sum(float(row["cpu_time"] if row["cpu_time"] > 0 else row["s"]) for row in timed)
    return busy, sum(float(row["s"]) for row in timed), memory, len(timed)


def _verdicts(verdicts: pd.Series) -> str:
    found = Counter(verdicts)
    return ", ".join(f"{found[verdict]} {verdict}" for verdict in ORDER if found[verdict])


def _duration(seconds: float) -> str:
    return f"{seconds / 60:.1f} min" if seconds >= 60 else f"{seconds:.0f} s"
