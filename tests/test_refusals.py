"""What commands refuse: files that are not what they should be, options that cannot be meant, the same thing twice.

Each kind of mistake is made with every command and every file that it can be made with: one line that says what to
do, and nothing is written.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import benchmark_world
import click
import gathered_world
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from models import tokens
from safetensors.torch import load_file, save_file
from synthetic import observations

from lensproof import progress
from lensproof.checkpoints.build import build
from lensproof.checkpoints.load import load
from lensproof.checkpoints.registry import section_on_records
from lensproof.cli import cli
from lensproof.config import Checkpoint
from lensproof.corpora.benchmark import passages
from lensproof.errors import LensproofError
from lensproof.experiments import prompt
from lensproof.experiments.catalogue import DERIVED, EXPERIMENTS, ON_RECORDS
from lensproof.files import (
    provenance_path,
    read_json,
    read_parquet,
    read_provenance,
    read_safetensors,
    write_json,
    write_parquet,
    write_safetensors,
)
from lensproof.frames import flow, typical
from lensproof.frames.basis import covectors
from lensproof.lenses import jacobian, probe, tuned
from lensproof.presets import mark
from lensproof.statistics import readings
from lensproof.statistics.sample import FACTORS

LENGTH = 16


def lensproof(*arguments):
    """The command in this process."""
    cli.main([str(argument) for argument in arguments], standalone_mode=False)


def refused(*arguments) -> str:
    """The line with which a command refuses."""
    with pytest.raises((LensproofError, click.ClickException)) as error:
        lensproof(*arguments)
    line = error.value.message if isinstance(error.value, click.ClickException) else str(error.value)
    assert "\n" not in line
    return line


def sequences():
    rows = []
    for role, seed in (("calibration", 1), ("lens", 2), ("test", 3)):
        for rank, ids in enumerate(tokens(6, LENGTH, seed=seed).numpy()):
            rows.append({"document": 10 * seed + rank, "block": 0, "role": role, "rank": rank, "tokens": ids})
    table = pd.DataFrame(rows)
    table.insert(0, "sequence", range(len(table)))
    return table


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A results folder: a checkpoint, what is fitted on it, sequences, observations and estimates."""
    folder = tmp_path_factory.mktemp("made") / "results"
    source = {"kind": "random", "architecture": "llama", "layers": 4, "tied": True}
    entry = Checkpoint(title="t", licence="l", layers=4, tied=True, source=source)
    build("toy", entry, folder / "checkpoints/toy")
    decoder, artifacts = load(folder / "checkpoints/toy"), folder / "artifacts/toy"
    weights = {"weights": read_json(folder / "checkpoints/toy/checkpoint.json")["sha256"]}
    text, labels = tokens(6, LENGTH, seed=1), torch.arange(4, 8)
    typical.save(artifacts / "typical_attention.safetensors", typical.calibrate(decoder, text), weights)
    jacobian.save(artifacts / "jacobian_lens.safetensors", jacobian.fit(decoder, text[:1], skip=2), weights)
    tuned.save(artifacts / "tuned_lens.safetensors", tuned.fit(decoder, text, [0, 2], batch=16, rate=0.01), weights)
    probe.save(
        artifacts / "ridge_probe.safetensors", probe.fit(decoder, text, labels, covectors(decoder, labels)), weights
    )
    write_parquet(folder / "sequences.parquet", sequences(), {})
    write_parquet(folder / "documents.parquet", documents(), {})
    trials = observations(documents=4)
    write_parquet(folder / "trials.parquet", trials, {})
    estimates = readings.estimate(trials, resamples=100, level=0.9, seed=0)
    write_parquet(folder / "estimates.parquet", estimates, {})
    return folder


def documents(repeats=40):
    texts = ["The boat that left the harbour. " * repeats, "After the rain the children ran down. " * repeats] * 4
    return pd.DataFrame({"document": range(len(texts)), "part": None, "text": texts})


# -- files that are not what they should be


def shorn(content: bytes) -> bytes:
    return content[: len(content) // 2]


SPOILED = {
    "text": lambda content: b"this is no table\n",
    "nothing": lambda content: b"",
    "half": shorn,
}


def readers(made, file):
    """Command -> its arguments, with ``file`` where it reads a Parquet file."""
    on = ["--checkpoint", made / "checkpoints/toy", "--sequences", file]
    fitted = ["--typical", made / "artifacts/toy/typical_attention.safetensors"]
    fitted += ["--lens", made / "artifacts/toy/jacobian_lens.safetensors"]
    return {
        "observe": ["planes", *on, "--count", 1],
        "readings": [*on, *fitted, "--count", 1],
        "calibrate": [*on, "--count", 2],
        "fit-jacobian": [*on, "--count", 1],
        "fit-probe": [*on, "--count", 2, "--labels", 4],
        "fit-tuned": [*on, "--layers", "0", "--tokens", 32],
        "sequences": ["--checkpoint", made / "checkpoints/toy", "--corpus", file, "--length", LENGTH],
        "estimate": ["readings", file],
        "table": ["lexframe", "table1", file],
        "figure": ["lexframe", "fig4", file],
        "judge": ["lexframe_kl_falls_with_order", file, "--level", "smoke"],
    }


ENDS = {"table": ".csv", "figure": ".pdf", "judge": ".json", "calibrate": ".safetensors"}
ENDS |= dict.fromkeys(("fit-jacobian", "fit-probe", "fit-tuned"), ".safetensors")
READERS = tuple(readers(Path(), ""))
ON_CHECKPOINT = tuple(name for name, arguments in readers(Path(), "").items() if "--checkpoint" in arguments)
LOGIT = ("--lens", "logit", "The boat")


@pytest.mark.parametrize("command", READERS)
@pytest.mark.parametrize("kind", [*SPOILED, "other", "rows", "absent"])
def test_a_parquet_file_that_is_none_or_another(made, tmp_path, command, kind):
    file, out = tmp_path / "given.parquet", tmp_path / "made" / f"out{ENDS.get(command, '.parquet')}"
    if kind in SPOILED:
        file.write_bytes(SPOILED[kind]((made / "trials.parquet").read_bytes()))
    elif kind == "other":
        write_parquet(file, pd.DataFrame({"a": [1, 2]}), {})
    elif kind == "rows":
        given = {"sequences": "documents", "estimate": "trials", "table": "estimates", "figure": "estimates"}
        name = "estimates" if command == "judge" else given.get(command, "sequences")
        write_parquet(file, read_parquet(made / f"{name}.parquet").iloc[:0], {})
    line = refused(command, *readers(made, file)[command], "--out", out)
    assert str(file) in line or kind in ("other", "rows")
    if kind in SPOILED:
        assert "is damaged" in line
    if kind != "rows":
        assert "snakemake" not in line
        assert "remove" not in line
    assert not out.parent.exists()


def own(folder):
    """The same folder, as results that a run left."""
    write_json(folder / "preset.json", mark("desk"))
    return folder


@pytest.mark.parametrize("kind", [*SPOILED, "other", "absent"])
@pytest.mark.parametrize("command", READERS)
def test_what_a_rule_makes_is_removed_and_made_again(made, tmp_path, monkeypatch, command, kind):
    """Only that: of a file that stands elsewhere nobody knows how to have it again."""
    monkeypatch.chdir(tmp_path)
    file = Path("results/given.parquet")
    file.parent.mkdir()
    if kind == "other":
        write_parquet(file, pd.DataFrame({"a": [1, 2]}), {})
    elif kind != "absent":
        file.write_bytes(SPOILED[kind]((made / "trials.parquet").read_bytes()))
    line = refused(command, *readers(made, file)[command], "--out", tmp_path / f"out{ENDS.get(command, '.parquet')}")
    if kind == "absent":
        assert line.endswith("does not exist: build it with `snakemake --cores 2 results/given.parquet`")
    elif kind != "other":
        assert line.endswith("remove it and build it again with `snakemake --cores 2 results/given.parquet`")


@pytest.mark.parametrize("command", ["estimate", "judge", "calibrate", "sequences", "table"])
def test_a_whole_table_of_another_kind_is_not_to_be_removed(made, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    file = Path("results/given.parquet")
    file.parent.mkdir()
    shutil.copy(made / f"{'documents' if command != 'sequences' else 'trials'}.parquet", file)
    line = refused(command, *readers(made, file)[command], "--out", tmp_path / f"out{ENDS.get(command, '.parquet')}")
    assert line.startswith(f"{file} has no column ")
    assert line.endswith(": give another file")


@pytest.mark.parametrize("content", [b"", b'a,b\n"1,2\n', bytes(range(256)), b"root:x:0:0:root:/root:/bin/sh\n"])
@pytest.mark.parametrize("command", [["table", "lexframe", "text"], ["targets", "lexframe"], ["targets", "gathered"]])
def test_a_csv_file_that_is_none(tmp_path, command, content):
    for folder, removed in ((tmp_path, False), (own(tmp_path / "results"), True)):
        file = folder / "claims.csv"
        file.write_bytes(content)
        line = refused(*command, file, "--out", tmp_path / "out.csv")
        assert str(file) in line
        assert ("remove it and build it again with `cd " in line) == ("remove" in line) == removed
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize("content", ["", "this is no table", "s\th:m:s\n", "cpu_time\ts\tmax_rss\nx\ty\tz\n"])
def test_a_benchmark_that_is_none(tmp_path, content):
    file = tmp_path / "benchmark.tsv"
    file.write_text(content)
    command = ["timings", "--checkpoint", "toy", "--job", f"readings:2={file}", "--out", tmp_path / "out.parquet"]
    line = refused(*command)
    assert f"{file} is no benchmark of Snakemake" in line
    assert "remove" not in line
    assert [path.name for path in tmp_path.iterdir()] == ["benchmark.tsv"]


def rewritten(path, change):
    """Change a table in its file as a hand would, what the file says of itself left as it is."""
    table = pq.read_table(path)
    after = pa.Table.from_pandas(change(table.to_pandas()), preserve_index=False)
    pq.write_table(after.replace_schema_metadata(table.schema.metadata), path)


def replaced(column, at, value):
    """A change of one cell, within its kind."""

    def change(table):
        cells = list(table[column])
        cells[at] = value(cells[at])
        return table.assign(**{column: pd.Series(cells, table.index).astype(table[column].dtype)})

    return change


CHANGED = {
    "a point": ("estimates", replaced("point", 3, lambda value: value + 1e-9)),
    "a count": ("estimates", replaced("n", 3, lambda value: value + 1)),
    "a method": ("estimates", replaced("method", 0, lambda value: f"{value}_")),
    "a number left out": ("estimates", replaced("point", 0, lambda value: float("nan"))),
    "a row less": ("estimates", lambda table: table.iloc[1:]),
    "rows turned": ("estimates", lambda table: table.iloc[::-1]),
    "a column renamed": ("trials", lambda table: table.rename(columns={"kl": "lk"})),
    "a trial": ("trials", replaced("position", 5, lambda value: value + 1)),
    "a text": ("documents", replaced("text", 0, lambda value: value[:-1])),
    "a token": ("sequences", replaced("tokens", 2, lambda value: [*value[:-1], value[-1] + 1])),
    "a token moved": ("sequences", lambda table: table.assign(tokens=[
        [*table["tokens"][0], table["tokens"][1][0]], table["tokens"][1][1:], *table["tokens"][2:]
    ])),
}  # fmt: skip
TAKERS = {"estimates": "judge", "trials": "estimate", "documents": "sequences", "sequences": "calibrate"}


@pytest.mark.parametrize(("name", "change"), CHANGED.values(), ids=CHANGED)
def test_a_parquet_file_changed_by_hand(made, tmp_path, monkeypatch, name, change):
    monkeypatch.chdir(tmp_path)
    file, command = Path(f"results/{name}.parquet"), TAKERS[name]
    file.parent.mkdir()
    shutil.copy(made / file.name, file)
    rewritten(file, lambda table: table)  # in other pieces, but the same
    pd.testing.assert_frame_equal(read_parquet(file), read_parquet(made / file.name))
    rewritten(file, change)
    line = refused(command, *readers(made, file)[command], "--out", tmp_path / f"out{ENDS.get(command, '.parquet')}")
    assert line.startswith(f"{file} is damaged or was changed by hand (")
    assert line.endswith(f"build it again with `snakemake --cores 2 {file}`")
    assert [path.name for path in tmp_path.iterdir()] == ["results"]


def test_a_parquet_file_without_a_digest_is_still_read(made, tmp_path):
    table = read_parquet(made / "trials.parquet")
    table.to_parquet(tmp_path / "old.parquet", index=False)
    pd.testing.assert_frame_equal(read_parquet(tmp_path / "old.parquet"), table)


def spoil(path, kind):
    """Spoil a safetensors file; what the copy holds is right but for one thing."""
    if kind in SPOILED:
        path.write_bytes(SPOILED[kind](path.read_bytes()))
        return
    if kind == "changed":  # in place, behind the header
        content = bytearray(path.read_bytes())
        content[-3] ^= 1
        path.write_bytes(content)
        return
    tensors, provenance = load_file(path), read_provenance(path)
    name = max(tensors, key=lambda name: tensors[name].numel())
    if kind in ("nan", "inf"):
        tensors[name].view(-1)[5] = float(kind)
    elif kind == "shape":
        tensors[name] = tensors[name][..., :-1].contiguous()
    elif kind == "dimensions":
        tensors[name] = tensors[name].reshape(-1)
    elif kind == "lacking":
        del tensors[name]
    elif kind == "more":
        tensors["other"] = tensors[name].clone()
    elif kind == "empty":
        tensors = {}
    write_safetensors(path, tensors, provenance)


KINDS = (*SPOILED, "changed", "nan", "inf", "shape", "dimensions", "lacking", "more", "empty")
LOADERS = {
    "typical_attention": typical.load,
    "jacobian_lens": jacobian.load,
    "tuned_lens": tuned.load,
    "ridge_probe": lambda path, decoder: probe.load(path, decoder, torch.arange(4, 8)),
}


@pytest.mark.parametrize("artifact", LOADERS)
@pytest.mark.parametrize("kind", KINDS)
def test_an_artifact_that_is_damaged(made, tmp_path, artifact, kind):
    path, decoder = own(tmp_path / "results") / f"{artifact}.safetensors", load(made / "checkpoints/toy")
    shutil.copy(made / "artifacts/toy" / path.name, path)
    LOADERS[artifact](path, decoder)
    spoil(path, kind)
    with pytest.raises(LensproofError) as error:
        LOADERS[artifact](path, decoder)
    line = str(error.value)
    assert str(path) in line
    assert "\n" not in line
    # A layer less is a lens of another model, and a file without prompts is one of an earlier version.
    if (artifact, kind) not in (("jacobian_lens", "lacking"), ("jacobian_lens", "empty")):
        assert line.endswith(f"`cd {tmp_path} && snakemake --cores 2 results/{path.name}`")
        assert "remove it and build it again with" in line


WORDS = {
    "typical_attention": "typical attention",
    "jacobian_lens": "a Jacobian lens",
    "tuned_lens": "a tuned lens",
    "ridge_probe": "a ridge probe",
}


@pytest.mark.parametrize("wanted", LOADERS)
@pytest.mark.parametrize("given", [*LOADERS, "model", "table"])
def test_another_artifact_than_is_wanted_is_whole(made, tmp_path, given, wanted):
    """It says what it is; nobody is told to remove what took long to make."""
    results, decoder = own(tmp_path / "results"), load(made / "checkpoints/toy")
    path = results / f"{given}.safetensors"
    if given == "table":
        path = shutil.copy(made / "sequences.parquet", results / "table.parquet")
    else:
        shutil.copy(made / ("checkpoints" if given == "model" else "artifacts") / "toy" / path.name, path)
    if given == wanted:
        LOADERS[wanted](path, decoder)
        return
    with pytest.raises(LensproofError) as error:
        LOADERS[wanted](path, decoder)
    line = str(error.value)
    found = {**WORDS, "model": "weights of a checkpoint"}.get(given)
    if found:
        assert line == f"{path} holds {found}, but {WORDS[wanted]} is wanted here: give the file of that"
    else:
        assert line == f"{path} is no safetensors file: give one with {WORDS[wanted]}"


def test_readings_are_not_made_from_artifacts_in_each_others_place(made, tmp_path):
    results = own(shutil.copytree(made, tmp_path / "results"))
    on = ["--checkpoint", results / "checkpoints/toy", "--sequences", results / "sequences.parquet", "--count", 1]
    names = ("typical_attention", "jacobian_lens")
    typical_file, lens = (results / f"artifacts/toy/{name}.safetensors" for name in names)
    for first, second in ((lens, lens), (typical_file, typical_file), (lens, typical_file)):
        line = refused("readings", *on, "--typical", first, "--lens", second, "--out", tmp_path / "out.parquet")
        assert "is wanted here: give the file of that" in line
        assert "damaged" not in line
        assert "remove" not in line
    line = refused("estimate", "readings", lens, "--out", tmp_path / "out.parquet")
    assert line == f"{lens} is no Parquet file: give one whose name ends in .parquet"


@pytest.mark.parametrize(("lens", "artifact"), [("lexframe:1", "typical_attention"), ("jacobian", "jacobian_lens")])
@pytest.mark.parametrize("kind", ["half", "changed", "nan", "shape"])
def test_a_prompt_is_not_read_through_a_damaged_artifact(made, tmp_path, lens, artifact, kind):
    shutil.copytree(made / "artifacts", tmp_path / "artifacts")
    (tmp_path / "checkpoints").symlink_to(made / "checkpoints")
    spoil(tmp_path / f"artifacts/toy/{artifact}.safetensors", kind)
    line = refused("read", "--checkpoint", "toy", "--lens", lens, "--results", tmp_path, "The boat")
    assert "is damaged" in line


def test_an_artifact_without_a_digest_is_still_read(made, tmp_path):
    tensors = load_file(made / "artifacts/toy/typical_attention.safetensors")
    save_file(tensors, tmp_path / "old.safetensors")
    found = read_safetensors(tmp_path / "old.safetensors")
    assert all(torch.equal(found[name], tensor) for name, tensor in tensors.items())


def spoil_checkpoint(folder, kind):
    if kind == "weights":
        file = folder / "model.safetensors"
        file.write_bytes(shorn(file.read_bytes()))
    elif kind == "shapes":
        tensors = load_file(folder / "model.safetensors")
        name = next(name for name in tensors if "up_proj" in name)
        save_file({**tensors, name: tensors[name][:3].clone()}, folder / "model.safetensors", {"format": "pt"})
    else:
        (folder / kind).write_text("{bad")


@pytest.mark.parametrize("kind", ["weights", "shapes", "config.json", "tokenizer.json", "checkpoint.json"])
def test_a_checkpoint_that_is_damaged(made, tmp_path, kind):
    results = own(tmp_path / "results")
    shutil.copytree(made / "checkpoints", results / "checkpoints")
    (results / "artifacts").symlink_to(made / "artifacts")
    spoil_checkpoint(results / "checkpoints/toy", kind)
    line = refused("read", "--checkpoint", "toy", "--lens", "jacobian", "--results", results, "The boat")
    assert "is damaged" in line
    again = "remove it and build it again with `"
    assert f"{again}cd {tmp_path} && snakemake --cores 2 results/checkpoints/toy/checkpoint.json`" in line
    line = refused("read", "--checkpoint", shutil.move(results / "checkpoints/toy", tmp_path / "mine"), *LOGIT)
    assert "is damaged" in line
    assert "remove" not in line


MANIFESTS = {
    "text": "{bad",
    "nothing": "",
    "list": "[]",
    "without": '{"name": "toy"}',
    "number": '{"sha256": 3}',
    "short": '{"sha256": "abc"}',
    "null": '{"sha256": null}',
}


def manifest_with(change):
    """A manifest that is right but for what ``change`` does."""

    def edit(folder):
        found = read_json(folder / "checkpoint.json")
        change(found)
        write_json(folder / "checkpoint.json", found)

    return edit


TYPES = {
    **dict.fromkeys(("name", "title", "licence", "architecture", "sha256"), (3, None)),
    **dict.fromkeys(("layers", "width", "vocabulary"), ("4", 2.5, True, 0, -1)),
    "tied": ("yes", 1, None),
    **dict.fromkeys(("weights", "provenance"), ([], "x", None)),
}
KEYS = {f"{key} lacking": (key, manifest_with(lambda found, key=key: found.pop(key))) for key in TYPES}
KEYS |= {
    f"{key} {value!r}": (key, manifest_with(lambda found, key=key, value=value: found.update({key: value})))
    for key, values in TYPES.items()
    for value in values
}
KEYS |= {
    "another sha256": ("its sha256 is not that", manifest_with(lambda found: found.update(sha256="0" * 64))),
    "other weights": ("sha256", manifest_with(lambda found: found["weights"].update({"model.safetensors": "0" * 64}))),
    "weights without a sha256": ("model", manifest_with(lambda found: found["weights"].update({"model": 3}))),
    "no weights": ("its sha256 is not that", manifest_with(lambda found: found.update(weights={}))),
}


@pytest.mark.parametrize(("words", "spoil"), KEYS.values(), ids=KEYS)
def test_a_manifest_with_one_thing_wrong(made, tmp_path, words, spoil):
    folder = shutil.copytree(made / "checkpoints/toy", tmp_path / "toy")
    lensproof("read", "--checkpoint", folder, *LOGIT)
    spoil(folder)
    line = refused("read", "--checkpoint", folder, *LOGIT)
    assert line.startswith(f"{folder / 'checkpoint.json'} is damaged, or not what is needed here (")
    assert words in line


@pytest.mark.parametrize("content", MANIFESTS.values(), ids=MANIFESTS)
@pytest.mark.parametrize("command", [*ON_CHECKPOINT, "logit", "native", "lexframe:1", "jacobian"])
def test_a_manifest_that_is_damaged(made, tmp_path, monkeypatch, command, content):
    """Every command that runs a checkpoint refuses it before it runs anything."""
    results = own(tmp_path / "results")
    shutil.copytree(made / "checkpoints", results / "checkpoints")
    (results / "checkpoints/toy/checkpoint.json").write_text(content)
    (results / "checkpoints/toy/model.safetensors").unlink()  # nothing can be run
    arguments = ["--lens", command, "--results", results, "--checkpoint", "toy", "The boat"]
    if command in ON_CHECKPOINT:
        arguments = readers(made, made / ("documents" if command == "sequences" else "sequences"))[command]
        arguments = [results / "checkpoints/toy" if part == made / "checkpoints/toy" else part for part in arguments]
        arguments += ["--out", tmp_path / f"out{ENDS.get(command, '.parquet')}"]
    line = refused(command if command in ON_CHECKPOINT else "read", *arguments)
    assert f"{results / 'checkpoints/toy/checkpoint.json'} is damaged" in line
    assert line.endswith("results/checkpoints/toy/checkpoint.json`")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["results"]


@pytest.mark.parametrize("command", ON_CHECKPOINT)
def test_a_checkpoint_that_was_not_made_whole(made, tmp_path, command):
    folder = shutil.copytree(made / "checkpoints/toy", tmp_path / "toy")
    arguments = [folder if part == made / "checkpoints/toy" else part for part in readers(made, "a")[command]]
    for name in ("checkpoint.json", "config.json"):
        (folder / name).unlink()
        line = refused(command, *arguments, "--out", tmp_path / f"out{ENDS.get(command, '.parquet')}")
        assert str(folder) in line
        assert "remove" not in line


def test_what_was_made_for_another_tokenizer(made, tmp_path):
    write_parquet(tmp_path / "other.parquet", sequences(), {"inputs": {"tokenizer": {"sha256": "0" * 64}}})
    for command in ("observe", "readings", "calibrate", "fit-jacobian", "fit-probe", "fit-tuned"):
        out = tmp_path / f"out{ENDS.get(command, '.parquet')}"
        line = refused(command, *readers(made, tmp_path / "other.parquet")[command], "--out", out)
        assert "was made with another tokenizer" in line


def cell(column, value):
    """A change of one cell, the column as wide as it must be."""

    def change(table):
        table = table.astype({column: object})
        table.iloc[3, table.columns.get_loc(column)] = value
        return table.infer_objects()

    return change


def turned(table):
    table.loc[3, ["lo", "hi"]] = [0.9, 0.1]
    return table


def undefined(table, measure):
    table.loc[table["measure"] == measure, ["point", "lo", "hi"]] = float("nan")
    return table


ESTIMATES = {
    "an interval turned": (turned, "the interval ends before it starts in row 3 ("),
    "an endless number": (cell("point", float("inf")), "point is not finite in row 3 ("),
    "an endless end": (cell("hi", float("inf")), "hi is not finite in row 3 ("),
    "a number in words": (lambda table: table.astype({"point": str}), "point does not hold numbers"),
    "ends in words": (lambda table: table.astype({"lo": str}), "lo does not hold numbers"),
    "numbers true or false": (lambda table: table.assign(point=True), "point does not hold numbers"),
    "half a document": (lambda table: table.assign(clusters=1.5), "clusters does not hold whole numbers"),
    "half a layer": (lambda table: table.assign(layer=0.5), "layer does not hold whole numbers"),
    "no count": (cell("n", None), "n is missing in row 3 ("),
    "a method without a name": (cell("method", None), "method is missing in row 3 ("),
    "methods by number": (lambda table: table.assign(method=1), "method does not hold text"),
    "nothing defined": (lambda table: table.assign(point=float("nan")), "no number in it is defined"),
    "a measure undefined": (lambda table: undefined(table, "kl"), "kl is defined at no layer"),
    "no row": (lambda table: table.iloc[:0], "it has no row"),
    "a column less": (lambda table: table.drop(columns="clusters"), "has no column clusters"),
}
USERS = {
    "table": (["lexframe", "table1"], ".csv"),
    "figure": (["lexframe", "fig4"], ".pdf"),
    "judge": (["lexframe_order1_top1", "--level", "smoke"], ".json"),
}
OTHERS = {
    "table": (["gathered", "contrasts"], ".csv"),
    "figure": (["gathered", "entry"], ".pdf"),
    "judge": (["gathered_latent_demand_flexible_minus_supplied", "--level", "smoke", "--planted", "toy"], ".json"),
}


@pytest.mark.parametrize(("change", "words"), ESTIMATES.values(), ids=ESTIMATES)
@pytest.mark.parametrize(("command", "users"), [(name, users) for users in (USERS, OTHERS) for name in users])
def test_estimates_that_cannot_be(made, tmp_path, command, users, change, words):
    file, (arguments, end) = tmp_path / "estimates.parquet", users[command]
    write_parquet(file, change(read_parquet(made / "estimates.parquet")), {})
    line = refused(command, *arguments, file, "--out", tmp_path / "made" / f"out{end}")
    assert line.startswith(f"{file} ")
    assert words in line
    assert not (tmp_path / "made").exists()


def test_single_estimates_may_be_undefined(made, tmp_path):
    """A ratio whose denominator is nought, an interval of which resamples are not defined."""
    table = read_parquet(made / "estimates.parquet")
    table.loc[table["contrast"].notna(), ["point", "lo", "hi"]] = float("nan")
    table.loc[3, ["lo", "hi"]] = float("nan")
    write_parquet(tmp_path / "estimates.parquet", table, {})
    for command, (arguments, end) in USERS.items():
        lensproof(command, *arguments, tmp_path / "estimates.parquet", "--out", tmp_path / f"{command}{end}")


# -- writing over what is read


@pytest.fixture
def mine(made, tmp_path):
    """A copy of the results whose files may be written over."""
    folder = shutil.copytree(made, tmp_path / "mine")
    for name in ("claims.csv", "claims.md", "benchmark.parquet", "own.yaml", "lexframe_order1_top1.json"):
        (folder / name).write_text("x\n")
    for name in ("records.jsonl", "passages/english.txt", "adapter/adapter_config.json"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("x\n")
    return folder


def overwriting(folder):
    """What -> a command that would write over one of its inputs, and that input."""
    toy, sequences = folder / "checkpoints/toy", folder / "sequences.parquet"
    lens, fitted = (folder / f"artifacts/toy/{name}.safetensors" for name in ("jacobian_lens", "typical_attention"))
    trials, documents = folder / "trials.parquet", folder / "documents.parquet"
    claims, own_file = folder / "claims.csv", folder / "own.yaml"
    on, source = ["--checkpoint", toy, "--sequences", sequences], {"kind": "path", "path": str(documents)}
    corpus = json.dumps({"title": "t", "licence": "l", "format": "wikitext", "source": source,
                         "split": {"calibration": 0.5, "lens": 0.2, "test": 0.3}})  # fmt: skip
    checkpoint = {"title": "t", "licence": "l", "layers": 4, "tied": True}
    copied = json.dumps({**checkpoint, "source": {"kind": "path", "path": str(toy)}})
    initial = json.dumps({**checkpoint, "source": {"kind": "initial", "of": "toy"}})
    held = folder / "lexframe_order1_top1.json"
    records, adapter, passages = folder / "records.jsonl", folder / "adapter", folder / "passages"
    adapted = json.dumps({**checkpoint, "source": {"kind": "adapted", "of": "toy", "adapter": str(adapter)}})
    parallel = json.dumps({"title": "t", "licence": "l", "format": "passages",
                           "source": {"kind": "path", "path": str(held)}})  # fmt: skip
    commands = {
        "estimate": (["estimate", "readings", trials, "--out", trials], trials),
        "observe": (["observe", "planes", *on, "--count", 1, "--out", sequences], sequences),
        "observe, an input": (
            ["observe", "directions", *on, "--count", 1, "--input", f"a={trials}", "--out", trials], trials
        ),
        "readings": (
            ["readings", *on, "--typical", fitted, "--lens", lens, "--count", 1, "--out", sequences], sequences
        ),
        "calibrate, weights": (
            ["calibrate", *on, "--count", 2, "--out", toy / "model.safetensors"], toy / "model.safetensors"
        ),
        "fit-jacobian, weights": (
            ["fit-jacobian", *on, "--count", 1, "--out", toy / "model.safetensors"], toy / "model.safetensors"
        ),
        "sequences": (
            ["sequences", "--checkpoint", toy, "--corpus", trials, "--length", 16, "--out", trials], trials
        ),
        "merge-jacobian": (["merge-jacobian", lens, "--out", lens], lens),
        "merge-tuned": (["merge-tuned", lens, "--out", lens], lens),
        "judge": (["judge", "lexframe_order1_top1", held, "--level", "smoke", "--out", held], held),
        "judge, into": (["judge", "lexframe_order1_top1", held, "--level", "smoke", "--into", folder], held),
        "collect-claims": (["collect-claims", claims, "--level", "smoke", "--out", claims], claims),
        "table": (["table", "lexframe", "text", claims, "--out", claims], claims),
        "table, beside": (["table", "lexframe", "text", claims, "--out", folder / "claims.md"], claims),
        "figure, beside": (
            ["figure", "lexframe", "fig4", folder / "claims.md", "--out", folder / "claims.pdf"], folder / "claims.md"
        ),
        "table, gathered": (["table", "gathered", "contrasts", claims, "--out", claims], claims),
        "figure, gathered": (
            ["figure", "gathered", "entry", folder / "claims.md", "--out", folder / "claims.svg"], folder / "claims.md"
        ),
        "targets": (["targets", "lexframe", claims, "--out", claims], claims),
        "targets, beside": (["targets", "gathered", claims, "--out", folder / "claims.md"], claims),
        "timings": (
            ["timings", "--checkpoint", "toy", "--job", f"a:1={folder}/benchmark.parquet",
             "--out", folder / "benchmark.parquet"], folder / "benchmark.parquet"
        ),
        "corpus": (["corpus", "lee", "--spec", corpus, "--out", documents], documents),
        "corpus, a file": (["corpus", "lee", "--spec", corpus, "--file", trials, "--out", trials], trials),
        "fetch": (["fetch", "lee", "--configfile", own_file, "--out", own_file], own_file),
        "fit-probe, weights": (
            ["fit-probe", *on, "--count", 2, "--labels", 4, "--out", toy / "model.safetensors"],
            toy / "model.safetensors",
        ),
        "fit-tuned, weights": (
            ["fit-tuned", *on, "--layers", "0", "--tokens", 32, "--out", toy / "model.safetensors"],
            toy / "model.safetensors",
        ),
        "read, beside weights": (
            ["read", "A", "--lens", "logit", "--checkpoint", toy, "--out", toy / "a.png"], toy / "model.safetensors"
        ),
        "checkpoint": (["checkpoint", "toy", "--spec", copied, "--out", toy], toy / "model.safetensors"),
        "checkpoint, base": (
            ["checkpoint", "toy", "--spec", initial, "--base", toy, "--out", toy], toy / "model.safetensors"
        ),
        "checkpoint, a file": (
            ["checkpoint", "toy", "--spec", initial, "--file", toy / "config.json", "--out", toy], toy / "config.json"
        ),
        "checkpoint, an adapter": (
            ["checkpoint", "toy", "--spec", adapted, "--base", toy, "--out", adapter], adapter / "adapter_config.json"
        ),
        "records build": (
            ["records", "build", "language", "--checkpoint", toy, "--passages", records, "--out", records], records
        ),
        "records build, beside weights": (
            ["records", "build", "language", "--checkpoint", toy, "--out", toy / "a.jsonl"], toy / "model.safetensors"
        ),
        "records without-cue": (["records", "without-cue", records, "--out", records], records),
        "records passages": (["records", "passages", "own", "--spec", parallel, "--out", held], held),
        "query-states, weights": (
            ["query-states", "--checkpoint", toy, "--records", records, "--count", 1,
             "--out", toy / "model.safetensors"], toy / "model.safetensors"
        ),
        "observe-arms": (
            ["observe-arms", "availability", "--checkpoint", toy, "--records", records, "--states", trials,
             "--set", "language", "--out", trials], trials
        ),
        "observe-arms, an input": (
            ["observe-arms", "visibility", "--checkpoint", toy, "--records", records, "--states", lens,
             "--set", "language", "--input", f"a={trials}", "--out", trials], trials
        ),
        "train-adapter": (["train-adapter", "--checkpoint", toy, "--out", toy], toy / "model.safetensors"),
        "train-adapter, passages": (
            ["train-adapter", "--checkpoint", toy, "--passages", passages, "--out", passages], passages / "english.txt"
        ),
    }  # fmt: skip
    return commands


@pytest.mark.parametrize("way", ["plainly", "by another path", "by a link"])
@pytest.mark.parametrize("what", overwriting(Path()))
def test_what_is_read_is_not_written_over(mine, tmp_path, way, what):
    command, file = overwriting(mine)[what]
    if way != "plainly":
        other = tmp_path / "link" if way == "by a link" else mine / ".." / "mine"
        if way == "by a link":
            other.symlink_to(mine)
        at = len(command) - 1
        command[at] = other / command[at].relative_to(mine)
    before, files = file.read_bytes(), sorted(mine.rglob("*"))
    line = refused(*command)
    assert "which is read: write elsewhere" in line
    assert file.read_bytes() == before
    assert sorted(mine.rglob("*")) == files


def test_every_command_that_writes_is_tried(mine):
    """But those that read no file."""
    tried = {" ".join(map(str, command)) for command, _ in overwriting(mine).values()} | {"schema ", "plant "}
    for name, command in commands():
        if {"out", "into"} & {option.name for option in command.params}:
            assert any(line.startswith(f"{name} ") for line in tried), name


def test_the_projects_own_passages_are_not_written_over(made):
    """Where none are given, these are read."""
    before = {path: path.read_bytes() for path in passages.OWN.iterdir()}
    line = refused("train-adapter", "--checkpoint", made / "checkpoints/toy", "--out", passages.OWN)
    assert "which is read: write elsewhere" in line
    assert {path: path.read_bytes() for path in passages.OWN.iterdir()} == before


def test_a_lens_may_stand_beside_its_other_format(mine):
    lens = mine / "artifacts/toy/jacobian_lens.safetensors"
    lensproof("merge-jacobian", lens, "--out", lens.with_suffix(".pt"))
    assert lens.with_suffix(".pt").is_file()


@pytest.mark.parametrize("log", ["estimates.parquet", "a.txt", "log"])
def test_a_log_is_written_over_nothing_else(mine, log):
    files = {path: path.read_bytes() for path in mine.iterdir() if path.is_file()}
    line = refused("--log", mine / log, "estimate", "readings", mine / log, "--out", mine / "out.parquet")
    assert line.endswith("a log's name must end in .log")
    assert {path: path.read_bytes() for path in mine.iterdir() if path.is_file()} == files


TRIALS = {
    "readings": lambda: observations(documents=4),
    "visibility": lambda: gathered_world.visibility(instances=4, passages=2),
    "availability": gathered_world.availability,
}


@pytest.mark.parametrize("experiment", TRIALS)
def test_observations_without_a_trial(tmp_path, experiment):
    write_parquet(tmp_path / "trials.parquet", TRIALS[experiment]().iloc[:0], {})
    line = refused("estimate", experiment, tmp_path / "trials.parquet", "--out", tmp_path / "out.parquet")
    assert line == "the observations hold no trial: give others, or build them again"


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("experiment", ["readings", *EXPERIMENTS, *DERIVED, *ON_RECORDS])
def test_observations_of_something_else(tmp_path, experiment, whole):
    """Or of nothing at all, with the columns that all have."""
    table = pd.DataFrame({name: [] for name in FACTORS})
    if whole:
        table = gathered_world.worked_example() if experiment != "worked_example" else gathered_world.availability()
    write_parquet(tmp_path / "trials.parquet", table, {})
    line = refused("estimate", experiment, tmp_path / "trials.parquet", "--out", tmp_path / "out.parquet")
    assert "observations" in line
    assert not (tmp_path / "out.parquet").exists()


# -- options that cannot be meant

PLANES = {"sequences": 1, "shard": 1, "layers": "all", "tokens": 3}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("{bad", "--options is not valid JSON"),
        ("[]", "--options must be a JSON object"),
        ("3", "--options must be a JSON object"),
        ("null", "--options must be a JSON object"),
        ("{}", "--options: sequences is missing"),
        (
            '{"sequences": 1, "shard": 1, "layers": "some", "tokens": 3}',
            "--options: layers: should be 'all' or a mapping",
        ),
        (
            '{"sequences": 1, "shard": 1, "layers": [0, "a"], "tokens": 3}',
            "--options: layers.1: should be a whole number",
        ),
        ('{"sequences": 1, "shard": 1, "layers": "all", "tokens": "x"}', "--options: tokens: should be a whole number"),
        ('{"sequences": 1, "shard": 1, "layers": "all", "tokens": 3, "x": 1}', "--options: unknown key x"),
        ('{"sequences": 1, "shard": 1, "layers": "all", "tokens": 3, "calibration": []}', "--options: calibration"),
    ],
)
def test_options_of_an_experiment(made, tmp_path, options, words):
    command = ["observe", *readers(made, made / "sequences.parquet")["observe"], "--options", options]
    assert words in refused(*command, "--out", tmp_path / "out.parquet")
    assert not list(tmp_path.iterdir())


def test_an_experiment_without_options_is_as_the_configuration_says(made, tmp_path):
    out = tmp_path / "out.parquet"
    lensproof("observe", *readers(made, made / "sequences.parquet")["observe"], "--out", out)
    assert read_provenance(out)["settings"]["options"] == {**PLANES, "calibration": 64}


@pytest.mark.parametrize(
    ("split", "words"),
    [
        ("{bad", "--split is not valid JSON"),
        ("[0.5]", "--split must be a JSON object"),
        ('{"calibration": 0.5, "lens": 0.5}', "split must name calibration, lens and test"),
        ('{"calibration": 0.5, "lens": 0.5, "test": 0.5}', "add up to 1.5"),
        ('{"calibration": "a", "lens": 0.5, "test": 0.5}', "calibration: should be a number"),
    ],
)
def test_a_split_of_documents(made, tmp_path, split, words):
    command = ["sequences", *readers(made, made / "documents.parquet")["sequences"], "--split", split]
    assert words in refused(*command, "--out", tmp_path / "out.parquet")


def test_sequences_longer_than_there_is(made, tmp_path):
    command = ["sequences", "--checkpoint", made / "checkpoints/toy", "--corpus", made / "documents.parquet"]
    out = ["--out", tmp_path / "out.parquet"]
    assert "toy takes 512 at most: lower sequence_length" in refused(*command, "--length", 100000, *out)
    write_parquet(tmp_path / "short.parquet", documents(3), {})
    command[-1] = tmp_path / "short.parquet"
    assert "no document is 500 tokens long, the longest has" in refused(*command, "--length", 500, *out)


@pytest.mark.parametrize(
    ("command", "name", "words"),
    [
        ("observe", "nope", "there is no experiment 'nope': use one of directions, "),
        ("observe", "readings", "`lensproof readings`"),
        ("observe", "exits", "there is no experiment 'exits': use one of directions, "),
        ("estimate", "nope", "there is no experiment 'nope': use one of readings, directions, "),
        ("estimate", "bootstrap", "there is no experiment 'bootstrap'"),
        ("table", "table99", "there is no table 'table99': use one of table1, table2, "),
        ("table", "fig4", "there is no table 'fig4'"),
        ("figure", "table1", "there is no figure 'table1': use one of fig1, "),
        ("figure", "fig99", "there is no figure 'fig99'"),
        ("observe", "visibility", "`lensproof observe-arms`"),
        ("table", "gathered table1", "there is no table 'table1': use one of contrasts, results, "),
        ("figure", "gathered fig4", "there is no figure 'fig4': use one of overview, entry, "),
        ("figure", "lexframe entry", "there is no figure 'entry': use one of fig1, "),
    ],
)
def test_a_name_that_is_not_known(made, tmp_path, command, name, words):
    file = made / ("trials.parquet" if command == "estimate" else "estimates.parquet")
    given = {"observe": [name, *readers(made, made / "sequences.parquet")["observe"][1:]], "estimate": [name, file]}
    paper, _, name = name.rpartition(" ")
    arguments = given.get(command, [paper or "lexframe", name, file])
    assert words in refused(command, *arguments, "--out", tmp_path / f"out{ENDS.get(command, '.parquet')}")


ANY_NAME = {"fetch", "checkpoint", "schema", "plant", "train-adapter"}
"""What these write is called as one likes, or is a folder."""


def commands(group=cli, before=""):
    """Every command with its name, those of groups too."""
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        yield from commands(command, f"{name} ") if isinstance(command, click.Group) else [(before + name, command)]


WRITERS = [
    (name, option)
    for name, command in commands()
    for option in command.params
    if option.name == "out" and name not in ANY_NAME
]


@pytest.mark.parametrize(("name", "option"), WRITERS, ids=[name for name, _ in WRITERS])
@pytest.mark.parametrize("file", ["out", "out.txt", "out.parquet.gz", "csv"])
def test_a_name_of_a_file_that_does_not_say_what_is_written(name, option, file):
    with pytest.raises(LensproofError, match=r"its name must end in \."):
        option.callback(None, option, Path(file))


@pytest.mark.parametrize(
    ("command", "out"), [("table", "t.png"), ("figure", "t.csv"), ("estimate", "t.csv"), ("table", "t")]
)
def test_a_kind_of_file_that_is_not_written(made, tmp_path, command, out):
    arguments = readers(made, made / ("trials.parquet" if command == "estimate" else "estimates.parquet"))[command]
    assert "its name must end in" in refused(command, *arguments, "--out", tmp_path / out)
    assert not list(tmp_path.iterdir())


# -- the same thing twice


@pytest.mark.parametrize("way", ["again", "by another path", "a copy", "an overlap"])
def test_a_shard_twice(made, tmp_path, way):
    first, trials = tmp_path / "shard_000.parquet", read_parquet(made / "trials.parquet")
    shutil.copy(made / "trials.parquet", first)
    second = {"again": first, "by another path": tmp_path / "." / "x" / ".." / first.name}.get(
        way, tmp_path / "b.parquet"
    )
    (tmp_path / "x").mkdir()
    if way == "a copy":
        shutil.copy(first, second)
    if way == "an overlap":
        last = trials["sequence"].max()
        more = trials.assign(sequence=trials["sequence"] + last, document=trials["document"] + last)
        write_parquet(second, more, {})
    line = refused("estimate", "readings", first, second, "--out", tmp_path / "out.parquet")
    assert line.endswith(("give each file once", "give each shard once"))
    assert not (tmp_path / "out.parquet").exists()


@pytest.mark.parametrize("copied", [False, True])
@pytest.mark.parametrize("command", ["table", "figure"])
def test_estimates_twice(made, tmp_path, command, copied):
    file = made / "estimates.parquet"
    second = shutil.copy(file, tmp_path / "copy.parquet") if copied else file
    line = refused(command, *readers(made, file)[command], second, "--out", tmp_path / "made" / f"o{ENDS[command]}")
    assert ("both hold estimates of readings with toy" if copied else "is given twice") in line
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("copied", [False, True])
@pytest.mark.parametrize("command", ["merge-jacobian", "merge-tuned"])
def test_a_part_of_a_lens_twice(made, tmp_path, command, copied):
    on = ["--checkpoint", made / "checkpoints/toy", "--sequences", made / "sequences.parquet"]
    shard, copy, out = (tmp_path / f"{name}.safetensors" for name in ("shard", "copy", "out"))
    fit = ["fit-jacobian", *on, "--count", 2, "--skip", 2] if command == "merge-jacobian" else None
    lensproof(*(fit or ["fit-tuned", *on, "--layers", "0,2", "--tokens", 32]), "--out", shard)
    shutil.copy(shard, copy)
    line = refused(command, shard, copy if copied else shard, "--out", out)
    assert line.endswith("once")
    assert not out.exists()


# -- precision


@pytest.mark.parametrize("experiment", ["directions", "composition", "substitution", "coherence"])
def test_directions_are_made_in_float32_whatever_is_asked(made, tmp_path, experiment):
    options = {
        "directions": {"positions": 2, "labels": 4, "orders": [0, 1]},
        "composition": {"positions": 1, "labels": 4, "step": 0.1},
        "substitution": {"pairs": 12, "neighbours": 8, "leading": 3, "graph": 3},
        "coherence": {"positions": 2, "labels": 4},
    }[experiment]
    options |= {"sequences": 4, "shard": 4, "layers": {"every": 2}}
    on = ["--checkpoint", made / "checkpoints/toy", "--sequences", made / "sequences.parquet"]
    inputs = []
    if experiment == "directions":
        lensproof("fit-probe", *on, "--count", 2, "--labels", 4, "--out", tmp_path / "ridge_probe.safetensors")
        inputs += ["--input", f"ridge_probe={tmp_path / 'ridge_probe.safetensors'}"]
    for name in ("typical_attention", "jacobian_lens"):
        inputs += ["--input", f"{name}={made / 'artifacts/toy' / name}.safetensors"]
    tables = []
    for precision in ("float32", "bfloat16"):
        out = tmp_path / f"{precision}.parquet"
        asked = ["--precision", precision, "--options", json.dumps(options), "--count", 4]
        lensproof("observe", experiment, *on, *inputs, *asked, "--out", out)
        tables.append(read_parquet(out))
    pd.testing.assert_frame_equal(*tables)


# -- prompts


@pytest.mark.parametrize("text", ["", " ", "  \n\t "])
def test_a_prompt_without_text(made, text):
    assert "the prompt is empty" in refused("read", "--checkpoint", "toy", "--lens", "logit", "--results", made, text)


def test_a_long_prompt(made):
    command = ["read", "--checkpoint", "toy", "--lens", "logit", "--results", made]
    line = refused(*command, "The boat that left. " * 40)
    length = int(line.split()[3])
    assert line.startswith(f"the prompt has {length} tokens, 256 are read at most: shorten it, or raise the limit with")
    assert f"--longest {length}" in line
    assert "10 are read at most" in refused(*command, "--longest", 10, "The boat that left the harbour")
    lensproof(*command, "--longest", length, "--layers", 4, "The boat that left. " * 40)
    assert "takes 512 at most: shorten it" in refused(*command, "--longest", 10**6, "The boat that left. " * 60)


@pytest.mark.parametrize(("lens", "bars"), [("logit", ["reading"]), ("lexframe:1", ["running", "reading"]),
                                            ("native", ["running", "reading"])])  # fmt: skip
def test_a_long_reading_shows_how_far_it_is(made, capsys, monkeypatch, lens, bars):
    for module in (progress, prompt, flow):
        monkeypatch.setattr(module, "SOON", 0)
    command = ["read", "--checkpoint", "toy", "--lens", lens, "--results", made]
    lensproof(*command, "The boat that left the harbour")
    shown = capsys.readouterr().err
    assert [bar for bar in ("running", "reading") if bar in shown] == bars


def test_a_short_reading_shows_no_bar(made, capsys):
    lensproof("read", "--checkpoint", "toy", "--lens", "lexframe:1", "--results", made, "The boat")
    assert capsys.readouterr().err == ""


def test_a_heatmap_goes_where_there_is_no_folder_yet(made, tmp_path):
    out = tmp_path / "new" / "folder" / "read.png"
    lensproof("read", "--checkpoint", "toy", "--lens", "logit", "--results", made, "--out", out, "The boat")
    assert out.read_bytes().startswith(b"\x89PNG")


# -- experiments on benchmark records


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """A planted model with passages, records and two shards of states."""
    folder = tmp_path_factory.mktemp("planted") / "results"
    model = ["--checkpoint", folder / "checkpoints/planted"]
    lensproof("plant", "--kind", "gather", "--block", 3, "--layers", 8, "--out", folder / "checkpoints/planted")
    lensproof("records", "build", "language", *model, "--count", 4, "--out", folder / "records.jsonl")
    for first in (0, 1):
        on = [*model, "--records", folder / "records.jsonl", "--first", first, "--count", 1]
        lensproof("query-states", *on, "--out", folder / f"states_{first}.safetensors")
    passages.write(folder / "passages.json", benchmark_world.passages(28), {})
    return folder


def on_records(planted, records=None, states=None, source=None):
    """Command -> its arguments and how the name of what it writes ends; with other files in place of the right ones."""
    model = ["--checkpoint", planted / "checkpoints/planted"]
    records, states = records or planted / "records.jsonl", states or planted / "states_0.safetensors"
    source = source or planted / "passages.json"
    return {
        "query-states": ([*model, "--records", records, "--count", 1], ".safetensors"),
        "observe-arms": (
            ["availability", *model, "--records", records, "--states", states, "--set", "language"],
            ".parquet",
        ),
        "records check": ([records, *model], None),
        "records without-cue": ([records], ".jsonl"),
        "records build": (["language", "--passages", source, *model], ".jsonl"),
        "train-adapter": ([*model, "--passages", source], ""),
    }


def refused_on_records(planted, tmp_path, command, *more, **files) -> str:
    """The line with which a command refuses; it leaves nothing."""
    arguments, end = on_records(planted, **files)[command]
    out = [] if end is None else ["--out", tmp_path / "made" / f"out{end}"]
    line = refused(*command.split(), *arguments, *more, *out)
    assert not (tmp_path / "made").exists()
    return line


READ_RECORDS = ("query-states", "observe-arms", "records check", "records without-cue")


@pytest.mark.parametrize("command", READ_RECORDS)
@pytest.mark.parametrize("kind", [*SPOILED, "absent", "other"])
def test_records_that_are_none(planted, tmp_path, command, kind):
    file = tmp_path / "given.jsonl"
    if kind in SPOILED:
        file.write_bytes(SPOILED[kind]((planted / "records.jsonl").read_bytes()))
    elif kind == "other":
        file.write_text('{"a": 1}\n')
    line = refused_on_records(planted, tmp_path, command, records=file)
    assert str(file) in line
    assert "remove" not in line
    if kind == "absent":
        assert line.endswith("does not exist: correct the path")


@pytest.mark.parametrize("command", READ_RECORDS)
def test_records_that_a_rule_makes(planted, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    line = refused_on_records(planted, tmp_path, command, records=Path("results/records/toy/language.jsonl"))
    assert line.endswith("build it with `snakemake --cores 2 results/records/toy/language.jsonl`")


ON_PLANTED = tuple(name for name, (given, _) in on_records(Path()).items() if "--checkpoint" in given)


@pytest.mark.parametrize("content", MANIFESTS.values(), ids=MANIFESTS)
@pytest.mark.parametrize("command", ON_PLANTED)
def test_a_manifest_that_is_damaged_under_records(planted, tmp_path, command, content):
    results = own(shutil.copytree(planted, tmp_path / "results"))
    manifest = results / "checkpoints/planted/checkpoint.json"
    manifest.write_text(content)
    manifest.with_name("model.safetensors").unlink()  # nothing can be run
    line = refused_on_records(results, tmp_path, command)
    assert f"{manifest} is damaged" in line
    assert line.endswith("results/checkpoints/planted/checkpoint.json`")


@pytest.mark.parametrize("command", ON_PLANTED)
def test_a_checkpoint_under_records_that_was_not_made_whole(planted, tmp_path, command):
    folder = shutil.copytree(planted, tmp_path / "elsewhere")
    for name in ("checkpoint.json", "config.json"):
        (folder / "checkpoints/planted" / name).unlink()
        line = refused_on_records(folder, tmp_path, command)
        assert str(folder / "checkpoints/planted") in line
        assert "remove" not in line


@pytest.mark.parametrize("content", MANIFESTS.values(), ids=MANIFESTS)
@pytest.mark.parametrize("kind", ["initial", "adapted"])
def test_a_manifest_that_is_damaged_of_what_a_checkpoint_is_made_from(made, tmp_path, kind, content):
    base, source = shutil.copytree(made / "checkpoints/toy", tmp_path / "base"), {"kind": kind, "of": "toy"}
    (base / "checkpoint.json").write_text(content)
    source |= {"adapter": str(tmp_path)} if kind == "adapted" else {}
    spec = json.dumps({"title": "t", "licence": "l", "layers": 4, "tied": True, "source": source})
    line = refused("checkpoint", "toy", "--spec", spec, "--base", base, "--out", tmp_path / "made")
    assert f"{base / 'checkpoint.json'} is damaged" in line
    assert [path.name for path in tmp_path.iterdir()] == ["base"]


@pytest.mark.parametrize("command", ["query-states", "observe-arms"])
@pytest.mark.parametrize("without_cue", [False, True])
def test_records_that_were_made_for_another_tokenizer(planted, tmp_path, command, without_cue):
    file = tmp_path / "given.jsonl"
    shutil.copy(planted / "records.jsonl", file)
    write_json(provenance_path(file), {"inputs": {"tokenizer": {"sha256": "0" * 64}}})
    if without_cue:
        lensproof("records", "without-cue", file, "--out", tmp_path / "bare.jsonl")
        file = tmp_path / "bare.jsonl"
    assert "was made with another tokenizer" in refused_on_records(planted, tmp_path, command, records=file)


@pytest.mark.parametrize("key", ["latent_token_id", "candidate_token_ids"])
def test_tokens_of_another_tokenizer_are_not_run(planted, tmp_path, key):
    """Whether or not a file says what it was made for."""
    file, found = tmp_path / "given.jsonl", [json.loads(line) for line in (planted / "records.jsonl").open()]
    for record in found:
        record[key] = record[key] + 1 if isinstance(record[key], int) else [token + 1 for token in record[key]]
    file.write_text("".join(json.dumps(record) + "\n" for record in found))
    line = refused_on_records(planted, tmp_path, "query-states", records=file)
    assert "line 1" in line
    assert "of this tokenizer" in line


def test_states_of_other_records_are_not_read(planted, tmp_path):
    """Those of another set have the same names."""
    file = tmp_path / "language_unmatched.jsonl"
    model = ["--checkpoint", planted / "checkpoints/planted"]
    lensproof("records", "build", "language_unmatched", *model, "--count", 4, "--out", file)
    line = refused_on_records(planted, tmp_path, "observe-arms", records=file)
    assert "was made of other records than these" in line


@pytest.mark.parametrize("made_here", [True, False])
@pytest.mark.parametrize("kind", [*KINDS, "absent"])
def test_states_that_are_damaged(planted, tmp_path, kind, made_here):
    file = (own(tmp_path / "results") if made_here else tmp_path) / "given.safetensors"
    if kind != "absent":
        shutil.copy(planted / "states_0.safetensors", file)
        spoil(file, kind)
    line = refused_on_records(planted, tmp_path, "observe-arms", states=file)
    assert str(file) in line
    assert line.endswith(f"`cd {tmp_path} && snakemake --cores 2 results/given.safetensors`") == made_here
    assert ("remove it and build it again" in line) == (made_here and kind != "absent")


@pytest.mark.parametrize("made_here", [True, False])
@pytest.mark.parametrize("what", ["weights", "records", "count"])
def test_states_of_something_else(planted, tmp_path, what, made_here):
    file = (own(tmp_path / "results") if made_here else tmp_path) / "given.safetensors"
    tensors, made = (read(planted / "states_0.safetensors") for read in (read_safetensors, read_provenance))
    changed = {"weights": {"weights": "0" * 64}, "records": {"records": ["nobody"] * len(made["records"])},
               "count": {"records": made["records"][1:]}}[what]  # fmt: skip
    write_safetensors(file, tensors, {**made, **changed})
    words = {"weights": "was made with other weights", "records": "holds states of nobody", "count": "is damaged"}[what]
    line = refused_on_records(planted, tmp_path, "observe-arms", states=file)
    assert words in line or (what == "count" and not made_here)
    again = f"build it again with `cd {tmp_path} && snakemake --cores 2 results/given.safetensors`"
    assert line.endswith(again if made_here else "give another")


@pytest.mark.parametrize("copied", [False, True])
def test_states_twice(planted, tmp_path, copied):
    first = planted / "states_0.safetensors"
    second = shutil.copy(first, tmp_path / "copy.safetensors") if copied else first
    line = refused_on_records(planted, tmp_path, "observe-arms", "--states", second)
    assert line.endswith("give each shard once" if copied else "give each file once")


@pytest.mark.parametrize("copied", [False, True])
def test_observations_on_records_twice(tmp_path, copied):
    first = tmp_path / "shard_000.parquet"
    write_parquet(first, gathered_world.visibility(instances=4, passages=2), {})
    second = shutil.copy(first, tmp_path / "copy.parquet") if copied else first
    line = refused("estimate", "visibility", first, second, "--out", tmp_path / "out.parquet")
    assert line.endswith("both hold instance i000 of toy: give each shard once" if copied else "give each file once")
    assert not (tmp_path / "out.parquet").exists()


@pytest.mark.parametrize("command", ["records build", "train-adapter"])
@pytest.mark.parametrize("kind", [*SPOILED, "absent", "other"])
def test_passages_that_are_none(made, planted, tmp_path, command, kind):
    file = tmp_path / "given.json"
    if kind in SPOILED:
        file.write_bytes(SPOILED[kind]((planted / "passages.json").read_bytes()))
    elif kind == "other":
        file.write_text("{}")
    # A planted model's own world needs no passages.
    line = refused_on_records(planted, tmp_path, command, "--checkpoint", made / "checkpoints/toy", source=file)
    assert str(file) in line
    assert line.endswith("correct the path" if kind == "absent" else "give another")


@pytest.mark.parametrize("command", ["records build", "train-adapter"])
@pytest.mark.parametrize("kind", [*SPOILED, "absent", "other"])
def test_passages_that_a_rule_makes(made, planted, tmp_path, monkeypatch, command, kind):
    monkeypatch.chdir(tmp_path)
    file = Path("results/passages/own.json")
    file.parent.mkdir(parents=True)
    if kind != "absent":
        file.write_bytes(b"{}" if kind == "other" else SPOILED[kind]((planted / "passages.json").read_bytes()))
    line = refused_on_records(planted, tmp_path, command, "--checkpoint", made / "checkpoints/toy", source=file)
    assert line.endswith(" with `snakemake --cores 2 results/passages/own.json`")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("{bad", "--options is not valid JSON"),
        ("[]", "--options must be a JSON object"),
        ("{}", "--options: sets is missing"),
        ('{"sets": ["language"], "splits": 1}', "--options: splits: should be greater than or equal to 2"),
        ('{"sets": ["languages"], "splits": 2}', "--options: sets.0: should be 'language'"),
        ('{"sets": ["language"], "splits": 2, "x": 1}', "--options: unknown key x"),
    ],
)
def test_options_of_an_experiment_on_records(planted, tmp_path, options, words):
    assert words in refused_on_records(planted, tmp_path, "observe-arms", "--options", options)


def test_an_experiment_on_records_without_options_is_as_the_configuration_says(planted, tmp_path):
    out, more = tmp_path / "out.parquet", ["--input", f"jacobian_lens={tmp_path / 'lens.safetensors'}"]
    arguments, _ = on_records(planted)["observe-arms"]
    text = tmp_path / "sequences.parquet"
    write_parquet(text, sequences(), {})
    fit = ["--sequences", text, "--count", 1, "--lowest", 3, "--skip", 4, "--out", tmp_path / "lens.safetensors"]
    lensproof("fit-jacobian", "--checkpoint", planted / "checkpoints/planted", *fit)
    lensproof("observe-arms", "worked_example", *arguments[1:], *more, "--out", out)
    assert read_provenance(out)["settings"]["options"] == section_on_records("worked_example")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nope", "there is no experiment 'nope': use one of visibility, availability, "),
        ("planes", "`lensproof observe`"),
        ("readings", "`lensproof readings`"),
    ],
)
def test_an_experiment_on_records_that_is_not_known(planted, tmp_path, name, words):
    arguments, _ = on_records(planted)["observe-arms"]
    assert words in refused("observe-arms", name, *arguments[1:], "--out", tmp_path / "out.parquet")


def test_an_input_that_is_not_there(planted, tmp_path):
    line = refused_on_records(planted, tmp_path, "observe-arms", "--input", f"jacobian_lens={tmp_path / 'lens'}")
    assert f"{tmp_path / 'lens'} does not exist: correct the path" in line


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["plant", "--kind", "gather", "--block", 40], "this model cannot be planted: "),
        (["records", "build", "languages"], "there are no records languages for a planted model"),
        (["records", "build", "tracking"], "there are no records tracking for a planted model"),
        (["records", "passages", "nope"], "nope is not in the registry of passages"),
        (["query-states", "--arms", "supplid", "--count", 1], "no record of the arm 'supplid'"),
    ],
)
def test_what_cannot_be_meant_of_records(planted, tmp_path, arguments, words):
    more = {"query-states": ["--records", planted / "records.jsonl"]}.get(arguments[0], [])
    if arguments[0] != "plant" and "passages" not in arguments:
        more += ["--checkpoint", planted / "checkpoints/planted"]
    out = (
        "out.safetensors" if arguments[0] == "query-states" else "out.json" if "passages" in arguments else "out.jsonl"
    )
    assert words in refused(*arguments, *more, "--out", tmp_path / "made" / out)
    assert not list(tmp_path.glob("made/*"))


def test_a_probe_of_one_passage(planted, tmp_path):
    line = refused_on_records(planted, tmp_path, "observe-arms")
    assert line.endswith("the probe needs others to be tested on")
