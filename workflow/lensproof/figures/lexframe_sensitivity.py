"""What each open point of the method amounts to: every variant with the chosen way beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from lensproof.errors import LensproofError
from lensproof.figures.names import measure_title, method_title, setting_title
from lensproof.figures.tables import COLUMNS, Grid, interval, latex_table, of_estimates

EXPERIMENT = "sensitivity"
NAME, TITLE = "sensitivity", "Sensitivity"
CAPTION = (
    "Each open point of the method (table of open points) decided otherwise, beside what was chosen, on the same "
    "documents: layer means, or values without layers, with {level} bootstrap intervals over {documents} documents."
)


def tidy(estimates: pd.DataFrame, published: Mapping[str, Any]) -> pd.DataFrame:
    """The table as rows (``workflow/schemas/table.schema.yaml``); ``setting`` is the variant, null the chosen way.

    Raises:
        LensproofError: the estimates hold no variant.
    """
    estimates = of_estimates(estimates, EXPERIMENT)
    own = estimates[(estimates["experiment"] == EXPERIMENT) & estimates["contrast"].isna() & estimates["layer"].isna()]
    if own["setting"].isna().all():
        raise LensproofError(f"the estimates hold no variant: give those of {EXPERIMENT}")
    return own.assign(published=float("nan"))[list(COLUMNS)].astype({"layer": "Int64"}).reset_index(drop=True)


def markdown(table: pd.DataFrame, published: Mapping[str, Any], titles: Mapping[str, str] | None = None) -> str:
    """The table as Markdown."""
    return f"**{TITLE}.** {_caption(table)}\n\n{_grid(table, titles or {}).markdown()}\n"


def latex(table: pd.DataFrame, published: Mapping[str, Any], titles: Mapping[str, str] | None = None) -> str:
    """The table as LaTeX for ``booktabs``."""
    return latex_table(NAME, _caption(table), [_grid(table, titles or {})])


def _caption(table: pd.DataFrame) -> str:
    clusters = " and ".join(map(str, dict.fromkeys(table.groupby("checkpoint", sort=False)["clusters"].max())))
    return CAPTION.format(level=f"{table['level'].iloc[0]:.0%}", documents=clusters)


def _grid(table: pd.DataFrame, titles: Mapping[str, str]) -> Grid:
    cells = {
        (row["checkpoint"], None if pd.isna(row["setting"]) else row["setting"], row["measure"], row["method"]): row
        for row in table.to_dict("records")
    }
    checkpoints = list(dict.fromkeys(key[0] for key in cells))
    rows = [
        [setting_title(setting), f"{measure_title(measure)}, {method_title(method)}"]
        + [
            interval(cells[key]) if (key := (name, way, measure, method)) in cells else ""
            for name in checkpoints
            for way in (None, setting)
        ]
        for setting, measure, method in _variants(cells)
    ]
    groups = [("", ["Estimate"]), *((titles.get(name, name), ["Chosen", "Variant"]) for name in checkpoints)]
    return Grid("Open point", groups, rows)


def _variants(cells: Mapping[tuple, Any]) -> Iterator[tuple[str, str, str]]:
    """What to show, in the order of the estimates."""
    yield from dict.fromkeys(key[1:] for key in cells if key[1] is not None)
