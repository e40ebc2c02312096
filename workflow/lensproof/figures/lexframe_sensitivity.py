"""What each open point of the method amounts to: every variant with the chosen way beside it, and the difference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from lensproof.errors import LensproofError
from lensproof.figures.captions import OTHERWISE, said
from lensproof.figures.names import measure_title, method_title, setting_title
from lensproof.figures.tables import COLUMNS, Grid, checkpoint_titles, interval, latex_table, notes, of_estimates
from lensproof.statistics.sensitivity import LARGE, large

EXPERIMENT = "sensitivity"
NAME, TITLE = "sensitivity", "Sensitivity"
DIFFERENCE = ("difference", "difference_lo", "difference_hi", "large")
"""Columns besides those of every table: the variant less the chosen way, and whether that is large."""
MARK = "†"
CAPTION = (
    "Each open point of the method (table of open points), and the layers of the mean, decided otherwise, beside "
    "what was chosen, on the same documents: {mean}, those with layers 0 and L over these too, or "
    "numbers of all observed layers (Skipped), with {level} bootstrap intervals over {documents}; differences "
    f"are paired. {OTHERWISE} {MARK}: large, a difference of at least {LARGE:.0%} of the chosen way's value whose "
    "interval leaves out 0: {large}."
)
ABSENT = {"bos": "the model uses no such token"}
"""Variant -> why a checkpoint may not have it."""
UNPAIRED = {"exit_halves": "other documents", "resample_sequences": "0 (the interval differs)"}
"""Variant -> what stands in place of a difference."""

Cells = Mapping[tuple, Mapping[str, Any]]


def tidy(estimates: pd.DataFrame, published: Mapping[str, Any]) -> pd.DataFrame:
    """The table as rows (``workflow/schemas/table.schema.yaml``); ``setting`` is the variant, null the chosen way.

    Raises:
        LensproofError: the estimates hold no variant.
    """
    estimates = of_estimates(estimates, EXPERIMENT)
    rows = estimates[(estimates["experiment"] == EXPERIMENT) & estimates["layer"].isna()]
    own, gaps = rows[rows["contrast"].isna()], rows[rows["contrast"] == "difference"]
    if own["setting"].isna().all():
        raise LensproofError(f"the estimates hold no variant: give those of {EXPERIMENT}")
    table = own.assign(published=float("nan"))[list(COLUMNS)].astype({"layer": "Int64"}).reset_index(drop=True)
    cells, found = _cells(table), _cells(gaps)
    beside = [_difference(found.get(key), cells.get((key[0], None, *key[2:]))) for key in cells]
    return table.assign(**dict(zip(DIFFERENCE, zip(*beside, strict=True), strict=True))).astype({"large": "boolean"})


def markdown(table: pd.DataFrame, published: Mapping[str, Any], titles: Mapping[str, str] | None = None) -> str:
    """The table as Markdown."""
    titles = checkpoint_titles(published, titles)
    return f"**{TITLE}.** {_caption(table, titles)}\n\n{_grid(table, titles).markdown()}\n"


def latex(table: pd.DataFrame, published: Mapping[str, Any], titles: Mapping[str, str] | None = None) -> str:
    """The table as LaTeX for ``booktabs``."""
    titles = checkpoint_titles(published, titles)
    return latex_table(NAME, _caption(table, titles), [_grid(table, titles)])


def _difference(gap: Mapping[str, Any] | None, chosen: Mapping[str, Any] | None) -> tuple:
    """Difference, its ends and whether it is large; nothing where there is none."""
    if gap is None or chosen is None:
        return (float("nan"),) * 3 + (None,)
    return gap["point"], gap["lo"], gap["hi"], large(gap, chosen["point"])


def _caption(table: pd.DataFrame, titles: Mapping[str, str]) -> str:
    means = table[table["setting"].isna() & (table["measure"] != "skipped")]
    found: dict[str, list[str]] = {}
    for row in table[table["large"].fillna(False)].to_dict("records"):
        name = f"{setting_title(row['setting'])} ({_estimate(row['measure'], row['method'])})"
        found.setdefault(name, []).append(titles.get(row["checkpoint"], row["checkpoint"]))
    named = "; ".join(f"{name} on {' and '.join(where)}" for name, where in found.items())
    return CAPTION.format(**said(means, titles), large=named or "none is") + notes(table)


def _grid(table: pd.DataFrame, titles: Mapping[str, str]) -> Grid:
    cells = _cells(table)
    checkpoints = list(dict.fromkeys(key[0] for key in cells))
    rows = [
        [setting_title(setting), _estimate(measure, method)]
        + [cell for name in checkpoints for cell in _shown(cells, name, setting, measure, method)]
        for setting, measure, method in _variants(cells)
    ]
    heads = ["Chosen", "Variant", "Difference"]
    groups = [("", ["Estimate"]), *((titles.get(name, name), heads) for name in checkpoints)]
    return Grid("Open point decided otherwise", groups, rows)


def _shown(cells: Cells, checkpoint: str, setting: str, measure: str, method: str) -> list[str]:
    """The chosen way, the variant and their difference on one checkpoint, or why they are not there."""
    chosen, variant = (cells.get((checkpoint, way, measure, method)) for way in (None, setting))
    first = interval(chosen) if chosen else "not observed"
    if variant is None:
        return [first, ABSENT.get(setting, "not observed"), "none"]
    if pd.isna(variant["difference"]):
        return [first, interval(variant), UNPAIRED.get(setting, "not defined")]
    ends = dict(zip(("point", "lo", "hi"), (variant[name] for name in DIFFERENCE), strict=False))
    return [first, interval(variant), interval({**ends, "unit": variant["unit"]}) + MARK * bool(variant["large"])]


def _estimate(measure: str, method: str) -> str:
    return f"{measure_title(measure)}, {method_title(method)}"


def _cells(table: pd.DataFrame) -> dict[tuple, Mapping[str, Any]]:
    """Rows by checkpoint, variant, measure and method."""
    return {
        (row["checkpoint"], None if pd.isna(row["setting"]) else row["setting"], row["measure"], row["method"]): row
        for row in table.to_dict("records")
    }


def _variants(cells: Cells) -> Iterator[tuple[str, str, str]]:
    """What to show, in the order of the estimates."""
    yield from dict.fromkeys(key[1:] for key in cells if key[1] is not None)
