"""Command-line options that several commands share."""

from __future__ import annotations

import ctypes
import functools
import importlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import click

from lensproof.errors import LensproofError

if TYPE_CHECKING:
    import pandas as pd

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # malloc.h

FILE = click.Path(path_type=Path, dir_okay=False)
FOLDER = click.Path(path_type=Path, file_okay=False)


def _whole(context: click.Context, option: click.Parameter, folder: Path) -> Path:
    """A checkpoint whose manifest says which weights are run, before any of them is."""
    from lensproof.checkpoints.manifest import digest, existing

    digest(existing(folder))
    return folder


checkpoint = click.option(
    "--checkpoint", "checkpoint", type=FOLDER, required=True, callback=_whole,
    help="Folder of the checkpoint, results/checkpoints/NAME.",
)  # fmt: skip
sequences = click.option("--sequences", type=FILE, required=True, help="Token sequences made by `lensproof sequences`.")
records = click.option("--records", type=FILE, required=True, help="Benchmark records made by `lensproof records`.")


def out(*forms: str, required: bool = True, help: str = "File to write.", together: Collection[str] = ()) -> Callable:
    """The file to write, whose name must end in one of ``forms``, if any: what is written does not follow the name.

    A file that the command reads is not written over.

    Args:
        forms: endings.
        required: whether it must be given.
        help: what it is.
        together: endings of the files that are written with it, each in place of its own.
    """

    def checked(context: click.Context, option: click.Parameter, path: Path | None) -> Path | None:
        if path is not None and forms and path.suffix not in forms:
            raise LensproofError(f"cannot write {path}: its name must end in {', '.join(forms)}")
        return path

    def decorate(command: Callable) -> Callable:
        @functools.wraps(command)
        def sparing(**given: Any) -> Any:
            if path := given["out"]:
                spare([path, *map(path.with_suffix, together)], given)
            return command(**given)

        return click.option("--out", type=FILE, required=required, callback=checked, help=help)(sparing)

    return decorate


def folder_out(command: Callable) -> Callable:
    """The folder to write, which holds nothing that the command reads."""

    @functools.wraps(command)
    def sparing(**given: Any) -> Any:
        spare([given["out"]], given)
        return command(**given)

    return click.option("--out", type=FOLDER, required=True, help="Folder to write.")(sparing)


def spare(written: Iterable[Path], given: Mapping[str, Any]) -> None:
    """Refuse to write over what is read.

    Args:
        written: files, or a folder whose content is replaced.
        given: a command's arguments: every path among them but ``out`` and ``into`` is read, and of a checkpoint's
            folder every file.

    Raises:
        LensproofError: naming what would be lost.
    """
    read = [path for name, value in given.items() if name not in ("out", "into") for path in _paths(value)]
    folders = {Path(given[name]).resolve() for name in ("checkpoint", "base") if given.get(name)}
    for path in written:
        place = path.resolve()
        for other in read:
            if place == other.resolve() or place in other.resolve().parents:
                raise LensproofError(f"{path} would be written over {other}, which is read: write elsewhere")
        for folder in folders.intersection(place.parents):
            if (folder / "config.json").is_file():
                raise LensproofError(f"{path} would stand in the checkpoint {folder}, which is read: write elsewhere")


def spare_source(written: Path, source: object) -> None:
    """The same where the registry says what is read."""
    named = (getattr(source, name, None) for name in ("path", "adapter"))
    spare([written], {"source": tuple(Path(path) for path in named if isinstance(path, str))})


def _paths(value: Any) -> Iterator[Path]:
    """The paths in an argument: itself, or of several each, also as ``NAME=FILE``."""
    if isinstance(value, Path):
        yield value
    for part in value if isinstance(value, tuple) else ():
        yield Path(part.partition("=")[2]) if isinstance(part, str) else part


def files(name: str, *, required: bool = True) -> Callable:
    """An argument that takes files, each once: given twice, everything in it would count twice."""
    return click.argument(name, nargs=-1, required=required, type=FILE, callback=_once)


def _once(context: click.Context, option: click.Parameter, paths: tuple[Path, ...]) -> tuple[Path, ...]:
    seen: dict[Path, Path] = {}
    for path in paths:
        if path.resolve() in seen:
            raise LensproofError(f"{path} is given twice: give each file once")
        seen[path.resolve()] = path
    return paths


def several(name: str, help: str) -> Callable:
    """An option that takes files, each once, as :func:`files` does."""
    return click.option(name, multiple=True, required=True, type=FILE, callback=_once, help=help)


def section(command: Callable) -> Callable:
    """Options of every experiment: its section of the configuration, or where to read it."""
    for option in (
        click.option("--configfile", multiple=True, type=FILE, help="Overrides of config.yaml, without --options."),
        click.option(
            "--options", "settings", help="Its section of the configuration, as JSON; without it, the configuration's."
        ),
    ):
        command = option(command)
    return command


def registry(command: Callable) -> Callable:
    """Options of every step that starts from the registry: the entry itself, or where to read it."""
    for option in (
        click.option("--configfile", multiple=True, type=FILE, help="Overrides of config.yaml."),
        click.option("--spec", help="The registry's entry as JSON; without it, the configuration is read."),
    ):
        command = option(command)
    return command


def shard(command: Callable) -> Callable:
    """Options of every step that is cut into shards: which sequences of its role this one takes."""
    for option in (
        click.option("--count", type=click.IntRange(1), required=True, help="Sequences in this shard."),
        click.option("--first", type=click.IntRange(0), default=0, show_default=True, help="Rank of the first one."),
    ):
        command = option(command)
    return command


def machine(command: Callable) -> Callable:
    """Options of every step that runs a model: device, precision of the weights, threads."""
    for option in (
        click.option("--threads", type=click.IntRange(1), help="Threads to use; all cores by default."),
        click.option("--precision", type=click.Choice(["float32", "bfloat16", "float16"]), default="float32"),
        click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto"),
    ):
        command = option(command)
    return command


def use_threads(threads: int | None) -> None:
    """Let torch use so many threads, and keep freed memory for the next product.

    Products of tens of megabytes follow one another; handing their memory back to the system each time costs a
    few per cent in page faults.
    """
    import torch

    if threads:
        torch.set_num_threads(threads)
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt:  # glibc
        mallopt(_MMAP_THRESHOLD, 2**30)
        mallopt(_TRIM_THRESHOLD, 2**31 - 1)


def numbers(text: str) -> list[int]:
    """``"0,1,2"`` as numbers.

    Raises:
        click.BadParameter: something else stands there.
    """
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is not a list of whole numbers with commas") from error


def layers(text: str, depth: int) -> list[int]:
    """``all``, or layers with commas, each in 0 .. depth.

    Raises:
        click.BadParameter: a layer that the model does not have.
    """
    chosen = list(range(depth + 1)) if text == "all" else numbers(text)
    for layer in chosen:
        if not 0 <= layer <= depth:
            raise click.BadParameter(f"layer {layer} is out of range: the model has layers 0 to {depth}")
    return chosen


def pairs(option: str, texts: tuple[str, ...]) -> dict[str, str]:
    """``("a=1", "b=2")`` as a mapping.

    Raises:
        click.BadParameter: one of them has no ``=``.
    """
    split = [text.partition("=") for text in texts]
    for name, equals, _ in split:
        if not equals:
            raise click.BadParameter(f"{option} {name}: write it as NAME=VALUE")
        if [other for other, _, _ in split].count(name) > 1:
            raise click.BadParameter(f"{option} {name} is given twice")
    return {name: value for name, _, value in split}


def inputs(texts: tuple[str, ...]) -> dict[str, Path]:
    """What ``--input`` names, all of it there.

    Raises:
        LensproofError: a file is not.
    """
    from lensproof.files import absent

    found = {name: Path(file) for name, file in pairs("--input", texts).items()}
    for file in found.values():
        if not file.is_file():
            raise absent(file)
    return found


def categories(table: pd.DataFrame) -> pd.DataFrame:
    """A table of trials with its columns of text as categories, which repeat the same few."""
    text = [name for name in table if table[name].dtype == object or str(table[name].dtype) in ("str", "string")]
    return table.astype(dict.fromkeys(text, "category"))


def json_object(option: str, text: str) -> dict[str, Any]:
    """A JSON object.

    Raises:
        LensproofError: the text is something else.
    """
    try:
        value = json.loads(text)
    except ValueError as error:
        raise LensproofError(f"{option} is not valid JSON ({error})") from None
    if not isinstance(value, dict):
        raise LensproofError(f'{option} must be a JSON object, like {{"key": 1}}, not {text[:40]}')
    return value


def named(paths: Sequence[Path]) -> dict[str, Path]:
    """Files by their bare names, by folder and name where two are called the same, or by their whole paths."""
    for name in (lambda path: path.stem, lambda path: f"{path.parent.name}/{path.stem}", str):
        found = {name(path): path for path in paths}
        if len(found) == len(paths):
            break
    return found


def figure(paper: str, name: str) -> ModuleType:
    """The module that draws a figure; see :func:`_module`."""
    return _module("figure", "figures", _catalogue("figures").FIGURES[paper], name, f"{paper}_")


def table(paper: str, name: str) -> ModuleType:
    """The module that makes a table; see :func:`_module`."""
    return _module("table", "figures", _catalogue("figures").TABLES[paper], name, f"{paper}_")


def check_estimates(what: str, paper: str, name: str, given: Sequence[Path]) -> None:
    """Refuse a figure or table without the files that it is made from, or with files where it is made from none.

    Raises:
        LensproofError: naming the files that are needed.
    """
    known = _catalogue("figures")
    needed = (known.FIGURES if what == "figure" else known.TABLES)[paper][name]
    files = [
        "results/claims.csv" if part == known.CLAIMS else f"results/estimates/{paper}/{part}/CHECKPOINT.parquet"
        for part in needed
    ]
    if needed and not given:
        raise LensproofError(f"{name} is made from {' and '.join(files)}: give the files")
    if given and not needed:
        raise LensproofError(f"{name} is made from no file: leave out {given[0]}")


def observation(name: str) -> ModuleType:
    """The module that runs an experiment on sampled text; see :func:`_module`."""
    known = _catalogue("experiments")
    _refuse_elsewhere(name, {READINGS: "readings", **dict.fromkeys(known.ON_RECORDS, "observe-arms")})
    return _module("experiment", "experiments", known.EXPERIMENTS, name)


def observation_on_records(name: str) -> ModuleType:
    """The module that runs an experiment on benchmark records; see :func:`_module`."""
    known = _catalogue("experiments")
    _refuse_elsewhere(name, {READINGS: "readings", **dict.fromkeys(known.EXPERIMENTS, "observe")})
    return _module("experiment", "experiments", known.ON_RECORDS, name)


def _refuse_elsewhere(name: str, commands: Mapping[str, str]) -> None:
    if name in commands:
        raise LensproofError(f"this experiment has a command of its own: `lensproof {commands[name]}`")


def estimation(name: str) -> ModuleType:
    """The module that makes an experiment's estimates; see :func:`_module`."""
    known = _catalogue("experiments")
    return _module("experiment", "statistics", [READINGS, *known.EXPERIMENTS, *known.DERIVED, *known.ON_RECORDS], name)


def precision_of(experiment: str, asked: str) -> str:
    """Precision of the weights that an experiment runs with: directions are made in float32 whatever is asked."""
    return "float32" if _catalogue("experiments").EXPERIMENTS[experiment].float32 else asked


READINGS = "readings"


def _catalogue(room: str) -> ModuleType:
    """What a room holds. Not a plain import: code hashes would follow it, and one more entry would make every step of
    the others stale."""
    return importlib.import_module(f"lensproof.{room}.catalogue")


def _module(what: str, room: str, known: Iterable[str], name: str, prefix: str = "") -> ModuleType:
    """The module ``lensproof.<room>.<name>``. What it runs is not seen in the source: give its name to
    :func:`lensproof.codehash.code_hash` beside the command's.

    Raises:
        LensproofError: there is none; the line names those that there are.
    """
    if name not in known:
        raise LensproofError(f"there is no {what} {name!r}: use one of {', '.join(known)}")
    return importlib.import_module(f"lensproof.{room}.{prefix}{name}")
