"""Against other people's packages, used as black boxes: readings of finite orders, the Jacobian lens, basis directions
and attribution.

A real checkpoint, a few real sequences; the peers get the same token ids. ``make test-peer`` installs them and builds
what is read here.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lensproof.corpora import draw
from lensproof.corpora.sequences import take, tokens
from lensproof.files import read_parquet
from tests.bench import parity
from tests.bench.worker import Worker

pytestmark = [pytest.mark.peer, pytest.mark.timeout(1800)]

CHECKPOINT = "smollm2-135m"


@pytest.fixture(scope="module")
def job(root: Path) -> dict:
    sequences = read_parquet(root / "results" / "sequences" / CHECKPOINT / "lee.parquet")

    def ids(role: str, count: int, length: int | None = None) -> list[list[int]]:
        return tokens(take(sequences, role, count))[:, :length].tolist()

    return {
        "checkpoint": root / "results" / "checkpoints" / CHECKPOINT,
        "threads": 2,
        "calibration": ids("calibration", 64),
        "test": ids("test", 2),
        "prompts": ids("lens", 2, length=33),  # sources and targets 16 .. 31
        "orders": [0, 1, 2],
        "skip": 16,
        "lowest": 1,
        "cotangents": 16,
        "peer_cotangents": 8,
        "text": ids("test", 1, length=5)[0],
        "passage": ids("test", 1, length=16)[0],
        "labels": draw.labels(sequences, 8).tolist(),
        "layer": 24,
    }


def both(bench: str, job: dict) -> list[dict[str, np.ndarray]]:
    """What the two sides find, one after the other."""
    found = []
    for side in ("ours", "peer"):
        with Worker(f"{bench}_{side}", job) as worker:
            found.append(worker.run()[1])
    return found


@pytest.fixture(scope="module")
def readings(job: dict) -> list[dict[str, np.ndarray]]:
    return both("readings", job)


@pytest.mark.parametrize(("order", "bound"), [(0, 0.10), (1, 0.03), (2, 0.03)])
def test_layer_mean_kl_of_an_order_is_the_authors(readings, order, bound):
    ours, peer = readings
    assert ours[f"kl_{order}"].shape == peer[f"kl_{order}"].shape
    assert parity.layer_mean_kl(peer, order) > 0.01, "there must be something to compare"
    assert parity.relative_kl_difference(ours, peer, order) < bound


@pytest.mark.parametrize("order", [0, 1, 2])
def test_orders_are_exact_where_the_authors_are_exact(readings, order):
    """At position 0, and at the layers L - n and above."""
    for side in readings:
        kl = side[f"kl_{order}"]
        assert np.abs(kl[:, :, 0]).max() < 1e-4
        assert np.abs(kl[:, -1 - order :]).max() < 1e-4


@pytest.mark.parametrize("order", [0, 1, 2])
def test_top_tokens_are_the_authors(readings, order):
    ours, peer = (side[f"top_{order}"] for side in readings)
    assert (ours == peer).mean() > 0.97


def test_jacobian_lens_is_the_peers(job):
    ours, peer = both("jacobian", job)
    assert ours["jacobians"].shape == peer["jacobians"].shape
    differences = parity.frobenius_differences(ours, peer)
    worst = int(differences.argmax())
    assert differences[worst] < 1e-3, f"layer {worst + 1}"


def test_basis_directions_are_the_authors(job):
    ours, peer = both("basis", job)
    cosines = parity.basis_cosines(ours, peer)
    assert cosines.shape == (5, 8)
    assert cosines.mean() >= 0.99
    assert cosines.min() >= 0.95


def test_attribution_is_the_authors(job):
    ours, peer = both("attribution", job)
    assert ours["attribution"].shape == peer["attribution"].shape
    assert parity.attribution_difference(ours, peer) < 1e-3
