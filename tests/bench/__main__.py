"""``python -m tests.bench``: time this project and its peers on the same work, turn by turn, and write the table."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import numpy as np

from lensproof.errors import LensproofError
from tests.bench import environment, operations
from tests.bench.parity import attribution_difference, basis_difference, jacobian_difference, reading_difference
from tests.bench.worker import PEERS, Worker

ORDERS = [0, 1, 2]
AIMS = {
    "readings": "2.5 times the peer's speed and 0.6 of the matrix rate",
    "jacobian": "1.25 times the peer's speed and 0.7 of the matrix rate",
    "basis": "2 times the peer's speed and a mean cosine of 0.99",
    "attribution": "the peer's speed and its numbers to 1e-3",
    "records": "under 20 s (no peer: 400 instances of each family of the benchmark)",
}
ALONE = ("records",)
"""Benches without a peer."""
DIFFERENCES = {
    "readings": reading_difference,
    "jacobian": jacobian_difference,
    "basis": basis_difference,
    "attribution": attribution_difference,
}
TEXT, LABELS = 2, 64
"""Positions and tokens of the basis bench. The peer solves at all positions of a text, so the text is as short as one
with a prefix can be."""
PASSAGE = 16
"""Positions of the attribution bench."""
INSTANCES = 400
"""Of each family, in the records bench."""


@dataclass
class Timing:
    """Seconds of the two sides' runs, in turn, the machine's matrix rate around them, and how far results differ; or of
    ours alone, where there is no peer and nothing is multiplied."""

    bench: str
    operations: int
    difference: float = float("nan")
    ours: list[float] = field(default_factory=list)
    peer: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)

    def row(self) -> dict[str, Any]:
        """One row of ``results/bench.csv``."""
        ours = statistics.median(self.ours)
        if not self.peer:
            return {"bench": self.bench, "ours_s": round(ours, 3)}
        peer = statistics.median(self.peer)
        return {
            "bench": self.bench,
            "ours_s": round(ours, 3),
            "peer": PEERS[f"{self.bench}_peer"].replace("-", "=="),
            "peer_s": round(peer, 3),
            "ratio": round(peer / ours, 3),
            "matrix_share": round(self.operations / ours / statistics.median(self.rates), 3),
            "max_difference": float(f"{self.difference:.3g}"),
        }


def alternate(
    bench: str,
    job: dict[str, Any],
    needed: int,
    difference: Callable[[dict[str, np.ndarray], dict[str, np.ndarray]], float],
    rounds: int,
) -> Timing:
    """Run ours, the peer, ours, the peer, ...: what else the machine does then weighs on both alike."""
    timing = Timing(bench, needed)
    with Worker(f"{bench}_ours", job) as ours, Worker(f"{bench}_peer", job) as peer:
        for turn in range(rounds):
            found = {}
            for side, seconds in ((ours, timing.ours), (peer, timing.peer)):
                timing.rates.append(operations.matrix_rate(job["threads"]))
                took, found[side] = side.run()
                seconds.append(took)
                say(f"{side.name}, round {turn + 1} of {rounds}: {took:.1f} s")
            timing.difference = difference(found[ours], found[peer])
    return timing


def alone(bench: str, job: dict[str, Any], rounds: int) -> Timing:
    """Run ours by itself."""
    timing = Timing(bench, 0)
    with Worker(f"{bench}_ours", job) as ours:
        for turn in range(rounds):
            timing.ours.append(ours.run()[0])
            say(f"{ours.name}, round {turn + 1} of {rounds}: {timing.ours[-1]:.1f} s")
    return timing


def say(text: str) -> None:
    """Tell how far the run is."""
    print(f"bench: {text}", file=sys.stderr, flush=True)


@click.command()
@click.option("--checkpoint", default="smollm2-135m", show_default=True, help="Name in results/checkpoints.")
@click.option("--corpus", default="lee", show_default=True, help="Name in results/sequences/<checkpoint>.")
@click.option("--threads", type=click.IntRange(1), default=2, show_default=True, help="Of every side.")
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True, help="Runs of every side.")
@click.option("--calibration", type=click.IntRange(2), default=64, show_default=True, help="Calibration sequences.")
@click.option("--sequences", type=click.IntRange(1), default=1, show_default=True, help="Sequences to read.")
@click.option("--prompts", type=click.IntRange(1), default=1, show_default=True, help="Prompts of the Jacobian lens.")
@click.option("--only", type=click.Choice(list(AIMS)), help="One of the benches.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("results/bench.csv"), show_default=True)
def main(**options: Any) -> None:
    """Time this project and its peers on the same work, threads and precision."""
    try:
        if options["only"] not in ALONE:
            environment.make()
        run(**options)
    except LensproofError as error:
        sys.exit(f"bench: {error}")


def run(
    checkpoint: str,
    corpus: str,
    threads: int,
    rounds: int,
    calibration: int,
    sequences: int,
    prompts: int,
    only: str | None,
    out: Path,
) -> None:
    """All benches, and the table."""
    from lensproof.corpora import draw
    from lensproof.corpora.sequences import take, tokens
    from lensproof.files import read_parquet

    folder = Path("results/checkpoints") / checkpoint
    source = Path("results/sequences") / checkpoint / f"{corpus}.parquet"
    table = read_parquet(source)
    ids = {
        name: tokens(take(table, role, count)).tolist()
        for name, role, count in (
            ("calibration", "calibration", calibration), ("test", "test", sequences), ("prompts", "lens", prompts)
        )
    }  # fmt: skip
    job = {"checkpoint": folder.resolve(), "threads": threads, **ids}
    job |= {"orders": ORDERS, "skip": 16, "cotangents": 8, "peer_cotangents": 8, "lowest": 1}
    shape, length = operations.Shape.of(folder), len(ids["test"][0])
    job |= {"text": ids["test"][0][:TEXT], "passage": ids["test"][0][:PASSAGE]}
    job |= {"labels": draw.labels(table, LABELS).tolist(), "layer": shape.depth * 4 // 5}
    needed = {
        "readings": sequences * operations.reading(shape, length, max(ORDERS)),
        "jacobian": operations.jacobian_fit(shape, length, prompts, job["skip"], job["lowest"]),
        "basis": operations.basis(shape, TEXT, LABELS, job["layer"]),
        "attribution": operations.attribution(shape, PASSAGE),
    }
    job |= {"instances": INSTANCES}
    chosen = [name for name in AIMS if only in (None, name)]
    timings = [
        alone(name, job, rounds) if name in ALONE else alternate(name, job, needed[name], DIFFERENCES[name], rounds)
        for name in chosen
    ]
    write(out, timings, {"threads": threads, "calibration": calibration, "sequences": sequences, "prompts": prompts})


def write(out: Path, timings: list[Timing], settings: dict[str, Any]) -> None:
    """The table, its provenance with every single time, and a summary on the terminal."""
    import pandas as pd

    from lensproof.codehash import code_hash
    from lensproof.files import provenance_path, write_json, write_text
    from lensproof.provenance import record

    table = pd.DataFrame([timing.row() for timing in timings])
    write_text(out, table.to_csv(index=False))
    measured = {
        timing.bench: {name: value for name, value in vars(timing).items() if name != "bench"} for timing in timings
    }
    code = code_hash("readings", "fit_jacobian", "records", "lensproof.frames.basis", "lensproof.frames.frame")
    write_json(provenance_path(out), {**record("readings", **settings), "step": "bench", "code": code, **measured})
    print(table.to_string(index=False))
    for timing in timings:
        rate = f" ({statistics.median(timing.rates) / 1e9:.0f} GFLOP/s in this run)" if timing.rates else ""
        print(f"{timing.bench}: aim {AIMS[timing.bench]}{rate}")
    print(f"written to {out}")


if __name__ == "__main__":
    main()
