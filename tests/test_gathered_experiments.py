"""Experiments on benchmark records, run as their commands run them on a planted model: rows, estimates, refusals."""

from __future__ import annotations

import json

import pandas as pd
import pytest
import torch
import yaml
from elsewhere import moved, reachable
from jsonschema import Draft202012Validator

from lensproof.checkpoints import load as loading
from lensproof.checkpoints.anatomy import take_apart
from lensproof.checkpoints.load import load
from lensproof.cli import cli
from lensproof.corpora.benchmark.record import ARMS, read_records
from lensproof.errors import LensproofError
from lensproof.experiments import visibility
from lensproof.experiments.catalogue import ON_RECORDS, arms_of
from lensproof.experiments.worked_example import nearest
from lensproof.files import read_parquet, read_provenance, read_safetensors
from lensproof.lenses.band import band
from lensproof.statistics import estimates

LAYERS, BLOCK, INSTANCES = 8, 3, 20
"""The smallest planted model; from layer 4 on, the first of the band, what is asked for can be read."""
OPTIONS = {
    "visibility": {"sets": ["language", "language_length"], "profiled": ["language"]},
    "availability": {"sets": ["language"], "splits": 2},
    "worked_example": {"sets": ["language"], "depths": [0.4, 0.6, 0.9], "top": 2},
}


def lensproof(*arguments):
    """The command, in this process."""
    cli.main([str(argument) for argument in arguments], standalone_mode=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, root):
    """A planted checkpoint with records, states of two shards and a lens of its band."""
    folder = tmp_path_factory.mktemp("gathered")
    model = ["--checkpoint", folder / "planted"]
    plant = ["--kind", "gather", "--block", BLOCK, "--layers", LAYERS, "--head", 1]
    lensproof("plant", *plant, "--out", folder / "planted")
    text = {"title": "t", "licence": "l", "format": "lines", "split": {"calibration": 0.5, "lens": 0.2, "test": 0.3}}
    text["source"] = {"kind": "path", "path": str(root / "workflow/resources/planted.txt")}
    lensproof("corpus", "planted", "--spec", json.dumps(text), "--out", folder / "text.parquet")
    cut = ["--corpus", folder / "text.parquet", "--length", 48, "--out", folder / "sequences.parquet"]
    lensproof("sequences", *model, *cut)
    fit = ["--sequences", folder / "sequences.parquet", "--lowest", band(LAYERS)[0], "--count", 1, "--threads", 1]
    for first in (0, 1):
        lensproof("fit-jacobian", *model, *fit, "--first", first, "--out", folder / f"lens_{first}.safetensors")
    shards = [folder / f"lens_{first}.safetensors" for first in (0, 1)]
    lensproof("merge-jacobian", *shards, "--out", folder / "lens.safetensors")
    lensproof("records", "build", "language", *model, "--count", INSTANCES, "--out", folder / "language.jsonl")
    lensproof("records", "without-cue", folder / "language.jsonl", "--out", folder / "language_no_cue.jsonl")
    for first in (0, INSTANCES // 2):
        states(folder, "language", f"states_{first}", "--first", first, "--count", INSTANCES // 2)
    return folder


def states(folder, records, name, *arguments):
    """The file of a set's states, made by the command."""
    out = folder / f"{name}.safetensors"
    given = ["--checkpoint", folder / "planted", "--records", folder / f"{records}.jsonl", "--threads", 1]
    lensproof("query-states", *given, *arguments, "--out", out)
    return out


def observed(folder, experiment, kind="", records="language", files=None):
    """The file of its observations, made by the command unless it is there."""
    out = folder / f"{experiment}_{records}{kind}.parquet"
    if not out.is_file():
        files = files or [folder / f"states_{first}.safetensors" for first in (0, INSTANCES // 2)]
        given = ["--checkpoint", folder / "planted", "--records", folder / f"{records}.jsonl", "--threads", 1]
        given += [part for file in files for part in ("--states", file)]
        given += ["--input", f"jacobian_lens={folder / 'lens.safetensors'}"] if ON_RECORDS[experiment].inputs else []
        options = json.dumps(OPTIONS[experiment])
        lensproof("observe-arms", experiment, *given, "--set", records, "--options", options, "--out", out)
    return out


@pytest.mark.parametrize("experiment", ON_RECORDS)
def test_rows_are_as_their_schema_says(folder, root, experiment):
    schema = yaml.safe_load((root / "workflow/schemas/observations_gathered.schema.yaml").read_text())["$defs"]
    common, own = schema["common"], schema[experiment]
    whole = {**common, "properties": {**common["properties"], **own}, "additionalProperties": False}
    table = read_parquet(observed(folder, experiment))
    assert set(own) <= set(table), "a column that the schema names is not there"
    assert set(table["records"]) == {"language"}
    sample = table.astype(object).where(table.notna(), None).iloc[:: max(1, len(table) // 200)]
    for row in sample.to_dict("records"):
        row = {name: value.item() if hasattr(value, "item") else value for name, value in row.items()}
        Draft202012Validator(whole).validate(row)


@pytest.mark.parametrize("experiment", ON_RECORDS)
def test_estimates_follow_from_the_rows_and_are_as_their_schema_says(folder, root, experiment):
    out = folder / f"{experiment}_estimates.parquet"
    lensproof("estimate", experiment, observed(folder, experiment), "--resamples", 100, "--out", out)
    table = estimates.read(out)
    assert set(table["depth"]) == {LAYERS}
    schema = yaml.safe_load((root / "workflow/schemas/estimates.schema.yaml").read_text())
    sample = table.astype(object).where(table.notna(), None).iloc[:: max(1, len(table) // 200)]
    for row in sample.to_dict("records"):
        row = {name: value.item() if hasattr(value, "item") else value for name, value in row.items()}
        Draft202012Validator(schema).validate(row)


def test_what_demand_does_is_what_was_planted(folder):
    """A gather in the first block of the band: from there on z stands first where it is asked for, and nowhere else."""
    table = read_parquet(observed(folder, "visibility")).query("lens == 'jacobian_lens'")
    assert set(table["layer"]) == set(range(BLOCK + 1, LAYERS + 1))
    assert table["correct"].all()
    asked = table["method"].isin(["report", "flexible"])
    assert (table[asked & (table["layer"] <= BLOCK + 2)]["rank"] == 0).mean() > 0.95
    assert (table[~asked]["rank"] == 0).mean() < 0.3
    probes = read_parquet(observed(folder, "availability")).query("trained_on == 'joint'")
    right = probes.groupby(["permuted", "method"], observed=True)["correct"].mean().unstack()
    assert right.loc[False].min() > 0.8  # in every arm
    assert right.loc[True].max() < 0.5


def test_what_is_not_profiled_is_read_over_the_band_by_the_jacobian_lens(folder, monkeypatch):
    whole = read_parquet(observed(folder, "visibility"))
    narrow = range(BLOCK + 2, LAYERS)
    monkeypatch.setattr(visibility, "band", lambda depth: narrow)
    # The same records under another name.
    out = folder / "visibility_band.parquet"
    given = ["--checkpoint", folder / "planted", "--records", folder / "language.jsonl", "--threads", 1]
    given += [part for first in (0, INSTANCES // 2) for part in ("--states", folder / f"states_{first}.safetensors")]
    given += ["--input", f"jacobian_lens={folder / 'lens.safetensors'}", "--options", json.dumps(OPTIONS["visibility"])]
    lensproof("observe-arms", "visibility", *given, "--set", "language_length", "--out", out)
    found = read_parquet(out)
    assert set(found["lens"]) == {"jacobian_lens"}
    assert set(found["layer"]) == set(narrow) < set(whole["layer"])
    assert set(whole["lens"]) == {"jacobian_lens", "logit_lens"}
    own = whole[(whole["lens"] == "jacobian_lens") & whole["layer"].isin(narrow)]
    columns = ["record", "layer", "rank", "mz", "correct"]
    pd.testing.assert_frame_equal(
        found[columns].sort_values(columns[:2], ignore_index=True),
        own[columns].sort_values(columns[:2], ignore_index=True),
        check_categorical=False,
    )


def test_one_shard_says_the_same_as_two(folder):
    whole = states(folder, "language", "states_whole", "--count", INSTANCES)
    parts = read_parquet(observed(folder, "visibility"))
    found = read_parquet(observed(folder, "visibility", "_whole", files=[whole]))
    pd.testing.assert_frame_equal(found, parts, rtol=1e-4, atol=1e-4)


def test_the_worked_example_is_the_first_instance_at_the_ranks_that_visibility_finds(folder):
    example = read_parquet(observed(folder, "worked_example"))
    assert set(example["instance"]) == {"language-00000"}
    z = example[example["place"] == 0].set_index(["method", "layer"])["rank"]
    table = read_parquet(observed(folder, "visibility")).query("lens == 'jacobian_lens'")
    same = table[table["instance"] == "language-00000"].set_index(["method", "layer"])["rank"]
    assert z.sort_index().tolist() == same.sort_index().tolist()
    shown = example[example["place"] > 0]
    assert set(shown["layer"]) == {4, 6, 8}
    assert shown.groupby(["method", "layer"], observed=True)["place"].max().eq(OPTIONS["worked_example"]["top"]).all()
    named = shown[(shown["method"] == "report") & (shown["layer"] == 6) & (shown["place"] == 1)]
    assert named["token"].str.strip().tolist() == example[example["place"] == 0]["token"].unique().tolist()


@pytest.mark.parametrize(("shares", "layers"), [((0.61, 0.66, 0.72), [40, 43, 47]), ((0.6, 0.61), [39, 40])])
def test_shown_layers_are_the_papers_shares_of_depth(shares, layers):
    """The paper's L39, L42 and L46 of 64 blocks are the outputs of those blocks."""
    assert nearest(range(1, 65), 64, shares) == layers


def test_layers_that_two_shares_name_are_shown_once():
    assert nearest(range(4, 9), 8, (0.6, 0.62, 0.9)) == [6, 8]


def test_sets_are_run_on_the_same_instances_whatever_arms_they_need(folder):
    file = states(folder, "language_no_cue", "no_cue", "--arms", "automatic", "--count", 3)
    names = read_provenance(file)["records"]
    assert names == [f"language-{number:05d}-automatic" for number in range(3)]
    assert read_safetensors(file)["states"].shape == (3, LAYERS + 1, 256)
    table = read_parquet(observed(folder, "visibility", records="language_no_cue", files=[file]))
    assert set(table["method"]) == {"automatic"}
    assert set(table["records"]) == {"language_no_cue"}


def test_records_without_the_cue_are_otherwise_the_same(folder):
    for one, other in zip(*(read_records(folder / f"language{end}.jsonl") for end in ("", "_no_cue")), strict=True):
        assert one.prompt == other.prompt + "\nAnswer:"
        assert (one.id, one.context, one.candidate_token_ids) == (other.id, other.context, other.candidate_token_ids)


def test_an_instance_that_lacks_an_arm_is_left_out_even_if_that_arm_is_not_run(folder, tmp_path):
    lines = (folder / "language.jsonl").read_text().splitlines(keepends=True)
    kept = [line for line in lines if '"id": "language-00001-supplied"' not in line]
    (folder / "partial.jsonl").write_text("".join(kept))
    file = states(folder, "partial", "partial", "--arms", "report", "--count", 2)
    assert read_provenance(file)["records"] == ["language-00000-report", "language-00002-report"]


def test_arms_of_sets():
    assert arms_of("language") == ARMS
    assert "supplied" not in arms_of("tracking_1swap")
    assert arms_of("language_no_cue") == ("automatic",)
    assert arms_of("tracking_unmatched") == ("report", "flexible", "control")


@pytest.fixture
def elsewhere(folder, monkeypatch):
    """The checkpoint is loaded on a device that takes no tensors of the CPU, as a GPU does not."""
    model = load(folder / "planted").model
    monkeypatch.setattr(loading, "load", lambda *_, **__: take_apart(moved(model)))
    with reachable():
        yield


@pytest.mark.parametrize("experiment", ["visibility", "worked_example"])  # probes are fitted on the CPU
def test_on_another_device_it_says_the_same(folder, elsewhere, experiment):
    found, expected = observed(folder, experiment, "_elsewhere"), observed(folder, experiment)
    pd.testing.assert_frame_equal(read_parquet(found), read_parquet(expected), rtol=1e-3, atol=1e-4)


def test_on_another_device_states_are_the_same(folder, elsewhere):
    file = states(folder, "language", "elsewhere", "--count", 2)
    expected = read_safetensors(folder / "states_0.safetensors")["states"][: 2 * len(ARMS)]
    torch.testing.assert_close(read_safetensors(file)["states"], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["query-states", "--arms", "supplid", "--count", 1], "no record of the arm 'supplid'"),
        (["query-states", "--count", INSTANCES + 1], f"{INSTANCES + 1} instances complete in"),
        (["observe-arms", "visibilty"], "there is no experiment 'visibilty': use one of visibility, availability, "),
        (["observe-arms", "visibility"], "this experiment needs --input jacobian_lens=FILE"),
    ],
)
def test_what_cannot_be_run_is_one_line_and_leaves_nothing(folder, tmp_path, command, message):
    given = ["--checkpoint", folder / "planted", "--records", folder / "language.jsonl"]
    mine = ["--states", folder / "states_0.safetensors", "--set", "language"] if "observe-arms" in command else []
    out = tmp_path / ("out.parquet" if mine else "out.safetensors")
    with pytest.raises(LensproofError, match=message) as caught:
        lensproof(*command, *given, *mine, "--out", out)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_a_cue_that_is_not_there_cannot_be_left_out(folder, tmp_path):
    with pytest.raises(LensproofError, match="-automatic: the instruction does not end in the answer cue"):
        lensproof("records", "without-cue", folder / "language_no_cue.jsonl", "--out", tmp_path / "out.jsonl")
    assert not list(tmp_path.iterdir())
