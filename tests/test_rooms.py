"""The library's rooms: data flows one way, and nothing of the workflow is known inside."""

from __future__ import annotations

import ast

import pytest

# From the design: a room may use those before it. Experiments use whatever reads a model and never one another.
ORDER = (
    "checkpoints", "streams", "corpora", "specimens", "lenses", "frames", "attention", "experiments",
    "statistics", "claims", "figures",
)  # fmt: skip
EXCEPTIONS = {("checkpoints", "specimens")}  # a random checkpoint is made there


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            yield node.module or ""
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@pytest.fixture
def package(root):
    return root / "workflow" / "lensproof"


def test_no_room_imports_from_a_later_one(package):
    for room in ORDER:
        for path in (package / room).rglob("*.py"):
            for name in imported(path):
                parts = name.split(".")
                if parts[0] == "lensproof" and len(parts) > 1 and parts[1] in ORDER:
                    allowed = ORDER.index(parts[1]) <= ORDER.index(room) or (room, parts[1]) in EXCEPTIONS
                    assert allowed, f"{path.relative_to(package)} imports {name}"


def test_experiments_do_not_import_one_another(package):
    for path in (package / "experiments").glob("*.py"):
        others = [name for name in imported(path) if name.startswith("lensproof.experiments.")]
        assert set(others) <= {"lensproof.experiments.run", "lensproof.experiments.arms"}, path


def test_the_library_knows_nothing_of_snakemake(package):
    for path in package.rglob("*.py"):
        assert not any(name.split(".")[0] == "snakemake" for name in imported(path)), path


def test_nothing_is_unpickled_and_no_code_of_a_checkpoint_runs(package):
    for path in package.rglob("*.py"):
        text = path.read_text()
        assert "trust_remote_code=True" not in text, path
        assert "import pickle" not in text, path
        for call in ast.walk(ast.parse(text)):
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "torch.load":
                assert any(word.arg == "weights_only" and word.value.value is True for word in call.keywords), path
