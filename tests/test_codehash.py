"""Code as an input: an edit that can change behaviour changes the hash of what depends on it, and nothing else does."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from lensproof import codehash


@pytest.fixture
def package(tmp_path, monkeypatch, root):
    """A copy of the package that tests may edit."""
    copy = tmp_path / "lensproof"
    shutil.copytree(root / "workflow" / "lensproof", copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(codehash, "ROOT", copy)
    return copy


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_an_edit_reaches_exactly_the_steps_that_run_it(package):
    steps = ("fit_jacobian", "readings", "calibrate", "estimate", "sequences")
    before = {step: codehash.code_hash(step) for step in steps}
    edit(package / "frames" / "flow.py", "ROWS = 1024", "ROWS = 512")
    after = {step: codehash.code_hash(step) for step in steps}
    assert {step for step in steps if before[step] != after[step]} == {"readings"}


def test_a_module_found_by_its_name_counts_where_it_is_named(package):
    steps = [("estimate",), ("estimate", "lensproof.statistics.readings"), ("estimate", "lensproof.statistics.exits")]
    before = [codehash.code_hash(*step) for step in steps]
    assert len(set(before)) == 3
    edit(package / "statistics" / "readings.py", "EXACT = 1e-6", "EXACT = 1e-7")
    assert [codehash.code_hash(*step) != old for step, old in zip(steps, before, strict=True)] == [False, True, False]


def test_an_edit_of_a_shared_part_reaches_all_who_share_it(package):
    before = {step: codehash.code_hash(step) for step in ("fit_jacobian", "readings", "judge")}
    edit(package / "checkpoints" / "anatomy" / "parts.py", "length = query.shape[:2]", "length = query.shape[:2][:]")
    after = {step: codehash.code_hash(step) for step in before}
    assert [step for step in before if before[step] != after[step]] == ["fit_jacobian", "readings"]


def test_comments_docstrings_layout_and_times_change_nothing(package):
    before = codehash.code_hash("readings")
    path = package / "frames" / "flow.py"
    edit(path, '"""Order-n flows', '"""Flows of order n')
    edit(path, "ROWS = 1024", "# How many rows.\n\nROWS  =  1024  # rows")
    os.utime(path, (0, 0))
    assert codehash.code_hash("readings") == before


def test_imports_inside_functions_count():
    assert "lensproof.frames.flow" in codehash.closure("lensproof.commands.readings")
    assert "lensproof.frames.flow" not in codehash.closure("lensproof.commands.fit_jacobian")


def test_an_unknown_step_is_an_error():
    with pytest.raises(ModuleNotFoundError, match=r"lensproof\.commands\.nothing"):
        codehash.code_hash("nothing")


def test_hashing_every_command_imports_nothing_heavy(root):
    code = (
        "import sys, pkgutil, lensproof.commands\n"
        "from lensproof.codehash import code_hash\n"
        "[code_hash(name) for _, name, _ in pkgutil.iter_modules(lensproof.commands.__path__)]\n"
        "print(sorted({'torch', 'pandas', 'numpy', 'transformers'} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_architecture_files_are_part_of_what_a_step_runs():
    assert "lensproof.checkpoints.anatomy.gemma3" in codehash.closure("lensproof.commands.readings")
