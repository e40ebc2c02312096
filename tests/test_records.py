"""Files of records: the same bytes everywhere, the published format, and every refusal naming its line."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys

import pytest
from benchmark_world import checkpoint, folder, passages, said, tokenizer
from click.testing import CliRunner

from lensproof.checkpoints.load import load_tokenizer
from lensproof.commands.records import command
from lensproof.corpora.benchmark import language, sets
from lensproof.corpora.benchmark.check import check
from lensproof.corpora.benchmark.passages import load
from lensproof.corpora.benchmark.record import FIELDS, read_records, to_line, write_records
from lensproof.corpora.benchmark.wording import LANGUAGE
from lensproof.errors import LensproofError
from lensproof.files import read_json, read_provenance


def records(count=3, **options):
    return language.build(passages(), LANGUAGE["default"], tokenizer(), count=count, **options).records


def run(*arguments):
    """``lensproof records`` with these arguments; its error is raised."""
    result = CliRunner().invoke(command, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


# -- the format


def test_what_is_written_is_read(tmp_path):
    made = records()
    write_records(tmp_path / "a.jsonl", made)
    found = read_records(tmp_path / "a.jsonl")
    assert [to_line(record) for record in found] == [to_line(record) for record in made]
    assert [record.prompt for record in found] == [record.prompt for record in made]
    content = (tmp_path / "a.jsonl").read_bytes()
    assert content.count(b"\n") == len(made)
    assert b"\r" not in content
    assert list(json.loads(content.split(b"\n")[0])) == list(FIELDS)
    assert "«" not in content.decode()  # punctuation around a first word is no part of the answer
    write_records(tmp_path / "b.jsonl", found)
    assert (tmp_path / "b.jsonl").read_bytes() == content


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda line: line[:-2], "line 2: not JSON"),
        (lambda line: f"[{line}]", "line 2: a record is a JSON object, not list"),
        (lambda line: line.replace('"gold_answer"', '"gold"'), "line 2: the record lacks gold_answer"),
        (
            lambda line: line.replace('"meta"', '"colour": "red", "meta"'),
            "line 2: the record has unknown fields colour",
        ),
        (
            lambda line: re.sub(r'"latent_token_id": (\d+)', r'"latent_token_id": "\1"', line),
            "line 2: latent_token_id is",
        ),
        (lambda line: line.replace('"query_position": -1', '"query_position": true'), "line 2: query_position is True"),
    ],
)
def test_a_line_that_is_no_record(tmp_path, change, message):
    lines = [to_line(record) for record in records()]
    lines[1] = change(lines[1])
    (tmp_path / "a.jsonl").write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(LensproofError, match=re.escape(message)) as error:
        read_records(tmp_path / "a.jsonl")
    assert "\n" not in str(error.value)


def test_files_that_hold_nothing(tmp_path):
    with pytest.raises(LensproofError, match="none.jsonl does not exist"):
        read_records(tmp_path / "none.jsonl")
    (tmp_path / "a.jsonl").write_text("\n\n")
    with pytest.raises(LensproofError, match="a.jsonl holds no records"):
        read_records(tmp_path / "a.jsonl")
    (tmp_path / "a.jsonl").write_bytes(b"\xff")
    with pytest.raises(LensproofError, match="not UTF-8"):
        read_records(tmp_path / "a.jsonl")


# -- checking a file


def test_a_good_file(tmp_path):
    write_records(tmp_path / "a.jsonl", records(count=6))
    summary = check(tmp_path / "a.jsonl", tokenizer())
    assert summary.counts == {
        ("language", arm): 6 for arm in ("automatic", "report", "flexible", "control", "supplied")
    }
    assert (summary.instances, summary.complete) == (6, 6)
    assert summary.clusters == len({record.meta["passage"] for record in records(count=6)})
    assert summary.lines()[1] == "language: automatic 6, report 6, flexible 6, control 6, supplied 6"


def another(record):
    """A candidate other than z."""
    return next(name for name in record.meta["languages"] if name != record.latent_value)


def check_changed(path, line, change, **others):
    """Check a file in which one record is changed."""
    made = records()
    made[line - 1] = dataclasses.replace(made[line - 1], **change(made[line - 1]))
    write_records(path / "a.jsonl", made)
    check(path / "a.jsonl", others.get("tokenizer") or tokenizer())


REFUSED = {
    "the id 'language-00000-report' stands in line 2 already": (9, lambda r: {"id": "language-00000-report"}),
    "the condition 'idle' is not an arm": (9, lambda r: {"condition": "idle"}),
    "{{FLORES}} stands where the passage should": (9, lambda r: {"context": "Passage:\n{{FLORES}}\nEnd"}),
    "query_position 4000 is outside": (9, lambda r: {"query_position": 4000}),
    "single token: 'Yes' is token": (4, lambda r: {"candidate_token_ids": r.candidate_token_ids[::-1]}),
    "is outside of the vocabulary": (2, lambda r: {"latent_token_id": 250_000}),
    "rivals: token 250000 is outside": (2, lambda r: {"control_token_ids": (250_000,)}),
    "equal contexts: its context is not that of language-00001-automatic": (9, lambda r: {"context": r.context + " "}),
    "answers: 'Maybe' is not among Yes, No": (4, lambda r: {"gold_answer": "Maybe"}),
    "dummy: the value that it supplies is z itself": (5, lambda r: {"meta": {**r.meta, "supplied": r.latent_value}}),
    "one latent value": (9, lambda r: {"latent_value": another(r)}),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_is_refused(tmp_path, message):
    line, change = REFUSED[message]
    with pytest.raises(LensproofError, match=rf"a.jsonl, line {line}: .*{re.escape(message)}") as error:
        check_changed(tmp_path, line, change)
    assert "\n" not in str(error.value)


def test_records_of_another_tokenizer(tmp_path):
    """As when a file is run with another checkpoint: ids are in its range and mean other words."""
    with pytest.raises(
        LensproofError, match=r"a.jsonl, line 1: .*single token: '\w+' is token \d+ of this tokenizer; "
    ):
        check_changed(tmp_path, 1, lambda record: {}, tokenizer=tokenizer(unknown=("Anna",)))
    write_records(tmp_path / "a.jsonl", records(arms=["control"]))
    with pytest.raises(LensproofError, match="line 1: .*single token: 'Yes' with its leading space is not one token"):
        check(tmp_path / "a.jsonl", tokenizer(unknown=("Yes",)))


# The published field names, in another order and with whatever that format allows: a positive query position, an
# operator of another name, no legend in the context, an automatic arm without the cue, text with braces and accents.
def published(ids, **changes):
    base = {
        "meta": {"source": "rows 12-14", "nested": {"α": [1, 2.5, None]}},
        "answer_position": 17,
        "query_position": 13,
        "operator_id": "none",
        "operator_family": "none",
        "latent_value": "German",
        "latent_name": "source_language",
        "latent_token_id": ids[" German"],
        "control_token_ids": [ids[" Dutch"]],
        "context": "Brot {Wasser}. Haus Hund\u00a0«pan»",
        "family": "language_identity",
        "semantic_instance_id": "ünïcode/7",
        "template_id": "v3",
    }
    arms = {
        "automatic": ("Continue the passage.", "Hund", ["Hund", "pies"]),
        "flexible": ("Key: German = Q, Dutch = B.\nWhich letter?\nAnswer:", "Q", ["B", "Q"]),
        "control": ("Does the passage contain a question mark?\nAnswer:", "No", ["Yes", "No"]),
    }
    for arm, (instruction, gold, answers) in arms.items():
        own = {"id": f"7:{arm}", "condition": arm, "instruction": instruction, "gold_answer": gold}
        tokens = [ids[f" {answer}"] for answer in answers]
        looks = {"operator_family": "caesar", "operator_id": "7"} if arm == "flexible" else {}
        yield {**base, **own, **looks, "candidate_answers": answers, "candidate_token_ids": tokens, **changes}


def test_an_unusual_file_in_the_published_format(tmp_path):
    lines = [json.dumps(record) for record in published(tokenizer().get_vocab())]
    (tmp_path / "theirs.jsonl").write_text("\n" + "\n\n".join(lines), encoding="utf-8")
    summary = check(tmp_path / "theirs.jsonl", tokenizer())
    assert summary.counts == {("language_identity", arm): 1 for arm in ("automatic", "flexible", "control")}
    assert (summary.instances, summary.complete, summary.clusters) == (1, 1, 1)
    flexible = read_records(tmp_path / "theirs.jsonl")[1]
    assert flexible.candidate_answers[flexible.gold] == "Q"
    assert flexible.cluster == "ünïcode/7"
    assert flexible.meta["nested"]["α"] == [1, 2.5, None]
    lines[1] = lines[1].replace('"gold_answer": "Q"', '"gold_answer": "X"')
    (tmp_path / "theirs.jsonl").write_text("\n" + "\n\n".join(lines), encoding="utf-8")
    with pytest.raises(LensproofError, match="line 4: 7:flexible: answers"):
        check(tmp_path / "theirs.jsonl", tokenizer())


# -- the commands


def test_build_and_check(tmp_path):
    model, source = checkpoint(tmp_path / "model"), folder(tmp_path / "passages")
    arguments = ("--checkpoint", model, "--passages", source, "--count", 4, "--seed", 3)
    run("build", "language", *arguments, "--out", tmp_path / "a.jsonl")
    made = read_records(tmp_path / "a.jsonl")
    assert len({record.semantic_instance_id for record in made}) == 4
    assert {record.meta["seed"] for record in made} == {3}
    # Nothing is made of the passages that adapters are trained on.
    assert {record.meta["passage"] for record in made} <= {item.id for item in load(source) if not item.training}
    stated = read_provenance(tmp_path / "a.jsonl")
    assert stated["settings"]["attrition"]["instances"] == 4
    assert set(stated["inputs"]) == {"tokenizer"}
    shown = run("check", tmp_path / "a.jsonl", "--checkpoint", model).output
    assert shown.startswith("20 records of 4 instances in ")
    run("build", "language", *arguments, "--languages", "Dutch,French, German,Polish", "--out", tmp_path / "b.jsonl")
    assert {name for record in read_records(tmp_path / "b.jsonl") for name in record.meta["languages"]} == {
        "Dutch", "French", "German", "Polish",
    }  # fmt: skip
    with pytest.raises(LensproofError, match="there are no passages in Greek"):
        run("build", "language", *arguments, "--languages", "Dutch,Greek", "--out", tmp_path / "c.jsonl")
    assert not (tmp_path / "c.jsonl").exists()


def test_passages_in_one_file(tmp_path):
    source = folder(tmp_path / "passages")
    spec = {
        "title": "Made up",
        "licence": "CC0-1.0",
        "format": "passages",
        "source": {"kind": "path", "path": str(source)},
    }
    run("passages", "own", "--spec", json.dumps(spec), "--out", tmp_path / "own.json")
    assert read_json(tmp_path / "own.json")["provenance"]["settings"]["licence"] == "CC0-1.0"
    model = checkpoint(tmp_path / "model")
    for name, given in (("a", tmp_path / "own.json"), ("b", source)):
        run(
            "build",
            "language",
            "--checkpoint",
            model,
            "--passages",
            given,
            "--count",
            3,
            "--out",
            tmp_path / f"{name}.jsonl",
        )
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()
    assert set(read_provenance(tmp_path / "a.jsonl")["inputs"]) == {"tokenizer", "passages"}
    with pytest.raises(LensproofError, match="--spec: format"):
        run("passages", "own", "--spec", json.dumps({**spec, "format": "poems"}), "--out", tmp_path / "c.json")


@pytest.mark.parametrize("name", sets.SETS)
def test_the_same_seed_gives_the_same_bytes(tmp_path, name):
    model, source = checkpoint(tmp_path / "model"), folder(tmp_path / "passages")
    arguments = ["build", name, "--checkpoint", str(model), "--passages", str(source), "--count", "6", "--seed", "1"]
    for file in ("one.jsonl", "two.jsonl"):
        run(*arguments, "--out", tmp_path / file)
    assert (tmp_path / "one.jsonl").read_bytes() == (tmp_path / "two.jsonl").read_bytes()


BUILD = """
import hashlib, sys
from pathlib import Path
from lensproof.commands.records import command

model, folder = sys.argv[1:]
for family in ("language", "tracking"):
    out = f"{folder}/{family}.jsonl"
    command(["build", family, "--checkpoint", model, "--count", "400", "--out", out], standalone_mode=False)
    print(family, hashlib.sha256(Path(out).read_bytes()).hexdigest())
"""


def test_400_instances_are_the_same_bytes_in_any_process(tmp_path):
    """Whatever Python's own hashing, random numbers and locale do there: our own passages, both families."""
    model = checkpoint(tmp_path / "model", more=said())
    found = []
    for number, own in enumerate(
        [
            {"PYTHONHASHSEED": "0", "LC_ALL": "C.UTF-8", "PYTHONUTF8": "1"},
            {"PYTHONHASHSEED": "12345", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        ]
    ):
        (tmp_path / str(number)).mkdir()
        script = [sys.executable, "-c", BUILD, str(model), str(tmp_path / str(number))]
        done = subprocess.run(script, env={**os.environ, **own}, check=True, capture_output=True, text=True)
        found.append(done.stdout)
    assert found[0] == found[1]
    assert re.fullmatch(r"language [0-9a-f]{64}\ntracking [0-9a-f]{64}\n", found[0])
    for family, arms in (("language", 5), ("tracking", 4)):
        assert len(read_records(tmp_path / "0" / f"{family}.jsonl")) == 400 * arms


def test_a_refusal_is_one_line_and_status_2(tmp_path):
    model = checkpoint(tmp_path / "model")
    lines = [to_line(record) for record in records()]
    (tmp_path / "a.jsonl").write_text("\n".join([*lines, lines[0]]), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "lensproof", "records", "check", "a.jsonl", "--checkpoint", str(model)],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == "lensproof: a.jsonl, line 16: the id 'language-00000-automatic' stands in line 1 already\n"
    assert done.stdout == ""


DESK = ("smollm2-135m", "gemma3-270m")


@pytest.mark.slow
@pytest.mark.parametrize("name", DESK)
def test_400_instances_of_every_set_for_a_desk_checkpoint(root, tmp_path, name):
    """Our passages and wordings suit the default tokenizers: every language is there, every instance has every arm, but
    for those that are as published, and spans match."""
    model = root / "results" / "checkpoints" / name
    assert (model / "checkpoint.json").is_file(), "run `make reproduce` first"
    special = load_tokenizer(model)
    held_out = [item for item in load(root / "workflow/resources/passages") if not item.training]
    assert len(held_out) == 32
    for chosen in sets.SETS:
        built = sets.build(chosen, special, passages=held_out, count=400, seed=0)
        published = {"automatic: first tokens collide"} if chosen.endswith("as_published") else set()
        assert set(built.attrition.dropped) == published
        assert set(built.attrition.skipped) <= {"the first person ends with the item of the start"}
        if chosen.startswith("language"):
            assert len({record.latent_value for record in built.records}) == 17
        write_records(tmp_path / f"{chosen}.jsonl", built.records)
        assert check(tmp_path / f"{chosen}.jsonl", special).instances == 400
