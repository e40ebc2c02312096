"""The workflow as its users meet it: a light DAG, clear refusals, targets by name, and a killed run that goes on."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time

import pytest
from runs import command, linked, snakemake

from lensproof import presets
from lensproof.files import provenance_path, read_json, read_safetensors, write_json

SMOKE = ("--configfile", "workflow/presets/smoke.yaml")


@pytest.fixture
def folder(root, tmp_path):
    """An empty folder to run in, with what the workflow reads by relative path."""
    return linked(root, tmp_path)


def test_the_dag_is_built_without_anything_heavy(root, folder):
    code = (
        "import sys; from snakemake.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "print('heavy:', sorted({'torch', 'transformers', 'pandas', 'scipy'} & set(sys.modules)))"
    )
    arguments = command(folder, "--dry-run", "--quiet", "all")[3:]
    done = subprocess.run([sys.executable, "-c", code, *arguments], cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "heavy: []" in done.stdout


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("readngs=1", "unknown key readngs"),
        ("calibration={sequences: many}", "calibration.sequences"),
        ("readings={sequences: many}", "readings.sequences: should be a whole number or a mapping (it is 'many')"),
        ("readings={sequences: 100000}", "config: readings: sequences is 100000, more than 1000 shards of 2: lower"),
        ("readings={layers: [40]}", "readings.layers names layer 40, but smollm2-135m has layers 0 to 30"),
        ("preset=small", "to run small, name its file, --configfile workflow/presets/small.yaml"),
    ],
)
def test_a_wrong_configuration_is_one_line_before_any_work(root, folder, change, message):
    done = snakemake(root, folder, "--dry-run", "--config", change)
    assert done.returncode != 0
    lines = [line for line in done.stderr.splitlines() if line.startswith("lensproof: ")]
    assert len(lines) == 1
    assert message in lines[0]
    assert "Traceback" not in done.stderr
    assert not (folder / "results").exists()


def test_targets_go_by_name(root, folder):
    named = snakemake(root, folder, "--list-target-rules").stdout
    targets = ("lexframe_fig4", "lexframe_table1", "claim_lexframe_kl_falls_with_order", "verify")
    for target in (*targets, "gathered", "gathered_entry", "gathered_probe"):
        assert target in named
    plan = snakemake(root, folder, "--dry-run", "lexframe_fig4").stdout
    assert "readings_shard" in plan
    assert "judge" not in plan


def test_the_probes_of_gathered_need_states_and_no_lens(root, folder):
    plan = snakemake(root, folder, *SMOKE, "--dry-run", "gathered_probe").stdout.split("Job stats")[-1]
    counts = dict(re.findall(r"^(\w+) +(\d+)$", plan, re.MULTILINE))
    assert counts.pop("total")
    # Of two planted models.
    assert counts == {
        "checkpoint": "2", "records": "2", "query_states": "2", "gathered_observations": "2",
        "gathered_estimates": "2", "gathered_probe": "1",
    }  # fmt: skip


def test_a_model_that_only_gathered_runs_has_a_lens_of_the_band(root, folder):
    plan = snakemake(root, folder, *SMOKE, "--dry-run", "--printshellcmds", "gathered_across").stdout
    fits = [line for line in plan.splitlines() if "fit-jacobian" in line]
    assert len(fits) == 2
    assert all("--lowest 7 " in line and "results/sequences/planted-" in line for line in fits)
    assert all("/planted.parquet" in line for line in fits)
    assert "--arms automatic " in plan  # without the cue
    assert "--arms report,flexible,control " in plan  # unmatched


def test_a_corpus_shorter_than_asked_stops_before_any_long_step(root, folder):
    done = snakemake(root, folder, *SMOKE, "--config", "calibration={sequences: 5000}")
    assert done.returncode != 0
    # What another failure says must be seen whole, and Snakemake says much.
    said = [line for line in done.stderr.splitlines() if any(word in line for word in ("rror", "lensproof: ", "exit"))]
    # 2500 are as many tokens in the longer sequences of another experiment, which may be cut first.
    asked = [f"config: calibration.sequences asks for {number} sequences" for number in (5000, 2500)]
    assert any(words in line for words in asked for line in said), "\n".join(said)
    assert not list(folder.glob("results/artifacts/tiny-*"))


def test_a_finished_run_names_only_what_there_is(root, folder):
    done = snakemake(root, folder, *SMOKE, "--", "results/checkpoints/tiny-llama/checkpoint.json")
    assert done.returncode == 0, done.stderr
    assert (folder / "results/checkpoints/tiny-llama/checkpoint.json").is_file()
    assert "claims" not in done.stdout + done.stderr
    assert "results/figures" not in done.stdout


FIGURE = "results/figures/lexframe/fig3.pdf"
"""Drawn from nothing, in a second."""


@pytest.fixture
def of_smoke(folder):
    """A folder whose results another preset than the default made."""
    write_json(folder / "results/preset.json", presets.mark("smoke", [folder / "workflow/presets/smoke.yaml"]))
    return folder


def test_a_run_without_a_preset_does_not_replace_results_of_another(root, of_smoke):
    done = snakemake(root, of_smoke, FIGURE)
    assert done.returncode == 1
    lines = [line for line in done.stderr.splitlines() if line.startswith("lensproof: ")]
    assert len(lines) == 1
    assert "results of the preset smoke" in lines[0]
    assert f"workflow/presets/smoke.yaml -- {FIGURE}`" in lines[0]
    assert f"`snakemake --cores 2 --config preset=desk -- {FIGURE}` or `make reproduce`" in lines[0]
    assert "Traceback" not in done.stderr
    assert not (of_smoke / "results/figures").exists()
    assert presets.made(of_smoke / "results")["preset"] == "smoke"
    again = snakemake(root, of_smoke, "--config", "preset=desk", "--", FIGURE)
    assert again.returncode == 0, again.stderr  # nothing was left locked
    assert presets.made(of_smoke / "results") == {"preset": "desk", "files": [], "config": {}}


@pytest.mark.parametrize(
    "arguments",
    [["--dry-run"], ["--list-target-rules"], ["--unlock"], ["--summary"]],
    ids=" ".join,
)
def test_what_builds_nothing_is_not_hindered(root, of_smoke, arguments):
    done = snakemake(root, of_smoke, *arguments, *([] if arguments == ["--list-target-rules"] else ["--", FIGURE]))
    assert done.returncode == 0, done.stderr
    assert "lensproof: " not in done.stderr
    assert presets.made(of_smoke / "results")["preset"] == "smoke"


def test_a_named_preset_goes_on_and_is_remembered(root, folder):
    assert snakemake(root, folder, *SMOKE, "--", FIGURE).returncode == 0
    found = presets.made(folder / "results")
    assert found == {"preset": "smoke", "files": ["workflow/presets/smoke.yaml"], "config": {}}
    # Naming the default changes nothing that a job depends on.
    assert snakemake(root, folder, "--config", "preset=desk", "--force", "--", FIGURE).returncode == 0
    config = read_json(provenance_path(folder / FIGURE))["config"]
    plan = snakemake(root, folder, "--dry-run", FIGURE)
    assert "Nothing to be done" in plan.stderr + plan.stdout
    assert snakemake(root, folder, "--force", FIGURE).returncode == 0
    assert read_json(provenance_path(folder / FIGURE))["config"] == config


@pytest.mark.slow
def test_a_run_killed_in_the_lens_fit_goes_on_with_the_same_numbers(root, folder, tmp_path_factory):
    target = "results/artifacts/tiny-llama/jacobian_lens.safetensors"
    whole = linked(root, tmp_path_factory.mktemp("whole"))
    # One core, so that shards come one after another.
    many = ("--cores", "1", *SMOKE, "--config", "jacobian_lens={prompts: 5, skip: 4, cotangents: 8, shard: 1}")
    assert snakemake(root, whole, *many, "--", target).returncode == 0
    run = subprocess.Popen(command(folder, *many, "--", target), cwd=root, start_new_session=True)
    shards = folder / "results/artifacts/tiny-llama/jacobian_lens"
    while len(list(shards.glob("shard_*.safetensors"))) < 2:
        assert run.poll() is None
        time.sleep(0.05)
    time.sleep(1)  # into the next shard
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    finished = {path.name: path.stat().st_mtime_ns for path in shards.glob("shard_*.safetensors")}
    assert 2 <= len(finished) < 5
    assert snakemake(root, folder, *many, "--unlock").returncode == 0
    assert snakemake(root, folder, *many, "--rerun-incomplete", "--", target).returncode == 0
    # The kill may fall between the last shard's writing and Snakemake's noting it: one shard at most is lost.
    redone = [name for name, written in finished.items() if (shards / name).stat().st_mtime_ns != written]
    assert len(redone) <= 1
    again, once = read_safetensors(folder / target), read_safetensors(whole / target)
    assert all((again[name] == once[name]).all() for name in once)


@pytest.mark.slow
def test_only_what_an_edit_can_change_runs_again(root, tmp_path):
    """A whole smoke run in a copy of the project, then edits of several kinds."""
    for name in ("config.yaml", "Snakefile", "workflow", "paper", "envs"):
        subprocess.run(["cp", "-r", str(root / name), str(tmp_path)], check=True)

    def run(*arguments):
        done = subprocess.run(
            [sys.executable, "-m", "snakemake", "--cores", "2", *arguments, *SMOKE],
            cwd=tmp_path, capture_output=True, text=True, timeout=900,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def edit(path, old, new):
        text = (tmp_path / "workflow/lensproof" / path).read_text()
        assert old in text
        (tmp_path / "workflow/lensproof" / path).write_text(text.replace(old, new))

    run()
    assert "Nothing to be done" in run("--dry-run")
    subprocess.run(["find", ".", "-name", "*.py", "-exec", "touch", "{}", "+"], cwd=tmp_path, check=True)
    subprocess.run(["touch", "paper/published/claims.yaml", "config.yaml"], cwd=tmp_path, check=True)
    edit("frames/flow.py", "ROWS = 1024", "# A comment.\nROWS = 1024")
    assert "Nothing to be done" in run("--dry-run")
    # Other sizes than those of the last run: all of it is planned at once, and no more.
    plan = run("--dry-run", "--config", "readings={sequences: {default: 6}}").split("Job stats")[-1]
    assert "readings_shard" in plan
    assert "lexframe_fig4" in plan
    assert "jacobian_lens" not in plan
    plan = run("--dry-run", "--config", "jacobian_lens={prompts: 3}").split("Job stats")[-1]
    assert re.search(r"jacobian_lens_shard +2\n", plan)
    assert "readings_shard" in plan
    edit("figures/style.py", "COLUMN_INCHES = 3.4", "COLUMN_INCHES = 3.5")
    plan = run("--dry-run")
    assert "lexframe_fig4" in plan
    assert "readings" not in plan.split("Job stats")[-1]
    edit("frames/flow.py", "ROWS = 1024", "ROWS = 512")
    plan = run("--dry-run").split("Job stats")[-1]
    assert "readings_shard" in plan
    assert "jacobian_lens" not in plan
