"""The table of targets: benchmark files summed, verdicts counted."""

from __future__ import annotations

import pandas as pd
import pytest

from lensproof.figures import targets


def benchmark(folder, name, seconds, memory, busy="NA"):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"s\th:m:s\tmax_rss\tcpu_time\n{seconds}\t0:00:01\t{memory}\t{busy}\n")


@pytest.fixture
def table(tmp_path):
    benchmark(tmp_path, "steering/toy/000.tsv", 40, 1024, 30)
    benchmark(tmp_path, "steering/toy/001.tsv", 50, 2048, 45)
    benchmark(tmp_path, "estimates/steering/toy.tsv", 5, "NA")
    benchmark(tmp_path, "steering/other/000.tsv", 7, 100)
    benchmark(tmp_path, "readings/toy/000.tsv", 11, 512, 10)
    claims = pd.DataFrame({
        "claim": ["a", "b", "c", "a"], "checkpoint": ["toy", "toy", "toy", "other"],
        "verdict": ["reproduced", "contradicted", "reproduced", "not testable"],
    })  # fmt: skip
    experiments = dict.fromkeys("ab", "lexframe/steering") | {"c": "lexframe/readings"}
    return targets.tidy("lexframe", tmp_path, claims, experiments)


def cell(table, target, checkpoint="toy"):
    return table[(table["target"] == target) & (table["checkpoint"] == checkpoint)].iloc[0]


def test_a_targets_own_jobs_are_summed_and_the_largest_memory_counts(table):
    row = cell(table, "table5")
    assert (row["seconds"], row["peak_megabytes"], row["jobs"]) == (95, 2048, 3)
    assert row["cpu_seconds"] == 30 + 45 + 5  # where it was not sampled, the wall time
    assert cell(table, "table5", "other")["seconds"] == 7


def test_verdicts_of_its_claims_are_counted(table):
    assert cell(table, "table5")["verdicts"] == "1 reproduced, 1 contradicted"
    assert cell(table, "table5", "other")["verdicts"] == "1 not testable"
    assert cell(table, "table7")["verdicts"] == ""


def test_what_is_made_from_other_observations_costs_those(table):
    assert cell(table, "table7")["seconds"] == 11


def test_as_text_each_target_is_a_line(table):
    text = targets.markdown(table, {"toy": "A toy"}).splitlines()
    assert text[0].startswith("| target | command | A toy: processor time, memory | A toy: claims | other: processor")
    (line,) = [line for line in text if "lexframe_table5`" in line]
    assert "1.3 min, 2.0 GB" in line


def test_a_papers_targets_cost_its_own_jobs(tmp_path):
    benchmark(tmp_path, "gathered/visibility/toy/language_000.tsv", 20, 300)
    benchmark(tmp_path, "gathered/estimates/visibility/toy.tsv", 2, 100)
    benchmark(tmp_path, "gathered/availability/toy/language_000.tsv", 5, 200)
    benchmark(tmp_path, "query_states/toy/language_000.tsv", 9, 900)
    benchmark(tmp_path, "steering/toy/000.tsv", 40, 1024)
    claims = pd.DataFrame({
        "claim": ["g", "l"], "checkpoint": ["toy", "lexframe-only"], "verdict": ["reproduced", "reproduced"],
    })  # fmt: skip
    table = targets.tidy("gathered", tmp_path, claims, {"g": "gathered/visibility", "l": "lexframe/steering"})
    assert set(table["checkpoint"]) == {"toy"}
    assert cell(table, "entry")["seconds"] == 27
    assert cell(table, "across")["seconds"] == 22
    assert cell(table, "across")["command"] == "snakemake --cores 2 gathered_across"
    assert cell(table, "query_states")["peak_megabytes"] == 900
    assert cell(table, "contrasts")["verdicts"] == "1 reproduced"
    assert "overview" not in set(table["target"])
