"""Every figure and table as a target: the command that builds it, what its own steps cost, and its claims' verdicts.

Times are sums over the benchmark files that Snakemake left: of processor time, which what else the machine does
lengthens little, and of wall time, one job after another. A target's are those of observing and estimating the
experiments that it shows, and of steps that only these need; an experiment that several targets show counts under each.
What many need, such as the Jacobian lens, stands in rows of its own; fetching, cutting into sequences,
merging of shards and drawing, which take seconds, are not timed. Memory is the largest of any of its jobs. A claim is
counted once, under the first target that its place in the paper names, or else the first table that shows its
experiment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from lensproof.claims.records import VERDICTS
from lensproof.experiments.catalogue import BESIDE, DERIVED
from lensproof.figures.catalogue import CLAIMS, FIGURES, TABLES, title
from lensproof.files import read_benchmark
from lensproof.presets import command

TARGETS = {paper: {**FIGURES[paper], **TABLES[paper]} for paper in FIGURES}
"""Paper -> figure or table -> the experiments that it shows."""
EXPERIMENT = {
    "lexframe": ("{source}/{checkpoint}/*.tsv", "estimates/{experiment}/{checkpoint}.tsv"),
    "gathered": ("gathered/{source}/{checkpoint}/*.tsv", "gathered/estimates/{experiment}/{checkpoint}.tsv"),
}
"""Paper -> benchmark files of an experiment's observations and estimates."""
OWN = {
    "directions": ("ridge_probe/{checkpoint}.tsv",),
    "translators": ("tuned_lens/{checkpoint}/*.tsv",),
    "long_context": ("typical_attention/{checkpoint}/*.tsv",),
    "training": (
        "training/{checkpoint}-*/*.tsv", "typical_attention/{checkpoint}-*.tsv", "checkpoint/{checkpoint}-*.tsv",
    ),
    "stand_ins": ("typical_attention/{checkpoint}/part_*.tsv",),
}  # fmt: skip
"""Experiment -> benchmark files of steps besides its observations and estimates that nothing else needs."""
ANOTHERS = {"long_context": OWN["stand_ins"], "training": ("checkpoint/{checkpoint}-five-arm.tsv",)}
"""Experiment -> files that its patterns match and that are of another."""
ARTIFACTS = {
    "Typical attention": "results/artifacts/{checkpoint}/typical_attention.safetensors",
    "Jacobian lens": "results/artifacts/{checkpoint}/jacobian_lens.safetensors",
    "Query states": "results/estimates/gathered/visibility/{checkpoint}.parquet",
}
"""Shared step -> a file that has it made."""
SHARED = {
    "lexframe": {
        "Typical attention": ("typical_attention/{checkpoint}.tsv",),
        "Jacobian lens": ("jacobian_lens/{checkpoint}/*.tsv",),
    },
    "gathered": {
        "Jacobian lens": ("jacobian_lens/{checkpoint}/*.tsv",),
        "Query states": ("query_states/{checkpoint}/*.tsv",),
    },
}
"""Paper -> step that several of its experiments start from -> its benchmark files."""
COLUMNS = (
    "target", "item", "command", "checkpoint", "cpu_seconds", "seconds", "peak_megabytes", "jobs", "verdicts",
)  # fmt: skip
COUNTED = (
    "Times are processor time of observing and estimating the experiments that a target shows, and of steps that only "
    "these need; an experiment that several targets show counts under each. {shared}, which many need, are the last "
    "two rows. A claim is counted once, under the first target that its place in the paper names, or else the first "
    "table that shows its experiment."
)
SHARED_NAMES = {"lexframe": "Typical attention and the Jacobian lens", "gathered": "The Jacobian lens and query states"}


def tidy(
    paper: str,
    benchmarks: Path,
    claims: pd.DataFrame,
    entries: Mapping[str, Mapping[str, Any]],
    only: Collection[Path] = (),
) -> pd.DataFrame:
    """One row per target and checkpoint (:data:`COLUMNS`).

    Args:
        paper: whose targets.
        benchmarks: ``results/benchmarks``.
        claims: ``results/claims.csv``.
        entries: claim -> what the catalogue says of it, its ``paper``, ``experiment`` and ``location``.
        only: benchmark files that count, where others may lie there too; none: all.
    """
    of, rows = {name: _target(entry) for name, entry in entries.items() if entry["paper"] == paper}, []
    claims = claims.assign(target=claims["claim"].map(of))[claims["claim"].isin(of)]
    checkpoints = list(dict.fromkeys(claims["checkpoint"].dropna()))
    for name, needed in TARGETS[paper].items():
        for checkpoint in checkpoints:
            own = claims[(claims["checkpoint"] == checkpoint) & (claims["target"] == name)]
            files = [file for experiment in needed for file in _files(benchmarks, paper, experiment, checkpoint)]
            rows.append((name, title(name), command(f"{paper}_{name}"), checkpoint, *_cost(files, only),
                         _verdicts(own["verdict"])))  # fmt: skip
    for item, patterns in SHARED[paper].items():
        for checkpoint in checkpoints:
            files = _matching(benchmarks, patterns, checkpoint=checkpoint)
            build = command(ARTIFACTS[item].format(checkpoint=checkpoint))
            rows.append((item.lower().replace(" ", "_"), item, build, checkpoint, *_cost(files, only), ""))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def counted(paper: str) -> str:
    """What a paper's table counts."""
    return COUNTED.format(shared=SHARED_NAMES[paper])


def markdown(paper: str, table: pd.DataFrame, titles: Mapping[str, str] | None = None) -> str:
    """The table as Markdown: what is counted, and a line per target with time, memory and verdicts by checkpoint."""
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
            cost = (
                f"{_duration(row['cpu_seconds'])}, {row['peak_megabytes'] / 1024:.1f} GB"
                if row["jobs"]
                else _untimed(paper, row["target"])
            )
            line += [cost, row["verdicts"] or ""]
        lines.append(line)
    return "\n".join([counted(paper), "", *(f"| {' | '.join(line)} |" for line in lines)])


def _target(entry: Mapping[str, Any]) -> str | None:
    """The target under which a claim is counted."""
    targets = {**TABLES[entry["paper"]], **FIGURES[entry["paper"]]}
    shows = [name for name, needed in targets.items() if entry["experiment"] in needed]
    where = {name: entry["location"].lower().find(title(name).lower()) for name in shows}
    named = [name for name in shows if where[name] >= 0]
    return min(named, key=where.__getitem__, default=next(iter(shows), None))


def _files(benchmarks: Path, paper: str, experiment: str, checkpoint: str) -> list[Path]:
    """Of an experiment's own steps."""
    if experiment == CLAIMS:
        return []
    sources = (DERIVED.get(experiment, experiment), *BESIDE.get(experiment, ()))
    patterns = (*EXPERIMENT[paper], *OWN.get(experiment, ()))
    found = [
        file
        for source in sources
        for file in _matching(benchmarks, patterns, source=source, experiment=experiment, checkpoint=checkpoint)
    ]
    others = _matching(benchmarks, ANOTHERS.get(experiment, ()), checkpoint=checkpoint)
    return [file for file in dict.fromkeys(found) if file not in others]


def _matching(benchmarks: Path, patterns: Iterable[str], **names: str) -> list[Path]:
    return [file for pattern in patterns for file in sorted(benchmarks.glob(pattern.format(**names)))]


def _cost(files: list[Path], only: Collection[Path]) -> tuple[float, float, float, int]:
    """Seconds of processor and of wall time, the largest memory in MB, and the number of jobs.

    Of jobs too short to be sampled Snakemake knows the wall time only, and that stands in for the other.
    """
    timed = [read_benchmark(file) for file in files if not only or file in only]
    memory = max((float(row["max_rss"]) for row in timed if pd.notna(row["max_rss"])), default=0.0)
    busy = sum(float(row["cpu_time"] if row["cpu_time"] > 0 else row["s"]) for row in timed)
    return busy, sum(float(row["s"]) for row in timed), memory, len(timed)


def _untimed(paper: str, target: str) -> str:
    """What stands in place of the cost of a target without jobs of its own."""
    return "all of these" if CLAIMS in TARGETS[paper].get(target, ()) else "seconds"


def _verdicts(verdicts: pd.Series) -> str:
    found = Counter(verdicts)
    return ", ".join(f"{found[verdict]} {verdict}" for verdict in VERDICTS if found[verdict])


def _duration(seconds: float) -> str:
    return f"{seconds / 60:.1f} min" if seconds >= 60 else f"{seconds:.0f} s"
