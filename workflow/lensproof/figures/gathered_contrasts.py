"""Gathered's contrasts of arms: how much more visible the variable is, and how far the arms' accuracies lie apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from lensproof.figures.arms import LANGUAGE, Contrast, by_checkpoint, of_contrast, select
from lensproof.figures.captions import said
from lensproof.figures.names import measure_title, setting_title
from lensproof.figures.tables import (
    THEIRS,
    Grid,
    checkpoint_titles,
    interval,
    latex_table,
    notes,
    published_values,
    tidied,
)

NAME, TITLE = "contrasts", "Contrasts of arms"
CONTRASTS = (
    Contrast("flexible", "control"),
    Contrast("report", "control"),
    Contrast("flexible", "supplied"),
    Contrast("supplied", "control"),
    Contrast("flexible", "automatic"),
)
READOUTS = ("rz", "lz", "mz")
SETS = (LANGUAGE, "tracking", "tracking_1swap")
"""Record sets that are shown where they were run: those without a deliberate confound."""
CAPTION = (
    "Differences between arms on the same contexts, paired by instance: of visibility at the query position, as a mean "
    "over the band ({layers}), and of forced-choice accuracy, with {level} bootstrap intervals over passages "
    "(instances, where they share none): {instances}. Accuracies that lie more than 0.15 apart confound a contrast, "
    "and two arms at ceiling or one at chance void it: the claims say which."
)


def tidy(estimates: pd.DataFrame, published: Mapping[str, Any]) -> pd.DataFrame:
    """One row per checkpoint, record set, contrast and measure, and one per arm for its accuracy.

    Args:
        estimates: of ``visibility``, one or more checkpoints.
        published: the paper's file.

    Raises:
        LensproofError: the contrast of flexible and control is not there.
    """
    select(estimates, measure="rz", method="flexible", reference="control", contrast="difference", summary="band_mean")
    estimates = estimates[estimates["experiment"] == "visibility"]
    rows = []
    for _, own in by_checkpoint(estimates):
        for setting in SETS:
            rows += _of_set(own[own["setting"] == setting])
    return tidied(rows, published, _path, "reference")


def _of_set(own: pd.DataFrame) -> Iterator[Mapping[str, Any]]:
    arms = set(own["method"])
    for contrast in CONTRASTS:
        for measure in (*READOUTS, "accuracy") if {*contrast} <= arms else ():
            yield of_contrast(own, contrast, measure, own["setting"].iloc[0])
    accuracies = select(own, needed=False, measure="accuracy", summary="all_layers")
    shown = {arm for contrast in CONTRASTS for arm in contrast}
    yield from (row for _, row in accuracies.iterrows() if row["method"] in shown)


def _path(row: Mapping[str, Any]) -> str | None:
    if row["setting"] != LANGUAGE:
        return None
    if pd.isna(row["reference"]):
        return f"gathered.visibility.accuracy.{row['method']}"
    return f"gathered.visibility.contrasts.{row['method']}_minus_{row['reference']}.{row['measure']}"


def markdown(table: pd.DataFrame, published: Mapping[str, Any], titles: Mapping[str, str] | None = None) -> str:
    """The table as Markdown, a grid for each record set, the paper's own values below them."""
    titles = checkpoint_titles(published, titles)
    parts = [f"**{TITLE}.** {_caption(table, titles)}"]
    for name, grid in _grids(table, titles):
        parts += [f"Records: {name}.", grid.markdown()]
    return "\n\n".join([*parts, f"{THEIRS}:", _theirs(published, titles).markdown()]) + "\n"


def latex(table: pd.DataFrame, published: Mapping[str, Any], titles: Mapping[str, str] | None = None) -> str:
    """The table as LaTeX for ``booktabs``."""
    titles = checkpoint_titles(published, titles)
    found = list(_grids(table, titles))
    names = ", ".join(name for name, _ in found)
    caption = f"{_caption(table, titles)} From the top: records {names}; {THEIRS[0].lower()}{THEIRS[1:]}."
    return latex_table(NAME, caption, [*(grid for _, grid in found), _theirs(published, titles)], paper="gathered")


def _caption(table: pd.DataFrame, titles: Mapping[str, str]) -> str:
    return CAPTION.format(**said(table, titles)) + notes(table)


def _grids(table: pd.DataFrame, titles: Mapping[str, str]) -> Iterator[tuple[str, Grid]]:
    heads = ["Contrast", *(f"Δ {measure_title(measure)}" for measure in READOUTS), "Δ accuracy", "Accuracies"]
    for setting, rows in table.groupby("setting", sort=False):
        lines = [line for name, own in by_checkpoint(rows) for line in _lines(own, titles.get(name, name))]
        yield setting_title(str(setting)), Grid("Checkpoint", [("", heads)], lines)


def _lines(own: pd.DataFrame, title: str) -> Iterator[list[str]]:
    accuracy = own[own["reference"].isna()].set_index("method")["point"]
    for place, contrast in enumerate(contrast for contrast in CONTRASTS if {*contrast} <= set(accuracy.index)):
        mine = own[(own["method"] == contrast.method) & (own["reference"] == contrast.reference)]
        cells = {row["measure"]: interval(row) for row in mine.to_dict("records")}
        both = f"{accuracy[contrast.method]:.2f} / {accuracy[contrast.reference]:.2f}"
        values = [cells.get(measure, "") for measure in (*READOUTS, "accuracy")]
        yield ["" if place else title, contrast.title, *values, both]


def _theirs(published: Mapping[str, Any], titles: Mapping[str, str]) -> Grid:
    lines = []
    for contrast in CONTRASTS:
        path = f"gathered.visibility.contrasts.{contrast.method}_minus_{contrast.reference}"
        changes = {measure: published_values(published, f"{path}.{measure}") for measure in ("rz", "accuracy")}
        accuracy = [published_values(published, f"gathered.visibility.accuracy.{arm}") for arm in contrast]
        for name, value in changes["rz"].items():
            both = " / ".join(f"{arm[name]:.2f}" for arm in accuracy)
            gap = f"{changes['accuracy'][name]:.3f}" if name in changes["accuracy"] else ""
            lines.append([titles.get(name, name), contrast.title, f"{value:.4f}", gap, both])
    return Grid("Checkpoint", [("", ["Contrast", f"Δ {measure_title('rz')}", "Δ accuracy", "Accuracies"])], lines)
