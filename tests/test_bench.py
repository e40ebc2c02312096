"""The bench itself: operations counted against hand calculations, jobs in processes of their own, its table."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from benchmark_world import checkpoint, said

from lensproof.errors import LensproofError
from tests.bench import __main__ as bench
from tests.bench import environment, operations, parity, worker

SHAPE = operations.Shape(width=4, mlp=6, heads=2, key_value_heads=1, head=3, depth=3, vocabulary=10)


def test_weights_of_a_block_by_hand():
    # q and o 4 x 6 each, k and v 4 x 3 each, three MLP matrices 4 x 6
    assert (SHAPE.keys_values, SHAPE.gated_mlp, SHAPE.block) == (24, 72, 144)


def test_shape_is_read_from_the_checkpoint(tmp_path):
    config = {
        "hidden_size": 4, "intermediate_size": 6, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 3,
        "num_hidden_layers": 3, "vocab_size": 10,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert operations.Shape.of(tmp_path) == SHAPE


def test_operations_of_the_lens_by_hand():
    # positions 2, 3 and 4 of 6; 4 outputs; 3 blocks of 144 weights; 2 prompts; 2 operations a multiply-add
    assert operations.jacobian_fit(SHAPE, length=6, prompts=2, skip=2) == 2 * 2 * 3 * 4 * 3 * 144
    assert operations.jacobian_fit(SHAPE, length=6, prompts=2, skip=2, lowest=1) == 2 * 2 * 3 * 4 * 2 * 144


def test_operations_of_order_zero_by_hand():
    # one token: 3 blocks of the model (144 weights, 6 scores, 6 of the mixture), its logits (4 x 10);
    # order 0 from layers 0, 1, 2: 3 + 2 + 1 blocks of 4 x 4 + 24 + 72, three rows of logits
    assert operations.reading(SHAPE, length=1, top=0) == 2 * (3 * 156 + 40 + 6 * 112 + 3 * 40)


def test_a_further_order_runs_one_block_less_from_every_layer():
    more = operations.reading(SHAPE, length=1, top=1) - operations.reading(SHAPE, length=1, top=0)
    assert more == 2 * ((2 + 1) * 156 + 2 * 40)


def test_operations_of_basis_directions_by_hand():
    # 2 states, 5 tokens, 2 steps there and back and one product before, 1 block of 144 weights left
    assert operations.basis(SHAPE, states=2, tokens=5, layer=2, steps=2) == 2 * 2 * 5 * 5 * 144


def test_operations_of_attribution_by_hand():
    # layers 1, 2, 3 have 2, 1, 0 blocks left; 4 positions of order 0 (16 + 24 + 72), 2 states at 3 positions
    assert operations.attribution(SHAPE, length=4) == 2 * 3 * (4 * 112 + 2 * 3 * 144)


def test_matrix_rate_is_a_rate():
    threads = torch.get_num_threads()
    size = 256
    start = time.perf_counter()
    rate = operations.matrix_rate(threads, size=size, repeats=3)
    slowest = 2 * size**3 / (time.perf_counter() - start)
    assert rate > slowest


ECHO = """
import numpy as np
from serve import serve, tokens

def prepare(job):
    print("this is not an answer")
    return lambda: {"total": tokens(job, "test").sum(-1).numpy()}

serve(prepare)
"""


@pytest.fixture
def jobs(tmp_path, monkeypatch):
    (tmp_path / "serve.py").write_text((worker.JOBS / "serve.py").read_text())
    monkeypatch.setattr(worker, "JOBS", tmp_path)
    return tmp_path


def test_a_job_runs_as_often_as_it_is_asked(jobs):
    (jobs / "echo.py").write_text(ECHO)
    with worker.Worker("echo", {"checkpoint": ".", "threads": 1, "test": [[1, 2], [3, 4]]}) as job:
        for _ in range(2):
            seconds, found = job.run()
            assert seconds >= 0
            np.testing.assert_array_equal(found["total"], [3, 7])
    assert job.process.returncode == 0


def test_a_job_that_stops_is_one_clear_line(jobs):
    (jobs / "broken.py").write_text("raise SystemExit('no such layer')")
    with pytest.raises(LensproofError, match=r"the job broken stopped with status 1: no such layer$"):
        worker.Worker("broken", {"checkpoint": ".", "threads": 1})


def test_missing_peers_are_one_clear_line(tmp_path, monkeypatch):
    monkeypatch.setattr(environment, "STAMP", tmp_path / "none")
    with pytest.raises(LensproofError, match=r"^the peers are not installed: run `.*environment` first$"):
        environment.python()


def test_a_changed_requirement_makes_the_environment_anew(tmp_path, monkeypatch):
    monkeypatch.setattr(environment, "STAMP", tmp_path / "stamp")
    environment.STAMP.write_text(environment._requirements())
    assert environment.is_complete()
    environment.STAMP.write_text("of other requirements")
    assert not environment.is_complete()


def test_peers_run_on_the_versions_of_the_projects_own_lock(root):
    def pins(path: Path) -> set[str]:
        return set(re.findall(r"^([\w.-]+==[\w.]+)", path.read_text(), re.MULTILINE))

    peers = pins(root / "envs" / "peers" / "requirements.lock")
    assert peers
    assert peers <= pins(root / "envs" / "requirements.lock")


@pytest.mark.parametrize("peer", environment.PEERS)
def test_a_peer_is_pinned_with_a_hash(root, peer):
    text = (root / "envs" / "peers" / f"{peer}.txt").read_text()
    assert re.search(rf"^{peer.replace('-', '==')} \\\n +--hash=sha256:[0-9a-f]{{64}}$", text, re.MULTILINE)


def test_layer_mean_leaves_out_the_first_and_the_last_layer():
    kl = np.array([[[9.0, 9.0], [1.0, 3.0], [2.0, 6.0], [0.0, 0.0]]])  # one sequence, layers 0 .. 3, two positions
    assert parity.layer_mean_kl({"kl_1": kl}, 1) == 3.0


def test_the_largest_difference_is_taken_over_orders():
    layers = np.ones((1, 4, 2))
    ours, peer = {"kl_0": 1.1 * layers, "kl_1": 0.98 * layers}, {"kl_0": layers, "kl_1": layers}
    assert parity.reading_difference(ours, peer) == pytest.approx(0.1)


def test_lenses_differ_relative_to_the_peers_norm():
    peer = np.stack([np.eye(2), 2 * np.eye(2)])
    ours = peer + np.array([[[0, 0], [0, 0]], [[0, 0.2 * np.sqrt(2)], [0, 0]]])
    np.testing.assert_allclose(parity.frobenius_differences({"jacobians": ours}, {"jacobians": peer}), [0, 0.1])
    assert parity.jacobian_difference({"jacobians": ours}, {"jacobians": peer}) == pytest.approx(0.1)


def test_basis_directions_differ_by_their_cosines_alone():
    peer = np.array([[[1.0, 0.0], [0.0, 2.0]]])
    ours = np.array([[[5.0, 0.0], [3.0, 4.0]]])
    np.testing.assert_allclose(parity.basis_cosines({"basis": ours}, {"basis": peer}), [[1.0, 0.8]])
    assert parity.basis_difference({"basis": ours}, {"basis": peer}) == pytest.approx(0.1)


def test_attributions_differ_relative_to_the_peers_norm():
    peer, ours = np.array([[3.0, 4.0]]), np.array([[3.0, 4.5]])
    assert parity.attribution_difference({"attribution": ours}, {"attribution": peer}) == pytest.approx(0.1)


def test_the_table_has_medians_ratio_and_share(tmp_path, capsys):
    timing = bench.Timing(
        "jacobian", 600, 2e-4, ours=[4.0, 2.0, 3.0], peer=[6.0, 9.0, 7.5], rates=[400.0, 250.0, 100.0]
    )
    bench.write(tmp_path / "bench.csv", [timing], {"threads": 1})
    (row,) = pd.read_csv(tmp_path / "bench.csv").to_dict("records")
    assert row == {
        "bench": "jacobian", "ours_s": 3.0, "peer": "lexframe==1.3.0", "peer_s": 7.5, "ratio": 2.5,
        "matrix_share": 0.8, "max_difference": 2e-4,
    }  # fmt: skip
    assert json.loads((tmp_path / "bench.provenance.json").read_text())["jacobian"]["ours"] == [4.0, 2.0, 3.0]
    assert "2.5" in capsys.readouterr().out


def test_records_are_timed_without_a_peer(tmp_path, capsys):
    job = {"checkpoint": checkpoint(tmp_path / "model", more=said()), "threads": 1, "instances": 4}
    timing = bench.alone("records", job, rounds=2)
    assert len(timing.ours) == 2
    assert timing.row() == {"bench": "records", "ours_s": pytest.approx(np.median(timing.ours), abs=1e-3)}
    bench.write(tmp_path / "bench.csv", [timing], {"threads": 1})
    assert "records: aim under 20 s" in capsys.readouterr().out
