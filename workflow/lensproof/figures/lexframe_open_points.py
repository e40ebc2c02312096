"""What the paper leaves open, what was chosen instead, and where the choice is tested."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from lensproof.errors import LensproofError
from lensproof.figures.names import setting_title
from lensproof.figures.tables import Grid, latex_table

ALSO = ("open_points",)
"""Files of ``paper/published`` that the table shows, besides the paper's."""
NAME, TITLE = "open_points", "Open points"
COLUMNS = ("id", "where", "open", "chosen", "sensitivity", "beside", "untested")
BETWEEN = "; "
TESTS = {"sensitivity": "Sensitivity: {}", "beside": "{}", "untested": "Not tested: {}"}
CAPTION = (
    "Where the account of the paper leaves a choice, the choice that was made, and what shows how much hangs on it: a "
    "variant in the table of sensitivities, another result, or the reason why there is neither."
)


def tidy(estimates: pd.DataFrame, published: Mapping[str, Any]) -> pd.DataFrame:
    """One row per open point (:data:`COLUMNS`); no estimates are needed.

    Raises:
        LensproofError: a point does not say exactly one of how it is tested.
    """
    points = published["open_points"]["lexframe"]
    for name, point in points.items():
        if sum(key in point for key in TESTS) != 1 or not {"where", "open", "chosen"} <= set(point):
            raise LensproofError(f"open_points.yaml: {name} needs where, open, chosen and one of {', '.join(TESTS)}")
    table = pd.DataFrame([{"id": name, **point} for name, point in points.items()], columns=list(COLUMNS))
    return table.assign(sensitivity=table["sensitivity"].str.join(BETWEEN))


def markdown(table: pd.DataFrame, published: Mapping[str, Any], titles: Mapping[str, str] | None = None) -> str:
    """The table as Markdown."""
    return f"**{TITLE}.** {CAPTION}\n\n{_grid(table).markdown()}\n"


def latex(table: pd.DataFrame, published: Mapping[str, Any], titles: Mapping[str, str] | None = None) -> str:
    """The table as LaTeX for ``booktabs``."""
    return latex_table(NAME, CAPTION, [_grid(table)])


def _grid(table: pd.DataFrame) -> Grid:
    rows = [[row["where"], row["open"], row["chosen"], _tested(row)] for row in table.to_dict("records")]
    width = "p{0.24\\textwidth}"
    return Grid("Where", [("", ["Open", "Chosen", "Tested"])], rows, align=width, first_align="p{0.14\\textwidth}")


def _tested(row: Mapping[str, Any]) -> str:
    key = next(key for key in TESTS if pd.notna(row[key]))
    said = BETWEEN.join(map(setting_title, row[key].split(BETWEEN))) if key == "sensitivity" else row[key]
    return TESTS[key].format(said)
