"""Gathered's results in short, as its README gives them: each finding, the paper's value and ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from lensproof.figures.arms import LANGUAGE, Contrast, by_checkpoint, of_contrast, select
from lensproof.figures.captions import said
from lensproof.figures.tables import Grid, checkpoint_titles, interval, latex_table, notes, published_values, tidied

NAME, TITLE = "results", "Results in short"
CAPTION = (
    "What demand does to visibility and to availability, language family. Visibility is R_z at the query position, as "
    "a mean over the band ({layers}; {instances}); availability the accuracy of one linear map fitted on all arms, "
    "over the floor of permuted labels that chooses its layer in the same way. Brackets are {level} bootstrap "
    "intervals over passages (over splits, for the map). Where an arm is at chance or both are at ceiling a contrast "
    "is void: the claims say where."
)


@dataclass(frozen=True)
class Finding:
    """One row: what is found, what of, and where the paper's value stands.

    ``of`` are two arms, or one whose own value it is.
    """

    title: str
    measure: str
    of: Contrast | str
    path: str

    @property
    def words(self) -> str:
        """What the second column says."""
        return f"{_MEASURES[self.measure]}, {self.of.title if isinstance(self.of, Contrast) else 'lowest of all arms'}"

    def row(self, own: pd.DataFrame) -> Mapping[str, Any]:
        """Its estimate for one checkpoint."""
        if isinstance(self.of, Contrast):
            return of_contrast(own, self.of, self.measure)
        return select(own, measure=self.measure, method=self.of, setting=LANGUAGE).iloc[0]


_MEASURES = {"rz": "Δ visibility", "accuracy": "Δ accuracy", "over_floor": "accuracy over floor"}
_CONTRASTS = "gathered.visibility.contrasts"
FINDINGS = (
    Finding("Demand raises visibility", "rz", Contrast("flexible", "control"),
            f"{_CONTRASTS}.flexible_minus_control.rz"),
    Finding("How far these two arms' accuracies lie apart", "accuracy", Contrast("flexible", "control"),
            f"{_CONTRASTS}.flexible_minus_control.accuracy"),
    Finding("Demand raises it with the operator held fixed", "rz", Contrast("flexible", "supplied"),
            f"{_CONTRASTS}.flexible_minus_supplied.rz"),
    Finding("The operator alone raises it", "rz", Contrast("supplied", "control"),
            f"{_CONTRASTS}.supplied_minus_control.rz"),
    Finding("One linear map decodes the variable in every arm", "over_floor", "lowest_arm",
            "gathered.availability.over_floor.lowest"),
)  # fmt: skip


def tidy(estimates: pd.DataFrame, published: Mapping[str, Any]) -> pd.DataFrame:
    """One row per finding and checkpoint.

    Args:
        estimates: of ``visibility`` and ``availability``, one or more checkpoints.
        published: the paper's file.

    Raises:
        LensproofError: a finding's estimate is not there.
    """
    select(estimates, measure="rz", summary="band_mean", contrast="difference")
    rows = [{**found.row(own), "finding": found.title} for _, own in by_checkpoint(estimates) for found in FINDINGS]
    paths = {found.title: found.path for found in FINDINGS}
    return tidied(rows, published, lambda row: paths[row["finding"]], "reference", "finding")


def markdown(table: pd.DataFrame, published: Mapping[str, Any], titles: Mapping[str, str] | None = None) -> str:
    """The table as Markdown."""
    titles = checkpoint_titles(published, titles)
    return f"**{TITLE}.** {_caption(table, titles)}\n\n{_grid(table, published, titles).markdown()}\n"


def latex(table: pd.DataFrame, published: Mapping[str, Any], titles: Mapping[str, str] | None = None) -> str:
    """The table as LaTeX for ``booktabs``."""
    titles = checkpoint_titles(published, titles)
    return latex_table(NAME, _caption(table, titles), [_grid(table, published, titles)], paper="gathered")


def _caption(table: pd.DataFrame, titles: Mapping[str, str]) -> str:
    return CAPTION.format(**said(table[table["measure"] == "rz"], titles)) + notes(table)


def _grid(table: pd.DataFrame, published: Mapping[str, Any], titles: Mapping[str, str]) -> Grid:
    cells = {(row["checkpoint"], row["finding"]): interval(row) for row in table.to_dict("records")}
    checkpoints = list(dict.fromkeys(table["checkpoint"]))
    lines = [
        [
            found.title,
            found.words,
            ", ".join(_paper(found, published)),
            *(cells[name, found.title] for name in checkpoints),
        ]
        for found in FINDINGS
    ]
    heads = ["Measure", "Paper", *(titles.get(name, name) for name in checkpoints)]
    return Grid("Finding", [("", heads)], lines)


def _paper(found: Finding, published: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"{value:g}" for value in published_values(published, found.path).values())
