"""Every statement of the text that is tested: the paper's value, ours, and the verdict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from lensproof.claims.evidence import number
from lensproof.claims.published import values
from lensproof.errors import LensproofError
from lensproof.figures.names import stated_title
from lensproof.figures.tables import Grid, checkpoint_titles, latex_table

ALSO = ("claims",)
"""Files of ``paper/published`` that the table shows, besides the paper's."""
NAME, TITLE = "text", "Statements of the text"
COLUMNS = ("claim", "location", "statement", "level", "checkpoint", "published", "point", "lo", "hi", "n", "verdict")
OF_TEXT = ("section", "appendix")
CAPTION = (
    "What sections and appendices say, also of a table or figure: the paper's values behind each statement, where it "
    "gives any, and the verdict of its rule (level: {level}) with the estimate that decided it and its interval. The "
    "rules are in claims.yaml. Statements that stand in a table alone are judged in results/claims.csv."
)


def tidy(claims: pd.DataFrame, published: Mapping[str, Any]) -> pd.DataFrame:
    """One row per statement and checkpoint (:data:`COLUMNS`).

    Args:
        claims: ``results/claims.csv``.
        published: the paper's file, with ``claims`` as the catalogue of claims.

    Raises:
        LensproofError: the table given is not that one.
    """
    if "claim" not in claims or "verdict" not in claims:
        raise LensproofError("this table is made from results/claims.csv")
    catalogue = published["claims"]["claims"]
    where = {name: entry["location"] for name, entry in catalogue.items() if entry["paper"] == "lexframe"}
    stated = [name for name, place in where.items() if any(part in place.lower() for part in OF_TEXT)]
    rows = claims[claims["claim"].isin(stated)].rename(columns={"estimate": "point"})
    return rows.assign(location=rows["claim"].map(where))[list(COLUMNS)].reset_index(drop=True)


def markdown(table: pd.DataFrame, published: Mapping[str, Any], titles: Mapping[str, str] | None = None) -> str:
    """The table as Markdown."""
    return f"**{TITLE}.** {_caption(table)}\n\n{_grid(table, published, titles).markdown()}\n"


def latex(table: pd.DataFrame, published: Mapping[str, Any], titles: Mapping[str, str] | None = None) -> str:
    """The table as LaTeX for ``booktabs``."""
    return latex_table(NAME, _caption(table), [_grid(table, published, titles)])


def _caption(table: pd.DataFrame) -> str:
    return CAPTION.format(level=" and ".join(dict.fromkeys(table["level"].dropna())) or "none")


def _grid(table: pd.DataFrame, published: Mapping[str, Any], titles: Mapping[str, str] | None) -> Grid:
    titles, catalogue = checkpoint_titles(published, titles), published["claims"]["claims"]
    cells = {(row["claim"], row["checkpoint"]): row for row in table.to_dict("records")}
    checkpoints = list(table["checkpoint"].dropna().unique())
    rows = []
    for claim, own in table.groupby("claim", sort=False):
        first = own.iloc[0]
        found = [cells.get((claim, name)) for name in checkpoints]
        stated = [_stated(path, published, titles) for path in catalogue[claim].get("published", ())]
        rows.append([first["statement"], first["location"], "; ".join(stated) or "in words", *map(_cell, found)])
    groups = [("", ["Where", "Paper"]), *((titles.get(name, name), ["Ours"]) for name in checkpoints)]
    share = 0.5 / (2 + len(checkpoints))
    width = f"p{{{share:.2f}\\textwidth}}"
    return Grid("Statement", groups, rows, align=width, first_align="p{0.35\\textwidth}")


def _stated(path: str, published: Mapping[str, Any], titles: Mapping[str, str]) -> str:
    """``LexFrame[1], ECE 0.027 (SmolLM3-3B), 0.018 (Olmo 3 7B)``; one number where it is the same for both."""
    found = values(published, path)
    if len(set(found.values())) == 1:
        return f"{stated_title(path)} {next(iter(found.values())):g}"
    return f"{stated_title(path)} " + ", ".join(f"{value:g} ({titles[name]})" for name, value in found.items())


def _cell(row: Mapping[str, Any] | None) -> str:
    """``reproduced, 0.81 [0.80, 0.82]``."""
    if row is None:
        return "not run"
    if pd.isna(row["point"]) or row["verdict"] in ("not testable", "not run"):
        return row["verdict"]
    return f"{row['verdict']}, {number(row['point'])} [{number(row['lo'])}, {number(row['hi'])}]"
