"""What methods cost: benchmark files to times, times to a ratio of budgets."""

from __future__ import annotations

import subprocess
import sys

import pandas as pd
import pytest

from lensproof.errors import LensproofError
from lensproof.files import read_parquet
from lensproof.statistics.costs import estimate


def jobs(**seconds):
    rows = [
        {"checkpoint": "toy", "document": i, "layer": 0, "method": step, "items": items, "seconds": time,
         "wall_seconds": time}
        for i, (step, items, time) in enumerate((s, n, t) for s, given in seconds.items() for n, t in given)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def value(table, measure, method, setting=None):
    table = table[table["setting"].isna() if setting is None else table["setting"] == setting]
    return table[(table["measure"] == measure) & (table["method"] == method)].iloc[0]


def test_the_ratio_is_of_all_seconds():
    table = jobs(jacobian_lens=[(1, 30.0), (1, 30.0)], calibration=[(8, 5.0)], readings=[(2, 10.0), (2, 5.0)])
    found = estimate(table, resamples=200, level=0.95, seed=0)
    assert value(found, "time_ratio", "jacobian_lens")["point"] == pytest.approx(60 / 20)
    assert value(found, "seconds_per_item", "readings")["point"] == pytest.approx(15 / 4)
    row = value(found, "time_ratio", "jacobian_lens")
    assert row["lo"] == pytest.approx(60 / 25)
    assert row["hi"] == pytest.approx(60 / 15)


def test_the_wall_clock_has_a_ratio_of_its_own():
    """On a GPU the processor waits: 3 of its seconds may be 60 on the wall."""
    table = jobs(jacobian_lens=[(1, 3.0)], calibration=[(8, 5.0)], readings=[(2, 10.0)])
    table.loc[table["method"] == "jacobian_lens", "wall_seconds"] = 60.0
    found = estimate(table, resamples=200, level=0.95, seed=0)
    assert value(found, "time_ratio", "jacobian_lens")["point"] == pytest.approx(3 / 15)
    assert value(found, "time_ratio", "jacobian_lens", "wall")["point"] == pytest.approx(60 / 15)
    assert value(found, "seconds", "jacobian_lens", "wall")["point"] == pytest.approx(60)


def test_jobs_without_a_time_are_stood_for_by_the_others():
    table = jobs(jacobian_lens=[(1, 30.0), (3, None)], calibration=[(8, 10.0)], readings=[(2, 5.0)])
    found = estimate(table, resamples=200, level=0.95, seed=0)
    assert value(found, "seconds", "jacobian_lens")["point"] == pytest.approx(120)


def test_one_job_has_no_interval():
    """It says nothing of how times scatter; the ratio has one where any step was several jobs."""
    table = jobs(jacobian_lens=[(1, 30.0)], calibration=[(8, 10.0)], readings=[(2, 5.0)])
    found = estimate(table, resamples=200, level=0.95, seed=0)
    assert found[["lo", "hi"]].isna().all(axis=None)
    assert found["point"].notna().all()
    table = jobs(jacobian_lens=[(1, 30.0), (1, 40.0)], calibration=[(8, 10.0)], readings=[(2, 5.0)])
    found = estimate(table, resamples=200, level=0.95, seed=0)
    known = found.set_index(["measure", "method"])["lo"].notna().groupby(level=[0, 1]).all()
    assert set(known[known].index) == {
        ("seconds", "jacobian_lens"), ("seconds_per_item", "jacobian_lens"), ("time_ratio", "jacobian_lens")
    }  # fmt: skip


def test_a_step_without_any_time_is_refused():
    table = jobs(jacobian_lens=[(1, None)], calibration=[(8, 10.0)], readings=[(2, 5.0)])
    table["wall_seconds"] = 5.0
    with pytest.raises(LensproofError, match="no job of jacobian_lens was timed"):
        estimate(table, resamples=200, level=0.95, seed=0)


def test_benchmark_files_become_rows(tmp_path):
    file = tmp_path / "job.tsv"
    file.write_text("s\th:m:s\tmax_rss\tcpu_time\n12.5\t0:00:12\t800.0\t11.0\n")
    command = [
        sys.executable,
        "-m",
        "lensproof",
        "timings",
        "--checkpoint",
        "toy",
        "--out",
        str(tmp_path / "out.parquet"),
    ]
    given = ["--job", f"readings:2={file}", "--job", f"readings:1={tmp_path / 'gone.tsv'}"]
    subprocess.run([*command, *given], check=True)
    table = read_parquet(tmp_path / "out.parquet")
    assert table["items"].tolist() == [2, 1]
    assert table["seconds"].iloc[0] == 11.0
    assert table["wall_seconds"].iloc[0] == 12.5
    assert table["peak_megabytes"].iloc[0] == 800.0
    assert table["seconds"].isna().tolist() == [False, True]
    wrong = subprocess.run([*command, "--job", "readings=x"], capture_output=True, text=True)
    assert wrong.returncode == 2
    assert "write it as STEP:ITEMS=FILE" in wrong.stderr
