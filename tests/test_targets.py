"""The table of targets: benchmark files summed, verdicts counted."""

from __future__ import annotations

import pandas as pd
import pytest

from lensproof.claims import catalogue
from lensproof.figures import targets
from lensproof.figures.catalogue import FIGURES, PAPERS, TABLES


def benchmark(folder, name, seconds, memory, busy="NA"):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"s\th:m:s\tmax_rss\tcpu_time\n{seconds}\t0:00:01\t{memory}\t{busy}\n")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    """Commands name the preset of the results of the folder that they are printed in: here there are none."""
    monkeypatch.chdir(tmp_path)


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
    entries = {
        "a": {"paper": "lexframe", "experiment": "steering", "location": "Table 5; section 4.4"},
        "b": {"paper": "lexframe", "experiment": "steering", "location": "Section 4.4"},
        "c": {"paper": "lexframe", "experiment": "readings", "location": "Section 4.1, figure 4 and table 1"},
        "d": {"paper": "lexframe", "experiment": "readings", "location": "Section 4.1"},
    }
    return targets.tidy("lexframe", tmp_path, claims, entries)


def cell(table, target, checkpoint="toy"):
    return table[(table["target"] == target) & (table["checkpoint"] == checkpoint)].iloc[0]


def test_a_targets_own_jobs_are_summed_and_the_largest_memory_counts(table):
    row = cell(table, "table5")
    assert (row["seconds"], row["peak_megabytes"], row["jobs"]) == (95, 2048, 3)
    assert row["cpu_seconds"] == 30 + 45 + 5  # where it was not sampled, the wall time
    assert cell(table, "table5", "other")["seconds"] == 7


def test_times_of_steps_that_this_run_does_not_have_are_left_out(tmp_path):
    """A run with other shards left them."""
    for name in ("steering/toy/000.tsv", "steering/toy/001.tsv", "steering/toy/002.tsv"):
        benchmark(tmp_path, name, 40, 1024, 30)
    claims = pd.DataFrame({"claim": ["a"], "checkpoint": ["toy"], "verdict": ["reproduced"]})
    only = [tmp_path / "steering/toy" / name for name in ("000.tsv", "001.tsv")]
    entries = {"a": {"paper": "lexframe", "experiment": "steering", "location": "Table 5"}}
    assert cell(targets.tidy("lexframe", tmp_path, claims, entries, only), "table5")["jobs"] == 2
    assert cell(targets.tidy("lexframe", tmp_path, claims, entries), "table5")["jobs"] == 3


def test_verdicts_of_its_claims_are_counted(table):
    assert cell(table, "table5")["verdicts"] == "1 reproduced, 1 contradicted"
    assert cell(table, "table5", "other")["verdicts"] == "1 not testable"
    assert cell(table, "fig4")["verdicts"] == "1 reproduced"  # the first place that is named
    assert cell(table, "table1")["verdicts"] == ""


@pytest.mark.parametrize("paper", PAPERS)
def test_every_claim_is_counted_once(tmp_path, paper):
    """Whatever shares its experiment, and of its own paper."""
    entries = catalogue.load("claims")["claims"]
    claims = pd.DataFrame({"claim": list(entries), "checkpoint": "toy", "verdict": "reproduced"})
    counted = targets.tidy(paper, tmp_path, claims, entries)["verdicts"]
    own = [entry for entry in entries.values() if entry["paper"] == paper]
    assert sum(int(cell.split()[0]) for cell in counted if cell) == len(own)


def test_every_figure_and_table_is_a_target(table):
    own = {*FIGURES["lexframe"], *TABLES["lexframe"]}
    assert set(table["target"]) == {*own, "typical_attention", "jacobian_lens"}
    text = targets.markdown("lexframe", table)
    for name in own:
        assert f"`snakemake --cores 2 lexframe_{name}`" in text


def test_a_benchmark_file_is_of_one_experiment_or_shared(tmp_path):
    """The steps of the real workflow: each file counts once under the targets that show what it serves."""
    directions, tuned = {"fig1", "fig7", "fig8"}, {"fig4", "table1", "translators"}
    served = {
        "directions/toy/000.tsv": directions, "coherence/toy/000.tsv": directions, "ridge_probe/toy.tsv": directions,
        "tuned_lens/toy/0.tsv": tuned, "translators/toy/000.tsv": tuned,
        "typical_attention/toy/enwiki_sample_1024.tsv": {"fig9"}, "typical_attention/toy/part_2.tsv": {"table8"},
        "typical_attention/toy-initial.tsv": {"fig6"}, "checkpoint/toy-initial.tsv": {"fig6"},
        "training/toy-initial/000.tsv": {"fig6"}, "readings/toy/000.tsv": {"fig4", "table1", "table7", "intervals"},
        "estimates/readings/toy.tsv": {"fig4", "table1"}, "typical_attention/toy.tsv": {"typical_attention"},
        "jacobian_lens/toy/0.tsv": {"jacobian_lens"}, "checkpoint/toy.tsv": set(), "checkpoint/toy-five-arm.tsv": set(),
    }  # fmt: skip
    claims = pd.DataFrame({"claim": ["a"], "checkpoint": ["toy"], "verdict": ["reproduced"]})
    entries = {"a": {"paper": "lexframe", "experiment": "readings", "location": "Section 4.1"}}
    for number, (name, expected) in enumerate(served.items()):
        folder = tmp_path / str(number)
        benchmark(folder, name, 7, 100)
        table = targets.tidy("lexframe", folder, claims, entries)
        assert set(table[table["jobs"] > 0]["target"]) == expected, name
        assert (table["jobs"] <= 1).all()


def test_what_is_made_from_other_observations_costs_those(table):
    assert cell(table, "table7")["seconds"] == 11


def test_as_text_each_target_is_a_line(table):
    counted, empty, *text = targets.markdown("lexframe", table, {"toy": "A toy"}).splitlines()
    assert (counted, empty) == (targets.counted("lexframe"), "")
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
    entries = {
        "g": {"paper": "gathered", "experiment": "visibility", "location": "Code, a note"},
        "l": {"paper": "lexframe", "experiment": "steering", "location": "Table 5"},
    }
    table = targets.tidy("gathered", tmp_path, claims, entries)
    assert set(table["checkpoint"]) == {"toy"}
    assert cell(table, "entry")["seconds"] == 27
    assert cell(table, "across")["seconds"] == 22
    assert cell(table, "across")["command"] == "snakemake --cores 2 gathered_across"
    assert cell(table, "query_states")["peak_megabytes"] == 900
    assert cell(table, "contrasts")["verdicts"] == "1 reproduced"
    assert cell(table, "overview")["jobs"] == 0
    assert "The Jacobian lens and query states, which many need" in targets.markdown("gathered", table)
