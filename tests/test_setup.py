"""The commands of the Makefile: setting up, running, going on after a kill; and what envs/ and presets/ promise."""

from __future__ import annotations

import ast
import hashlib
import importlib.metadata
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from lensproof.claims import catalogue
from lensproof.config import chosen_layers, validated
from lensproof.experiments.catalogue import DERIVED

TOOLS = (
    *("sh", "make", "bash", "cat", "cksum", "cp", "echo", "flock", "grep", "ls", "mkdir", "mv", "printf", "rm"),
    *("sed", "sleep", "tr", "true"),
)

COPIED = ("Makefile", "pyproject.toml", "envs", "workflow/alone.sh", "workflow/presets", "workflow/profiles")

# A Python whose environments are empty and whose pip writes down what it is asked for.
FAKE_PYTHON = """#!/bin/sh
case "$1 $2" in
"-m venv") mkdir -p "$3/bin" && cp "$0" "$3/bin/python" && echo "$0" >"$3/made-with" ;;
"-m pip") echo "$*" >>pip.log; if [ -e pip-holds ]; then sleep 1; fi; [ ! -e pip-fails ] ;;
*) exec '{python}' "$@" ;;
esac
"""

SNAKEFILE = """
rule all:
    input: expand("results/{i}.txt", i=range(3)),
rule shard:
    output: "results/{i}.txt",
    shell:
        "echo {wildcards.i} >>started; while [ -e hold-{wildcards.i} ]; do sleep 0.05; done; "
        "echo {wildcards.i} >{output}"
"""


class Project:
    """A copy of the files that set up and run, in a folder with an awkward name, and a PATH that a test fills."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.folder = folder
        self.bin = folder.parent / "bin"
        self.bin.mkdir(parents=True)
        for name in (
            "Makefile",
            "pyproject.toml",
            "envs",
            "workflow/alone.sh",
            "workflow/presets",
            "workflow/profiles",
        ):
            copy = shutil.copytree if (root / name).is_dir() else shutil.copy
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            copy(root / name, folder / name)
        (folder / "workflow/lensproof").mkdir()
        shutil.copy(root / "workflow/lensproof/__init__.py", folder / "workflow/lensproof")
        for tool in TOOLS:
            self.program(tool).symlink_to(shutil.which(tool))

    def program(self, name: str, text: str | None = None) -> Path:
        """The path of a program on PATH, written if ``text`` is given."""
        path = self.bin / name
        if text is not None:
            path.write_text(text)
            path.chmod(0o755)
        return path

    def python(self, name: str = "python3") -> None:
        self.program(name, FAKE_PYTHON.format(python=sys.executable))

    def start(self, *command: str, **variables: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env={"PATH": str(self.bin), "HOME": str(self.folder.parent), **variables},
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def run(self, *command: str, status: int = 0, **variables: str) -> str:
        process = self.start(*command, **variables)
        output, _ = process.communicate(timeout=120)
        assert process.returncode == status, output
        return output

    def setup(self, status: int = 0, **variables: str) -> str:
        return self.run("make", "setup", status=status, **variables)

    def pip(self) -> list[str]:
        """What pip was asked for since the last call."""
        log = self.folder / "pip.log"
        lines = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return [line.removeprefix("-m pip ") for line in lines]


@pytest.fixture
def project(root: Path, tmp_path: Path) -> Project:
    return Project(root, tmp_path / "ein schöner Ordner")


@pytest.fixture
def ready(project: Project) -> Project:
    """A project that is set up."""
    project.python()
    project.setup()
    assert len(project.pip()) == 4
    return project


def one_line(output: str) -> str:
    """The one line that says what is wrong, without make's own."""
    lines = [line for line in output.splitlines() if not re.match(r"make: \*\*\*", line)]
    assert len(lines) == 1, output
    return lines[0]


def wait_for(condition: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


# Setting up


def test_setup_installs_torch_first_then_the_lock_by_hash_then_the_package(project: Project) -> None:
    project.python()
    project.setup()
    assert project.pip() == [
        "install --requirement envs/torch.txt",
        "install --require-hashes --no-deps --requirement envs/requirements.lock",
        "install --quiet --no-deps --no-build-isolation --editable .",
        "check",
    ]


def test_second_setup_does_nothing(ready: Project) -> None:
    assert ready.setup() == ""
    for path in ready.folder.joinpath("envs").iterdir():
        os.utime(path)  # as a git checkout does
    assert ready.setup() == ""
    assert ready.pip() == []


@pytest.mark.parametrize("change", ["lock", "torch", "moved", "interpreter", "killed"])
def test_setup_begins_anew(ready: Project, change: str) -> None:
    (ready.folder / ".venv/left-over").touch()
    if change == "lock":
        (ready.folder / "envs/requirements.lock").write_text("six==1.17.0\n")
    elif change == "torch":
        (ready.folder / "envs/torch.txt").write_text("torch==2.14.1\n")
    elif change == "moved":
        ready.folder = ready.folder.rename(ready.folder.with_name("another folder"))
    elif change == "interpreter":
        (ready.folder / ".venv/bin/python").unlink()
    elif change == "killed":  # while pip was at work
        (ready.folder / ".venv/lensproof-setup").write_text("")
    ready.setup()
    assert len(ready.pip()) == 4
    assert not (ready.folder / ".venv/left-over").exists()
    assert not list(ready.folder.glob(".venv.old*"))
    assert ready.setup() == ""


def test_a_new_version_of_the_package_installs_only_the_package(ready: Project) -> None:
    with open(ready.folder / "pyproject.toml", "a") as file:
        file.write("\n# changed\n")
    ready.setup()
    assert [line.split()[-1] for line in ready.pip()] == [".", "check"]


def test_a_failed_installation_is_said_and_made_anew(project: Project) -> None:
    project.python()
    (project.folder / "pip-fails").touch()
    output = project.setup(status=2)
    assert output.splitlines()[-2].endswith("see above: mend that (network? disk?), run make again")
    assert project.pip() == ["install --requirement envs/torch.txt"]
    (project.folder / "pip-fails").unlink()
    project.setup()
    assert len(project.pip()) == 4


def test_an_environment_that_make_did_not_make_is_left_alone(project: Project) -> None:
    project.python()
    (project.folder / ".venv").mkdir()
    (project.folder / ".venv/mine").touch()
    assert one_line(project.setup(status=2)) == "make: .venv was not made by make: move it away, and run make again"
    assert (project.folder / ".venv/mine").exists()


def test_two_set_ups_at_once_install_once(project: Project) -> None:
    project.python()
    (project.folder / "pip-holds").touch()
    first = project.start("make", "setup")
    wait_for((project.folder / "pip.log").exists)
    assert "another make is setting up .venv: waiting for it" in project.setup()
    assert first.wait() == 0
    first.communicate()
    assert len(project.pip()) == 4


def test_setup_and_run_without_flock(workflow: Project) -> None:
    workflow.program("flock").unlink()
    shutil.rmtree(workflow.folder / ".venv")
    workflow.python()
    workflow.setup()
    assert workflow.setup() == ""
    workflow.run(*ALONE)
    assert results(workflow) == ["0", "1", "2"]


def test_interpreters_are_tried_by_running_them(project: Project) -> None:
    project.program("python3", "#!/bin/sh\nexit 1\n")  # too old
    project.program("python3.13", "#!/bin/sh\necho 'pyenv: python3.13: command not found' >&2\nexit 127\n")
    project.python("python3.12")
    assert "pyenv" not in project.setup()
    assert (project.folder / ".venv/made-with").read_text().strip() == str(project.program("python3.12"))


def test_the_interpreter_can_be_named(project: Project) -> None:
    project.python("my python")
    project.setup(PYTHON=str(project.program("my python")))
    assert len(project.pip()) == 4


def test_no_fitting_interpreter_is_one_line(project: Project) -> None:
    project.program("python3", "#!/bin/sh\nexit 1\n")
    message = one_line(project.setup(status=2))
    assert "is a Python of version 3.11, 3.12 or 3.13: install one" in message
    assert "none of nothing is" in one_line(project.setup(status=2, PYTHON="nothing"))
    assert not (project.folder / ".venv").exists()


def test_no_venv_module_is_one_line(project: Project) -> None:
    project.program("python3", '#!/bin/sh\ncase "$2" in *ensurepip*) exit 1;; esac\n')
    assert one_line(project.setup(status=2)).startswith("make: python3 cannot make virtual environments: install")


def test_settings_of_the_user_do_not_reach_the_environment(project: Project) -> None:
    project.program("python3", '#!/bin/sh\n[ -z "$PYTHONPATH$PIP_TARGET" ] && exec ./python "$@"\n')
    (project.folder / "python").write_text(FAKE_PYTHON.format(python=sys.executable))
    (project.folder / "python").chmod(0o755)
    project.setup(PYTHONPATH="/nowhere", PIP_TARGET="/nowhere", LC_ALL="POSIX", CDPATH="/")


# The Makefile


def test_make_alone_names_every_command(project: Project, root: Path) -> None:
    output = project.run("make")
    phony = re.search(r"^\.PHONY: (.*)$", (root / "Makefile").read_text(), re.MULTILINE)[1].split()
    for command in set(phony) - {"setup"}:
        assert f"  make {command} " in output
    assert "desk paper small smoke" in output


@pytest.mark.parametrize("size", ["smal", "../small", "*"])
def test_unknown_size_is_one_line_before_any_work(project: Project, size: str) -> None:
    output = project.run("make", "reproduce", f"SIZE={size}", status=2)
    assert len(output.splitlines()) == 1
    assert f"there is no preset {size}: SIZE is one of desk paper small smoke" in output
    assert not (project.folder / ".venv").exists()


@pytest.mark.parametrize(
    "cores", ["0", "00", "-1", "x", "", " ", "2.5", "1 2", "1e3", "all all", "ALL", "1#", "²", "$$"]
)
@pytest.mark.parametrize("command", ["reproduce", "report", "test-peer", "bench"])
def test_a_number_of_cores_that_cannot_be_is_one_line_before_any_work(
    project: Project, command: str, cores: str
) -> None:
    output = project.run("make", command, f"CORES={cores}", status=2)
    assert len(output.splitlines()) == 1
    assert ": it may be a whole number from 1 on, or all." in output
    assert not (project.folder / ".venv").exists()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["CORES=10"], ["--config", "preset=desk", "--cores", "10", "--"]),
        # The default too is named, so that results of another preset are replaced without a question.
        ([], ["--config", "preset=desk", "--cores", "all", "--"]),
        (["SIZE=desk", "CORES=1"], ["--config", "preset=desk", "--cores", "1", "--"]),
        (["SIZE=small"], ["--configfile", "workflow/presets/small.yaml", "--cores", "all", "--"]),
        (["TARGETS=a b"], ["--config", "preset=desk", "--cores", "all", "--", "a", "b"]),
    ],
)
def test_reproduce_runs_snakemake_on_the_preset(ready: Project, arguments: list[str], expected: list[str]) -> None:
    python = ready.folder / ".venv/bin/python"
    prints = '"-m snakemake") printf "%s\\n" "$@" ;;'
    python.write_text(python.read_text().replace('"-m venv")', f'{prints}\n"-m venv")'))
    output = ready.run("make", "reproduce", *arguments).splitlines()
    assert output == ["-m", "snakemake", "--workflow-profile", "workflow/profiles/default", *expected]


# Runs that are killed


@pytest.fixture
def workflow(project: Project) -> Iterator[Project]:
    """A project whose Snakemake is the real one; shards with a file hold-<shard> wait for its removal."""
    python = project.folder / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\nexec '{sys.executable}' \"$@\"\n")
    python.chmod(0o755)
    (project.folder / "Snakefile").write_text(SNAKEFILE)
    yield project
    for hold in project.folder.glob("hold-*"):
        hold.unlink()


def start_and_hold(project: Project, *command: str) -> subprocess.Popen[str]:
    """Start a run whose shard 1 does not end, and wait until the two others are done."""
    (project.folder / "hold-1").touch()
    process = project.start(*command)
    finished = 0
    for line in process.stdout:
        finished += line.startswith("Finished jobid")
        if finished == 2:
            break
    wait_for(lambda: "1" in starts(project))
    return process


def starts(project: Project) -> list[str]:
    started = project.folder / "started"
    return sorted(started.read_text().split()) if started.exists() else []


def results(project: Project) -> list[str]:
    return [path.read_text().strip() for path in sorted(project.folder.glob("results/*.txt"))]


ALONE = ("sh", "workflow/alone.sh", "--cores", "3")


def test_a_run_killed_with_all_its_jobs_goes_on(workflow: Project) -> None:
    process = start_and_hold(workflow, *ALONE)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    (workflow.folder / "hold-1").unlink()
    assert results(workflow) == ["0", "2"]
    assert "the last run was killed: going on where it stopped" in workflow.run(*ALONE)
    assert results(workflow) == ["0", "1", "2"]
    assert starts(workflow) == ["0", "1", "1", "2"]
    assert "Nothing to be done" in workflow.run(*ALONE)


def test_jobs_that_outlive_a_killed_snakemake_are_waited_for(workflow: Project) -> None:
    process = start_and_hold(workflow, *ALONE)
    process.kill()
    process.wait()
    second = workflow.start(*ALONE)
    message = second.stdout.readline()
    waited_for = re.fullmatch(
        r"make: another run, or jobs that a killed one left, are at work in this folder \(process ([\d ]+)\): "
        r"waiting for them\n",
        message,
    )
    assert waited_for, message
    assert {os.getpgid(int(job)) for job in waited_for[1].split()} == {process.pid}
    (workflow.folder / "hold-1").unlink()
    output, _ = second.communicate(timeout=120)
    process.stdout.close()
    assert second.returncode == 0, output
    assert results(workflow) == ["0", "1", "2"]


def test_a_snakemake_started_by_hand_is_not_disturbed(workflow: Project) -> None:
    by_hand = start_and_hold(workflow, ".venv/bin/python", "-m", "snakemake", "--cores", "3")
    message = one_line(workflow.run(*ALONE, status=1))
    assert message == (
        f"make: a Snakemake (process {by_hand.pid}) is at work in this folder: "
        "wait for it or stop it, then run make again"
    )
    (workflow.folder / "hold-1").unlink()
    by_hand.communicate(timeout=120)
    assert by_hand.returncode == 0
    assert results(workflow) == ["0", "1", "2"]


def test_clean_refuses_while_a_run_is_at_work(workflow: Project) -> None:
    process = start_and_hold(workflow, *ALONE)
    assert one_line(workflow.run("make", "clean", status=2)).startswith("make: a run is at work in this folder")
    (workflow.folder / "hold-1").unlink()
    process.communicate(timeout=120)
    assert results(workflow) == ["0", "1", "2"]
    workflow.run("make", "clean")
    assert results(workflow) == []


# Requirements


def names(text: str) -> set[str]:
    return {re.sub(r"[-_.]+", "-", name).lower() for name in re.findall(r"^([A-Za-z][\w.-]*)", text, re.MULTILINE)}


def test_the_lock_has_hashes_of_everything_and_names_no_host(root: Path) -> None:
    text = (root / "envs/requirements.lock").read_text()
    entries = [entry for entry in re.split(r"\n(?=[a-z])", "\n" + re.sub(r"(?m)^ *#.*\n", "", text)) if entry.strip()]
    assert len(entries) > 100
    for entry in entries:
        assert re.match(r"[\w.-]+==[\w.+!]+( ;[^\\]*)? \\\n", entry), entry
        assert "--hash=sha256:" in entry
    assert "://" not in text
    assert "--index" not in text


def test_the_lock_leaves_out_torch_and_what_belongs_to_it(root: Path) -> None:
    locked = names((root / "envs/requirements.lock").read_text())
    assert not [name for name in locked if re.match(r"torch$|nvidia|cuda|triton", name)]
    assert re.search(r"^torch==2\.13\.0$", (root / "envs/torch.txt").read_text(), re.MULTILINE)


def test_the_lock_holds_every_direct_requirement(root: Path) -> None:
    text = (root / "envs/requirements.lock").read_text()
    assert names((root / "envs/requirements.in").read_text()) <= names(text)
    assert re.search(r"^snakemake==9\.27\.", text, re.MULTILINE)
    assert re.search(r"^transformers==5\.", text, re.MULTILINE)


def test_whatever_the_package_imports_is_a_direct_requirement(root: Path) -> None:
    direct = names((root / "envs/requirements.in").read_text()) | {"torch"}
    providers = importlib.metadata.packages_distributions()
    for path in root.glob("workflow/lensproof/**/*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            modules += [node.module] if isinstance(node, ast.ImportFrom) else []
            for module in {name.partition(".")[0] for name in modules} - sys.stdlib_module_names - {"lensproof"}:
                assert names("\n".join(providers.get(module, []))) & direct, f"{path} imports {module}"


# Presets


def merged(base: dict, override: dict) -> dict:
    """As Snakemake merges --configfile onto the Snakefile's config: mappings key by key, anything else replaced."""
    result = dict(base)
    for key, value in override.items():
        both = isinstance(value, dict) and isinstance(base.get(key), dict)
        result[key] = merged(base[key], value) if both else value
    return result


@pytest.fixture
def preset(root: Path) -> Callable[[str], dict]:
    def load(name: str) -> dict:
        base = yaml.safe_load((root / "config.yaml").read_text())
        return merged(base, yaml.safe_load((root / f"workflow/presets/{name}.yaml").read_text()))

    return load


@pytest.mark.parametrize(("name", "level"), [("small", "desk"), ("smoke", "smoke"), ("paper", "paper")])
def test_presets_are_valid_and_know_their_name(preset: Callable[[str], dict], name: str, level: str) -> None:
    config = validated(preset(name))
    assert (config.preset, config.level) == (name, level)


@pytest.mark.parametrize("name", ["small", "smoke"])
def test_what_is_drawn_by_layer_reaches_the_last_layer(preset: Callable[[str], dict], name: str) -> None:
    """Of figures 1, 4, 7 and 8, whose captions speak of it."""
    config = validated(preset(name))
    for section in (config.readings, config.experiments.directions, config.experiments.coherence):
        for checkpoint in config.checkpoints:
            depth = config.registry.checkpoints[checkpoint].layers
            assert {0, depth} <= set(chosen_layers(section.layers, depth))


def test_the_smallest_run_has_the_documents_that_claims_ask_for(preset: Callable[[str], dict]) -> None:
    """Of verdicts at its level; those on the paper's own numbers ask for more."""
    config, checked = validated(preset("small")), 0
    for name, claim in catalogue.load("claims")["claims"].items():
        least = claim.get("guards", {}).get("min_clusters")
        experiment = DERIVED.get(claim.get("experiment", "readings"), claim.get("experiment", "readings"))
        if isinstance(least, dict) and experiment not in ("costs", "examples"):
            read = experiment == "readings"
            sizes = (
                list(config.gathered.instances.values())  # which may share passages
                if claim["paper"] == "gathered"
                else [
                    config.sequences(c) if read else config.experiments.sizes(experiment, c)[0]
                    for c in config.checkpoints
                ]
            )
            assert min(sizes) >= least["desk"], name
            checked += 1
    assert checked > 30


def test_the_smoke_corpus_is_what_its_checksum_says(preset: Callable[[str], dict], root: Path) -> None:
    source = preset("smoke")["registry"]["corpora"]["smoke"]["source"]
    content = (root / source["path"]).read_bytes()
    assert hashlib.sha256(content).hexdigest() == source["sha256"]
    paragraphs = content.decode().strip().split("\n\n")
    assert len(set(paragraphs)) == 40
    assert all(60 <= len(paragraph.split()) <= 120 for paragraph in paragraphs)


def test_the_paper_preset_has_the_sizes_of_the_paper(preset: Callable[[str], dict], root: Path) -> None:
    config = validated(preset("paper"))
    published = yaml.safe_load((root / "paper/published/lexframe.yaml").read_text())
    setup, checkpoints = published["setup"], published["checkpoints"]
    assert config.sequence_length == setup["sequence_length"]
    assert config.calibration.sequences == setup["calibration_sequences"]
    assert config.jacobian_lens.prompts == setup["jacobian_lens_prompts"]
    assert {config.sequences(name) for name in config.checkpoints} == {setup["test_sequences"]}
    assert config.bootstrap.resamples >= setup["bootstrap"]["min_resamples"]
    for name in config.checkpoints:
        checkpoint = config.registry.checkpoints[name]
        assert checkpoint.layers == checkpoints[name]["layers"]
        assert checkpoint.tied == checkpoints[name]["tied_embeddings"]


def test_the_paper_preset_pins_commits(preset: Callable[[str], dict]) -> None:
    config = validated(preset("paper"))
    sources = [config.registry.checkpoints[name].source for name in config.checkpoints]
    sources.append(config.registry.corpora[config.corpus].source)
    assert all(re.fullmatch(r"[0-9a-f]{40}", source.revision) for source in sources)


# The real thing, on request


@pytest.mark.setup
@pytest.mark.timeout(1800)
def test_a_fresh_copy_sets_up_after_a_kill_and_passes_tests(root: Path, tmp_path: Path) -> None:
    generated = shutil.ignore_patterns(".git", ".venv*", ".make", "results", ".snakemake", "__pycache__")
    folder = shutil.copytree(root, tmp_path / "a fresh copy", ignore=generated)
    variables = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "HF_", "OMP_"))}

    def make(*arguments: str) -> str:
        return subprocess.run(
            ["make", *arguments], cwd=folder, env=variables, text=True, check=True, capture_output=True
        ).stdout

    killed = subprocess.Popen(["make", "setup"], cwd=folder, env=variables, start_new_session=True)
    wait_for(lambda: any(folder.glob(".venv/lib/python3*/site-packages/torch/_C*")), seconds=900)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    make("setup")
    start = time.monotonic()
    assert make("setup") == ""
    assert time.monotonic() - start < 2
    version = subprocess.run([folder / ".venv/bin/lensproof", "--version"], check=True, capture_output=True, text=True)
    assert version.stdout.startswith("lensproof, version ")
    assert "passed" in make("test", "ARGS=tests/test_setup.py -k 'lock or preset'")
