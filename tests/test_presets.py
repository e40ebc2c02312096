"""Results remember the preset that made them, and every command that is printed goes on with it."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from lensproof.errors import LensproofError
from lensproof.files import read_json, read_parquet, read_safetensors, read_table, write_json
from lensproof.presets import command, command_for, made, mark, misnamed, refusal

SMALL = "snakemake --cores 2 --configfile workflow/presets/small.yaml --"


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A folder whose results the preset small made."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LENSPROOF_PRESET", raising=False)
    write_json("results/preset.json", mark("small", [Path("workflow/presets/small.yaml").absolute()]))
    write_json("results/preset.json", {**made(), "files": ["workflow/presets/small.yaml"]})
    return tmp_path


def test_a_command_names_the_preset_unless_it_is_the_default(root, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LENSPROOF_PRESET", raising=False)
    assert command("verify") == command("verify", preset="desk") == "snakemake --cores 2 verify"
    assert command("verify", preset="small") == f"{SMALL} verify"
    assert command(preset="small") == SMALL.removesuffix(" --")
    own = tmp_path / "mine.yaml"
    write_json("results/preset.json", mark("mine", [own]))
    assert command("verify") == f"snakemake --cores 2 --configfile {own} -- verify"
    write_json("results/preset.json", mark("paper", [root / "workflow/presets/paper.yaml"]))
    assert command("verify") == "snakemake --cores 2 --configfile workflow/presets/paper.yaml -- verify"
    assert command("verify", preset="desk") == "snakemake --cores 2 verify"
    monkeypatch.setenv("LENSPROOF_PRESET", "small")  # in a job of a run
    assert command("verify") == f"{SMALL} verify"


def test_a_file_is_built_with_the_preset_of_its_own_results(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LENSPROOF_PRESET", raising=False)
    write_json("elsewhere/results/preset.json", {"preset": "small"})
    file = "results/estimates/a.parquet"
    assert command_for(file) == command_for(tmp_path / file) == f"snakemake --cores 2 {file}"
    assert command_for(f"elsewhere/{file}") == f"cd {tmp_path}/elsewhere && {SMALL} {file}"
    monkeypatch.chdir("elsewhere")
    assert command_for(f"../elsewhere/{file}") == f"{SMALL} {file}"


@pytest.mark.parametrize("path", ["a.parquet", "/etc/passwd", "my/results/a.parquet", "results", "results/../a.csv"])
def test_what_no_rule_makes_has_no_command(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    assert command_for(path) is None


@pytest.mark.parametrize(
    "content",
    ["", "small", "[]", "{}", '{"preset": 3}', '{"preset": "a", "files": "b"}', '{"preset": "a", "files": [1]}',
     '{"preset": "a", "config": []}'],
)  # fmt: skip
def test_a_mark_that_cannot_be_read_does_not_turn_the_guard_off(tmp_path, content):
    assert refusal("desk", results=tmp_path) is None
    (tmp_path / "preset.json").write_text(content)
    assert made(tmp_path) == {}
    line = refusal("desk", ["verify"], results=tmp_path)
    assert "\n" not in line
    assert f"{tmp_path / 'preset.json'} cannot be read" in line
    assert "`snakemake --cores 2 --config preset=desk -- verify`" in line


def test_a_command_names_files_and_settings_as_they_were_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LENSPROOF_PRESET", raising=False)
    settings = {"preset": "mine", "calibration": {"sequences": 6}, "seed": 3}
    write_json("results/preset.json", mark("mine", [tmp_path / "a b.yaml"], settings))
    words = shlex.split(command("verify"))
    assert words[:3] == ["snakemake", "--cores", "2"]
    assert words[3:5] == ["--configfile", str(tmp_path / "a b.yaml")]
    assert words[5:] == ["--config", 'calibration={"sequences": 6}', "seed=3", "--", "verify"]
    assert command("verify", preset="desk") == "snakemake --cores 2 verify"
    write_json("results/preset.json", mark("desk", [], {"seed": 3}))
    assert command("verify") == "snakemake --cores 2 --config seed=3 -- verify"


def test_a_preset_is_not_named_without_its_settings(tmp_path):
    (tmp_path / "mine.yaml").write_text("preset: mine")
    (tmp_path / "more.yaml").write_text("seed: 3")
    small = Path("workflow/presets/small.yaml")
    for name, files in [
        (None, []), (None, [small]), ("desk", []), ("small", [small]), ("small", [small, tmp_path / "more.yaml"]),
        ("other", []), ("other", [small]), ("mine", [tmp_path / "mine.yaml"]), ("desk", [tmp_path / "more.yaml"]),
    ]:  # fmt: skip
        assert misnamed(name, files) is None, (name, files)
    for name, files in [("small", []), ("small", [tmp_path / "more.yaml"]), ("paper", [small]), ("desk", [small])]:
        line = misnamed(name, files)
        assert f"--config preset={name}" in line
        assert "\n" not in line


def test_another_presets_results_are_not_replaced_unasked(small):
    assert refusal("small") is None
    line = refusal("desk", ["verify"])
    assert "\n" not in line
    assert f"`{SMALL} verify`" in line
    assert "`snakemake --cores 2 --config preset=desk -- verify` or `make reproduce`" in line
    assert "`snakemake --cores 2 --config preset=desk`" in refusal("desk")


@pytest.mark.parametrize("read", [read_json, read_parquet, read_table, read_safetensors])
def test_a_missing_file_is_built_with_the_preset_of_the_results(small, read):
    path = "results/tables/a.csv" if read is read_table else "results/a.parquet"
    with pytest.raises(LensproofError) as caught:
        read(path)
    assert f"`{SMALL} {path}`" in str(caught.value)


CLAIM = "lexframe_order1_top1"
HINTS = {
    "claim": (["claim", CLAIM], f"{SMALL} claim_{CLAIM}"),
    "verify": (["verify"], f"{SMALL} claims"),
    "read": (
        ["read", "--checkpoint", "smollm2-135m", "--lens", "logit", "A"],
        f"{SMALL} results/checkpoints/smollm2-135m/checkpoint.json",
    ),
    "table": (
        ["table", "lexframe", "table1", "results/estimates/a.parquet", "--out", "a.csv"],
        f"{SMALL} results/estimates/a.parquet",
    ),
    "figure": (
        ["figure", "lexframe", "fig4", "results/estimates/a.parquet", "--out", "a.pdf"],
        f"{SMALL} results/estimates/a.parquet",
    ),
    "estimate": (
        ["estimate", "readings", "results/observations/a.parquet", "--out", "a.parquet"],
        f"{SMALL} results/observations/a.parquet",
    ),
}


@pytest.mark.parametrize(("arguments", "hint"), HINTS.values(), ids=HINTS)
def test_what_a_command_says_to_type_names_the_preset(small, arguments, hint):
    done = subprocess.run([sys.executable, "-m", "lensproof", *arguments], capture_output=True, text=True)
    assert done.returncode != 0
    assert f"`{hint}`" in done.stderr


def test_no_command_is_written_out_elsewhere(root):
    """What is printed for a user to type goes through one place, which knows the preset."""
    for path in (root / "workflow/lensproof").rglob("*.py"):
        if path.name != "presets.py":
            assert not re.search(r"snakemake +--", path.read_text()), path
