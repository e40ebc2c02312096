"""Command-line options that several commands share."""

from __future__ import annotations

import ctypes
import importlib
import pkgutil
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import click

from lensproof.errors import LensproofError

if TYPE_CHECKING:
    import pandas as pd

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # malloc.h

FILE = click.Path(path_type=Path, dir_okay=False)
FOLDER = click.Path(path_type=Path, file_okay=False)

checkpoint = click.option(
    "--checkpoint", "checkpoint", type=FOLDER, required=True, help="Folder of the checkpoint, results/checkpoints/NAME."
)
sequences = click.option("--sequences", type=FILE, required=True, help="Token sequences made by `lensproof sequences`.")
records = click.option("--records", type=FILE, required=True, help="Benchmark records made by `lensproof records`.")
out = click.option("--out", type=FILE, required=True, help="File to write.")


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
    return {name: value for name, _, value in split}


def named(paths: Sequence[Path]) -> dict[str, Path]:
    """Files by their bare names, or by folder and name where two are called the same."""
    bare = {path.stem: path for path in paths}
    return bare if len(bare) == len(paths) else {f"{path.parent.name}/{path.stem}": path for path in paths}


def categories(table: pd.DataFrame) -> pd.DataFrame:
    """A table of trials with its columns of text as categories, which repeat the same few."""
    text = [name for name in table if table[name].dtype == object or str(table[name].dtype) in ("str", "string")]
    return table.astype(dict.fromkeys(text, "category"))


def module(room: str, name: str, function: str) -> ModuleType:
    """The module ``lensproof.<room>.<name>``, which must have ``function``. What it runs is not seen in the source:
    give its name to :func:`lensproof.codehash.code_hash` beside the command's.

    Raises:
        LensproofError: there is no such module; the line names those that there are.
    """
    folder = importlib.import_module(f"lensproof.{room}")
    names = sorted(info.name for info in pkgutil.iter_modules(folder.__path__))
    if name in names:
        found = importlib.import_module(f"lensproof.{room}.{name}")
        if hasattr(found, function):
            return found
    known = [other for other in names if hasattr(importlib.import_module(f"lensproof.{room}.{other}"), function)]
    raise LensproofError(f"there is no {name!r} in {room} (there is {', '.join(known)})")
