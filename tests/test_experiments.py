"""Every experiment, run as its command runs it on a tiny model: rows as their schema says, and estimates from them."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pandas as pd
import pytest
import torch
import yaml
from elsewhere import moved, reach, reachable
from jsonschema import Draft202012Validator
from models import assert_same, tokens

from lensproof.checkpoints import load as loading
from lensproof.checkpoints.anatomy import take_apart
from lensproof.checkpoints.build import build
from lensproof.checkpoints.load import load
from lensproof.cli import cli
from lensproof.config import Checkpoint, Experiments
from lensproof.experiments import readings
from lensproof.experiments.catalogue import BESIDE, EXPERIMENTS
from lensproof.files import read_json, read_parquet, write_parquet
from lensproof.frames import typical
from lensproof.frames.basis import covectors
from lensproof.lenses import jacobian, probe, tuned

LENGTH, LONG = 16, 32
OPTIONS = {
    "layers": {"every": 2}, "sequences": 4, "shard": 4, "positions": 2, "labels": 4, "orders": [0, 1], "pairs": 12,
    "neighbours": 8, "leading": 3, "graph": 3, "step": 0.1, "lengths": 6, "shortest": 0.01, "longest": 1.0,
    "checked": 1, "calibrations": 2, "tokens": 3, "corpus": "wiki", "long": LONG, "stride": 4, "top": 3,
    "prefixes": ["The boat that left", "After the rain", "She asked the"], "series": {}, "group": 5, "batch": 16,
    "rate": 0.01, "epochs": 1,
}  # fmt: skip
CALIBRATION = 6


def settings(experiment):
    """Its section, as the workflow passes it."""
    own = {key: OPTIONS[key] for key in Experiments.model_fields[experiment].annotation.model_fields if key in OPTIONS}
    own |= {"sequences": 1} if experiment == "planes" else {}
    return json.dumps({**own, "calibration": CALIBRATION})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A checkpoint, sequences and every fitted artifact."""
    folder = tmp_path_factory.mktemp("experiments")
    source = {"kind": "random", "architecture": "llama", "layers": 4, "tied": True}
    build("toy", Checkpoint(title="t", licence="l", layers=4, tied=True, source=source), folder / "toy")
    decoder = load(folder / "toy")
    weights = {"weights": read_json(folder / "toy/checkpoint.json")["sha256"]}
    for name, length in (("sequences", LENGTH), ("long", LONG)):
        write_parquet(folder / f"{name}.parquet", sequences(length), {})
    text = tokens(6, LENGTH, seed=1)
    for name, length in (("typical", LENGTH), ("typical_2", LENGTH), ("typical_long", LONG)):
        typical.save(folder / f"{name}.safetensors", typical.calibrate(decoder, tokens(6, length, seed=3)), weights)
    jacobian.save(folder / "jacobian.safetensors", jacobian.fit(decoder, text[:1], skip=2), weights)
    tuned.save(folder / "tuned.safetensors", tuned.fit(decoder, text, [0, 2], batch=16, rate=0.01), weights)
    command = ["fit-probe", "--checkpoint", folder / "toy", "--sequences", folder / "sequences.parquet"]
    lensproof(*command, "--labels", 4, "--count", 6, "--out", folder / "probe.safetensors")
    return folder


def sequences(length):
    rows = []
    for role, seed in (("calibration", 1), ("lens", 2), ("test", 3)):
        ids = tokens(6, length, seed=seed).numpy()
        rows += [
            {"document": 10 * seed + rank, "block": 0, "role": role, "rank": rank, "tokens": row}
            for rank, row in enumerate(ids)
        ]
    table = pd.DataFrame(rows)
    table.insert(0, "sequence", range(len(table)))
    return table.astype({"sequence": "int32", "document": "int32", "block": "int32", "rank": "int32"})


def lensproof(*arguments):
    """The command, in this process: starting one for each would take minutes."""
    cli.main([str(argument) for argument in arguments], standalone_mode=False)


FILES = {
    "typical_attention": "typical", "jacobian_lens": "jacobian", "ridge_probe": "probe", "tuned_lens": "tuned",
    "typical_long": "typical_long", "typical_short": "typical",
}  # fmt: skip
TABLES = {"long_sequences": "long", "trained_on": "sequences"}


def observed(folder, experiment, kind=""):
    """The file of its observations, made by the command unless it is there."""
    out = folder / f"{experiment}{kind}.parquet"
    if not out.is_file():
        entry = EXPERIMENTS[experiment]
        names = [*entry.inputs, *entry.files]
        given = {name: f"{FILES[name]}.safetensors" for name in names if name in FILES}
        given |= {name: f"{TABLES[name]}.parquet" for name in names if name in TABLES}
        given |= {"calibration_2": "typical_2.safetensors"} if entry.calibrations else {}
        inputs = [part for name, file in given.items() for part in ("--input", f"{name}={folder / file}")]
        shared = ["--checkpoint", folder / "toy", "--sequences", folder / "sequences.parquet", "--threads", 1]
        count = 3 if experiment == "examples" else 1 if experiment == "planes" else 4
        lensproof(
            "observe", experiment, *shared, *inputs, "--options", settings(experiment), "--count", count, "--out", out
        )
    return out


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_rows_are_as_their_schema_says(folder, root, experiment):
    schema = yaml.safe_load((root / "workflow/schemas/observations.schema.yaml").read_text())["$defs"]
    common, own = schema["common"], schema[experiment]
    whole = {**common, "properties": {**common["properties"], **own}, "additionalProperties": False}
    table = read_parquet(observed(folder, experiment))
    assert set(own) <= set(table), "a column that the schema names is not there"
    validator = Draft202012Validator(whole)
    sample = table.astype(object).where(table.notna(), None).iloc[:: max(1, len(table) // 200)]
    for row in sample.to_dict("records"):
        validator.validate({name: value.item() if hasattr(value, "item") else value for name, value in row.items()})


@pytest.mark.parametrize("experiment", [name for name in EXPERIMENTS if name != "training"])
def test_estimates_follow_from_the_rows(folder, experiment):
    files = [observed(folder, name) for name in (experiment, *BESIDE.get(experiment, ()))]
    out = folder / f"{experiment}_estimates.parquet"
    lensproof("estimate", experiment, *files, "--resamples", 100, "--out", out)
    assert len(read_parquet(out))


@pytest.fixture
def elsewhere(folder, monkeypatch):
    """The checkpoint is loaded on a device that takes no tensors of the CPU, as a GPU does not."""
    model = load(folder / "toy").model
    monkeypatch.setattr(loading, "load", lambda *_, **__: take_apart(moved(model)))
    with reachable():
        threads = partial(ThreadPoolExecutor, initializer=reach)  # modes are a thread's own
        monkeypatch.setattr(jacobian, "ThreadPoolExecutor", threads)
        yield


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_on_another_device_it_says_the_same(folder, elsewhere, experiment):
    found, expected = observed(folder, experiment, "_elsewhere"), folder / f"{experiment}.parquet"
    found, expected = read_parquet(found), read_parquet(expected)
    if experiment == "steering":  # 30 steps of LSMR round otherwise where tensors lie otherwise in memory
        found, expected = (table[~table["method"].str.endswith("_basis")] for table in (found, expected))
    pd.testing.assert_frame_equal(found, expected, rtol=1e-3, atol=1e-4)


def test_on_another_device_the_same_is_fitted_and_read(folder, elsewhere, tmp_path):
    """What the commands fit, and what reads through it."""
    ids, labels, found = tokens(6, LENGTH, seed=3), torch.tensor([5, 7]), []
    for decoder in (loading.load(folder / "toy"), load(folder / "toy")):
        stand = typical.calibrate(decoder, ids)
        lens = jacobian.fit(decoder, ids[:1], skip=2)
        trained = tuned.fit(decoder, ids, [2], batch=16, rate=0.01)
        tuned.save(tmp_path / "tuned.safetensors", trained, {})
        again = tuned.load(tmp_path / "tuned.safetensors", decoder)
        assert again.trained[2].weight.device == decoder.device
        fitted = probe.fit(decoder, ids, labels, covectors(decoder, labels))
        rows = readings.observe(decoder, ids[0], orders=[0, 1], layers=[0, 2], typical=stand, lens=lens)
        parts = (stand.slope, lens.matrices[1], trained.trained[2].weight, again.start[2].bias, fitted.weight)
        found.append((rows, [part.cpu() for part in parts]))
    (rows, parts), (expected, exact) = found
    pd.testing.assert_frame_equal(rows, expected, rtol=1e-4, atol=1e-5)
    for ours, theirs in zip(parts, exact, strict=True):
        assert_same(ours, theirs, 1e-4)


def test_a_shard_says_the_same_as_the_whole(folder):
    whole = read_parquet(observed(folder, "steering"))
    part = folder / "part.parquet"
    inputs = ["--input", f"typical_attention={folder / 'typical.safetensors'}"]
    inputs += ["--input", f"jacobian_lens={folder / 'jacobian.safetensors'}"]
    shared = ["--checkpoint", folder / "toy", "--sequences", folder / "sequences.parquet", "--threads", 1]
    options = ["--options", settings("steering"), "--first", 2, "--count", 2]
    lensproof("observe", "steering", *shared, *inputs, *options, "--out", part)
    found = read_parquet(part).reset_index(drop=True)
    same = whole[whole["sequence"].isin(set(found["sequence"]))].reset_index(drop=True)
    pd.testing.assert_frame_equal(found, same, rtol=1e-4, atol=1e-5)
    checked = whole["lsmr_error"].notna() & (whole["method"] == "native_basis")
    assert whole[checked]["sequence"].nunique() == 1  # one in four, whatever the shards


def test_an_unknown_experiment_and_a_missing_file_are_one_line(folder):
    shared = ["--checkpoint", str(folder / "toy"), "--sequences", str(folder / "sequences.parquet")]
    for experiment, message in (("nope", "there is no experiment 'nope': use one of directions"),
                                ("steering", "this experiment needs --input typical_attention=FILE")):  # fmt: skip
        command = [sys.executable, "-m", "lensproof", "observe", experiment, *shared]
        command += ["--options", settings("steering")]
        done = subprocess.run(
            [*command, "--count", "2", "--out", str(folder / "none.parquet")], capture_output=True, text=True
        )
        assert done.returncode == 2
        assert message in done.stderr
        assert len([line for line in done.stderr.splitlines() if line.startswith("lensproof: ")]) == 1
        assert not (folder / "none.parquet").exists()
