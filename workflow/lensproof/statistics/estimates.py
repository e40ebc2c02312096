"""Estimates read back from a file, and refused where they cannot be what :mod:`lensproof.statistics` made."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types

from lensproof.files import damaged, read_parquet
from lensproof.statistics.table import COLUMNS

NUMBERS = ("point", "lo", "hi")
MAY_LACK = ("reference", "contrast", "setting", "over", "layer", "depth", "numerator", *NUMBERS)
"""Columns in which a value may be missing."""
WHOLE = ("layer", "depth", "layers", "n", "clusters", "resamples", "seed")
REAL = (*NUMBERS, "numerator", "level")


def read(path: str | Path) -> pd.DataFrame:
    """The estimates in a file.

    Single numbers may be missing, as a ratio is whose denominator is nought.

    Raises:
        LensproofError: the file is missing or damaged, lacks a column, has one of another type, an interval that ends
            before it starts, a number that is not finite, or none at all for a measure; the line names file and row.
    """
    table = read_parquet(path, COLUMNS)
    for why in _wrong(table):
        raise damaged(path, why)
    return table


def _wrong(table: pd.DataFrame) -> Iterator[str]:
    if table.empty:
        yield "it has no row"
    for name in COLUMNS:
        if not _is(table[name], kind := _kind(name)):
            yield f"{name} does not hold {kind}"
        if name not in MAY_LACK and table[name].isna().any():
            yield f"{name} is missing in {_row(table, table[name].isna())}"
    for name in NUMBERS:
        if (broken := np.isinf(table[name].to_numpy(dtype=float))).any():
            yield f"{name} is not finite in {_row(table, broken)}"
    if (turned := table["lo"] > table["hi"]).any():
        yield f"the interval ends before it starts in {_row(table, turned)}"
    if table["point"].isna().all():
        yield "no number in it is defined"
    by_layer = table[table["summary"] == "layer"]
    for measure, own in by_layer.groupby("measure", observed=True):
        if own["point"].isna().all():
            yield f"{measure} is defined at no layer"


def _kind(column: str) -> str:
    return "whole numbers" if column in WHOLE else "numbers" if column in REAL else "text"


def _is(values: pd.Series, kind: str) -> bool:
    known = values.dropna()
    if known.empty:
        return True  # whether anything may be missing is another question
    if kind == "text":
        return all(isinstance(value, str) for value in known.unique())
    if types.is_bool_dtype(known) or not types.is_numeric_dtype(known):
        return False
    return kind == "numbers" or bool((known % 1 == 0).all())


def _row(table: pd.DataFrame, which: Any) -> str:
    """The first of some rows, by its number and by what it is."""
    number = int(np.flatnonzero(np.asarray(which))[0])
    row = table.iloc[number]
    at = "" if pd.isna(row["layer"]) else f" at layer {row['layer']}"
    return f"row {number} ({row['measure']} of {row['method']}{at})"
