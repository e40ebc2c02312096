"""Gathered's probes: accuracy of one map for all arms beside its floor, and of maps fitted on one arm for each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from lensproof.figures.arms import by_checkpoint, select
from lensproof.figures.captions import said
from lensproof.figures.names import measure_title
from lensproof.figures.style import ARMS
from lensproof.figures.tables import Grid, checkpoint_titles, interval, latex_table, notes, tidied

NAME, TITLE = "probe", "Probes"
SPREAD = "spread"
MEASURES = ("probe", SPREAD, "over_floor")
CAPTION = (
    "Whether a linear map decodes the variable at the query position. Above: one map fitted on the training instances "
    "of all arms and tested on each arm's held-out instances ({instances}); best of every third layer of the band "
    "({layers}), mean over splits, its standard deviation over splits, and the ratio to the floor, which chooses the "
    "best layer in the same way on labels permuted across instances. Brackets are {level} bootstrap intervals over "
    "splits, which share instances: they say nothing of other instances. Below: maps fitted on one arm (rows) and "
    "tested on each (columns), on states as they are and, after the stroke, less their arm's mean."
)


def tidy(estimates: pd.DataFrame, published: Mapping[str, Any]) -> pd.DataFrame:
    """One row per checkpoint, probe and measure: ``method`` is the arm tested, ``setting`` the record set, followed by
    ``:<arm>`` (and ``:centred``) where the map was fitted on one arm.

    Args:
        estimates: of ``availability``, one or more checkpoints.
        published: the paper's file.

    Raises:
        LensproofError: the estimates given are not these.
    """
    select(estimates, measure="probe")
    shown = estimates[estimates["measure"].isin([*MEASURES, "floor"]) & estimates["contrast"].isna()]
    return tidied(shown.to_dict("records"), published, lambda row: None)


def markdown(table: pd.DataFrame, published: Mapping[str, Any], titles: Mapping[str, str] | None = None) -> str:
    """The table as Markdown."""
    titles = checkpoint_titles(published, titles)
    joint, transfer = _joint(table, titles), _transfer(table, titles)
    return "\n\n".join([f"**{TITLE}.** {_caption(table, titles)}", joint.markdown(), transfer.markdown()]) + "\n"


def latex(table: pd.DataFrame, published: Mapping[str, Any], titles: Mapping[str, str] | None = None) -> str:
    """The table as LaTeX for ``booktabs``."""
    titles = checkpoint_titles(published, titles)
    grids = [_joint(table, titles), _transfer(table, titles)]
    return latex_table(NAME, _caption(table, titles), grids, paper="gathered")


def _caption(table: pd.DataFrame, titles: Mapping[str, str]) -> str:
    return CAPTION.format(**said(table, titles)) + notes(table[table["measure"] != SPREAD])


def _joint(table: pd.DataFrame, titles: Mapping[str, str]) -> Grid:
    lines = []
    for name, own in by_checkpoint(table):
        for setting in dict.fromkeys(text for text in own["setting"] if ":" not in text):
            mine = own[own["setting"] == setting]
            lines += _arms(mine, [titles.get(name, name), str(setting)])
    heads = ["Records", "Arm", *(measure_title(measure) for measure in MEASURES), measure_title("floor")]
    return Grid("Checkpoint", [("", heads)], lines)


def _arms(own: pd.DataFrame, names: list[str]) -> Iterator[list[str]]:
    cells = {(row["method"], row["measure"]): _cell(row) for row in own.to_dict("records")}
    (floor,) = (text for (_, measure), text in cells.items() if measure == "floor")
    for place, arm in enumerate(arm for arm in ARMS if (arm, "probe") in cells):
        values = [cells[arm, measure] for measure in MEASURES]
        yield [*(["", ""] if place else names), arm, *values, "" if place else floor]


def _cell(row: Mapping[str, Any]) -> str:
    """Of a deviation over splits resamples of splits make no interval."""
    return interval({**row, "lo": None, "hi": None} if row["measure"] == SPREAD else row)


def _transfer(table: pd.DataFrame, titles: Mapping[str, str]) -> Grid:
    lines, arms = [], [arm for arm in ARMS if arm in set(table["method"])]
    for name, own in by_checkpoint(table[table["measure"] == "probe"]):
        values = own.set_index(["setting", "method"])["point"]
        shown = titles.get(name, name)
        for setting in dict.fromkeys(text.partition(":")[0] for text in own["setting"]):
            records = str(setting)
            for fitted in (arm for arm in arms if (f"{setting}:{arm}", arm) in values.index):
                probe = f"{setting}:{fitted}"
                cells = [f"{values[probe, arm]:.2f} / {values[f'{probe}:centred', arm]:.2f}" for arm in arms]
                lines.append([shown, records, fitted, *cells])
                shown = records = ""
    return Grid("Checkpoint", [("", ["Records", "Fitted on"]), ("Tested on", arms)], lines)
