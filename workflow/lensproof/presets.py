"""Which preset the results in a folder were made with, and the commands that go on with it.

A run leaves ``preset.json`` in its results: the preset's name, and the configuration files and single settings that
were named with it.
A command that is printed for a user to type names the same preset, since a bare ``snakemake`` means the default one.
Nothing heavy is imported here: the Snakefile looks here when a run starts.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

DEFAULT = "desk"
"""The preset that ``config.yaml`` is."""
VARIABLE = "LENSPROOF_PRESET"
"""Holds the preset's name in every job of a run."""
RESULTS = Path("results")
NAME = "preset.json"
FOLDER = Path("workflow/presets")
ROOT = Path(__file__).resolve().parents[2]


def mark(preset: str, files: Iterable[str | Path] = (), config: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What a run leaves in ``results/preset.json``.

    Args:
        preset: its name.
        files: configuration files that were named; kept as they are to be named again.
        config: single settings that were named beside them.
    """
    own = {key: value for key, value in (config or {}).items() if key != "preset"}
    return {"preset": preset, "files": [_named(Path(file)) for file in files], "config": own}


def _named(file: Path) -> str:
    """From the project's folder where it lies inside, else whole."""
    file = file.absolute()
    return str(file.relative_to(ROOT)) if file.is_relative_to(ROOT) else str(file)


def made(results: str | Path = RESULTS) -> dict[str, Any]:
    """The mark of the last run that left results here, empty where there is none that can be read."""
    try:
        found = json.loads((Path(results) / NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if _is_mark(found) else {}


def _is_mark(found: Any) -> bool:
    if not isinstance(found, dict) or not isinstance(found.get("preset"), str):
        return False
    files, config = found.get("files", []), found.get("config", {})
    return isinstance(files, list) and all(isinstance(file, str) for file in files) and isinstance(config, dict)


def misnamed(name: str | None, files: Iterable[str | Path] = ()) -> str | None:
    """Why a run does not start whose preset was named without its settings, as ``--config preset=small`` does.

    Args:
        name: the preset as it was named beside the configuration files, or None.
        files: those files.

    Returns:
        One line that says how to run that preset; None where the name is the files' own, or no preset's here.
    """
    given = [DEFAULT, *filter(None, map(_preset_of, files))][-1]
    if name is None or name == given or (name != DEFAULT and not (ROOT / FOLDER / f"{name}.yaml").is_file()):
        return None
    run = "leave --configfile out" if name == DEFAULT else f"name its file, --configfile {FOLDER / f'{name}.yaml'}"
    return f"--config preset={name} would run {given}'s settings under the name {name}: to run {name}, {run}"


def _preset_of(file: str | Path) -> str | None:
    import yaml

    found = yaml.safe_load(Path(file).read_text(encoding="utf-8"))
    return found.get("preset") if isinstance(found, dict) else None


def command(*targets: object, preset: str | None = None, results: str | Path = RESULTS) -> str:
    """What to type to build ``targets`` with a preset.

    Args:
        targets: files or rules.
        preset: its name; none: that of the results, or of the run whose job this is.
        results: where the mark of the run may lie.
    """
    found = made(results)
    preset = preset or os.environ.get(VARIABLE) or found.get("preset") or DEFAULT
    words = ["snakemake --cores 2"]
    if preset != DEFAULT:
        words.append(f"--configfile {' '.join(map(shlex.quote, _files(preset, found)))}")
    if own := found.get("config") if found.get("preset") == preset else None:
        words.append(f"--config {' '.join(shlex.quote(f'{key}={json.dumps(own[key])}') for key in own)}")
    words += ["--"] if targets and len(words) > 1 else []  # or the target would be one more file or setting
    return " ".join([*words, *map(str, targets)])


def _files(preset: str, found: Mapping[str, Any]) -> Sequence[str]:
    own = found.get("files") if found.get("preset") == preset else None
    return own or [str(FOLDER / f"{preset}.yaml")]


def command_for(path: str | Path) -> str | None:
    """What to type to build a file, with the preset of the results that it stands in; None where no rule makes it: it
    stands in no folder of results."""
    file = Path(os.path.abspath(path))
    own = (RESULTS.absolute(), ROOT / RESULTS)
    folders = [folder for folder in file.parents if folder.name == RESULTS.name]
    folder = next((folder for folder in folders if folder in own or (folder / NAME).is_file()), None)
    if folder is None:
        return None
    build = command(shlex.quote(str(file.relative_to(folder.parent))), results=folder)
    return build if folder == own[0] else f"cd {shlex.quote(str(folder.parent))} && {build}"


def refusal(asked: str, targets: Sequence[str] = (), results: str | Path = RESULTS) -> str | None:
    """Why a run that nobody named a preset for does not start: the results are of another one.

    Args:
        asked: the preset that it would run.
        targets: what it was to build; empty: everything.
        results: folder of the results.

    Returns:
        One line that says how to go on with that preset, and how to replace it; None where nothing is in the way.
    """
    there = made(results).get("preset")
    marked = (Path(results) / NAME).exists()
    if there == asked or not marked:
        return None
    replace = " ".join([f"snakemake --cores 2 --config preset={asked}", *(["--", *targets] if targets else [])])
    here = f"`{replace}` or `make reproduce{'' if asked == DEFAULT else f' SIZE={asked}'}`"
    if there is None:
        return (
            f"{Path(results) / NAME} cannot be read, so that nobody knows which preset {results}/ is of, and none was "
            f"named. To make it {asked}'s: {here}; to go on with another one, name that"
        )
    return (
        f"{results}/ holds results of the preset {there}, and no preset was named. To go on with it: "
        f"`{command(*targets, preset=there, results=results)}`; to replace it by {asked}: {here}"
    )
