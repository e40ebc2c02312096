"""A run with other settings that was stopped half way: what it removed is missing, what was made before is of other
settings. What is then asked for is made anew if, and only if, anything that it rests on was told something else."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from runs import linked, snakemake

SMALL = ("--configfile", "workflow/presets/small.yaml")
FIGURE, TABLE, CLAIM = "lexframe_fig5", "lexframe_table1", "claim_lexframe_order1_top1"
FITTED, OBSERVED, ESTIMATED = "artifacts", "observations", "estimates"


def said(root: Path, folder: Path, *arguments: str) -> str:
    """What Snakemake says of a run that ends well."""
    done = snakemake(root, folder, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def made(root, tmp_path_factory):
    """A folder in which Snakemake holds every result of the small preset to be made."""
    folder = linked(root, tmp_path_factory.mktemp("made"))
    listed = said(root, folder, *SMALL, "--summary", "--", "all").splitlines()
    files = [folder / line.split("\t")[0] for line in listed if line.startswith("results/")]
    assert len(files) > 200
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    said(root, folder, *SMALL, "--touch", "--quiet", "all", "--", "all")
    return folder


@pytest.fixture
def stopped(made, tmp_path):
    """The same, and what takes from it the results of some kinds, as a stopped run does."""
    folder = tmp_path / "stopped"
    # The times of files are what Snakemake compares: they are kept.
    shutil.copytree(made, folder, symlinks=True)

    def without(*kinds: str) -> Path:
        for kind in kinds:
            shutil.rmtree(folder / "results" / kind)
        return folder

    return without


def planned(root: Path, folder: Path, target: str, *settings: str) -> set[str]:
    """The rules that a run would start."""
    text = said(root, folder, *settings, "--dry-run", "--quiet", "rules", "--", target)
    if "Nothing to be done" in text:
        return set()
    table = text.split("job ", 1)[1].splitlines()[2:]
    return {line.split()[0] for line in table[: next(n for n, line in enumerate(table) if line.startswith("total"))]}


CHANGES = {
    "an experiment's own": ("experiments={subspaces: {labels: 9}}", FIGURE),
    "text to calibrate on": ("calibration={sequences: 17}", CLAIM),
    "the lens": ("jacobian_lens={skip: 111}", TABLE),
    "the text": ("sequence_length=256", CLAIM),
    "a corpus": ("registry={corpora: {lee: {split: {calibration: 0.5, lens: 0.1, test: 0.4}}}}", FIGURE),
}
LEFT = {"figures alone": (FITTED, OBSERVED, ESTIMATED), "estimates too": (FITTED, OBSERVED), "lenses too": (OBSERVED,)}


@pytest.mark.parametrize("removed", LEFT.values(), ids=LEFT)
def test_nothing_that_is_left_is_made_again_with_the_settings_it_was_made_with(root, stopped, removed):
    folder = stopped(*removed)
    assert planned(root, folder, TABLE, *SMALL) == set()


@pytest.mark.parametrize(("change", "target"), CHANGES.values(), ids=CHANGES)
def test_what_rests_on_other_settings_is_made_again_although_what_it_was_made_from_is_gone(
    root, stopped, change, target
):
    rules = planned(root, stopped(FITTED, OBSERVED), target, *SMALL, "--config", change)
    assert {"observations_shard", "readings_shard"} & rules


@pytest.mark.parametrize("removed", LEFT.values(), ids=LEFT)
def test_another_preset_makes_it_again_whichever_step_the_run_was_stopped_in(root, stopped, removed):
    rules = planned(root, stopped(*removed), FIGURE, "--config", "preset=desk")
    assert {"observations_shard", "estimates", FIGURE} <= rules


def test_estimates_are_marked_with_the_preset_that_is_run(root, stopped, tmp_path):
    """Although they would be the same: verdicts of several presets are not compared."""
    (tmp_path / "mine.yaml").write_text("preset: mine")
    files = ("--configfile", SMALL[1], str(tmp_path / "mine.yaml"))
    rules = planned(root, stopped(), CLAIM, *files)
    assert {"readings_estimates", "judge_readings"} <= rules
    assert "readings_shard" not in rules


def test_what_does_not_rest_on_a_setting_is_left_alone(root, stopped):
    folder = stopped(OBSERVED)
    assert planned(root, folder, FIGURE, *SMALL, "--config", "experiments={composition: {labels: 9}}") == set()


@pytest.mark.parametrize("size", [2, 5])
def test_the_table_of_targets_counts_the_times_of_its_own_shards(root, stopped, size):
    settings = ("--config", f"experiments={{steering: {{shard: {size}}}}}")
    target = "results/tables/lexframe/targets.csv"
    plan = ("--dry-run", "--printshellcmds", "--forcerun", "targets", "--", target)
    text = said(root, stopped(OBSERVED), *SMALL, *settings, *plan)
    (command,) = [line for line in text.splitlines() if " targets lexframe results/claims.csv" in line]
    found = re.findall(r"--timed results/benchmarks/steering/smollm2-135m/(\d+).tsv", command)
    assert found == [f"{shard:03d}" for shard in range(-(-5 // size))]
    assert "--timed results/benchmarks/jacobian_lens/gemma3-270m/000.tsv" in command
