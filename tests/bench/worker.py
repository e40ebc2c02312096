"""A job in a process and an environment of its own, which does its work each time it is asked to."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from lensproof.errors import LensproofError
from tests.bench import environment

JOBS = Path(__file__).parent / "jobs"
PACKAGE = environment.ROOT / "workflow"
PEERS = {
    "readings_peer": "lexframe-1.0.0",
    "jacobian_peer": "lexframe-1.3.0",
    "basis_peer": "lexframe-1.0.0",
    "attribution_peer": "lexframe-1.0.0",
}


class Worker:
    """Start ``jobs/<name>.py`` and wait until it is prepared; use it in a ``with`` statement.

    Args:
        name: of the job; one that ends in ``_peer`` runs in the peers' environment.
        job: what it reads: ``checkpoint``, ``threads``, token ids as lists, settings.

    Raises:
        LensproofError: the peers are not installed, or the job stopped.
    """

    def __init__(self, name: str, job: dict[str, Any]) -> None:
        self.name = name
        self.folder = tempfile.TemporaryDirectory(prefix="lensproof-bench-")
        self.result = Path(self.folder.name) / "result.npz"
        self.log = open(Path(self.folder.name) / "log", "w+")  # noqa: SIM115, closed in close()
        description = json.dumps({**job, "checkpoint": str(job["checkpoint"]), "result": str(self.result)})
        peer = PEERS.get(name)
        self.process = subprocess.Popen(
            [environment.python() if peer else sys.executable, JOBS / f"{name}.py", description],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            env=_variables(environment.package(peer) if peer else PACKAGE, job["threads"]),
        )
        self._answer()

    def run(self) -> tuple[float, dict[str, np.ndarray]]:
        """Do the work once: its seconds, and its numbers."""
        self.process.stdin.write("run\n")
        self.process.stdin.flush()
        seconds = self._answer()["seconds"]
        with np.load(self.result) as arrays:
            return seconds, dict(arrays)

    def close(self) -> None:
        """End the process."""
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
        self.log.close()
        self.folder.cleanup()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _answer(self) -> dict[str, Any]:
        line = self.process.stdout.readline()
        if line:
            return json.loads(line)
        self.process.wait()
        self.log.seek(0)
        said = [text.strip() for text in self.log if text.strip()] or ["it said nothing"]
        self.close()
        raise LensproofError(f"the job {self.name} stopped with status {self.process.returncode}: {said[-1]}")


def _variables(path: Path, threads: int) -> dict[str, str]:
    """This process's variables, with one Python path, so many threads and no network."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    counts = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    return {**kept, **counts, "PYTHONPATH": str(path), "PYTHONUTF8": "1", "HF_HUB_OFFLINE": "1"}
