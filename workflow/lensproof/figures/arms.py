"""What figures and tables of Gathered share: estimates by arm, contrasts, a line of panels for each checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from lensproof.errors import LensproofError
from lensproof.figures.captions import instances
from lensproof.figures.names import contrast_title, measure_title, setting_title
from lensproof.figures.style import AGAINST, ARMS, COLUMN_INCHES, GREY

LANGUAGE = "language"
"""The record set that the paper's own figures show."""
WIDTH = 2 * COLUMN_INCHES + 0.3


class Contrast(NamedTuple):
    """Two arms, the first less the second."""

    method: str
    reference: str

    @property
    def title(self) -> str:
        """``flexible − control``."""
        return contrast_title(self.method, self.reference)

    @property
    def style(self) -> dict[str, Any]:
        """Colour of the first arm, marker of the second."""
        return {"color": ARMS[self.method]["color"], "marker": AGAINST[self.reference], "linestyle": ""}


def select(estimates: pd.DataFrame, *, needed: bool = True, **values: Any) -> pd.DataFrame:
    """The rows whose columns have these values; None stands for null, and so it does for ``contrast`` if not named.

    Raises:
        LensproofError: there is none, and they are ``needed``; the line says of what.
    """
    values = {"contrast": None, **values}
    absent = [name for name in values if name not in estimates]
    rows = estimates.iloc[:0] if absent else estimates
    for name, value in values.items():
        rows = rows[rows[name].isna() if value is None else rows[name] == value] if not absent else rows
    if rows.empty and needed:
        named = [setting_title(str(values[key])) for key in ("method", "reference", "setting") if values.get(key)]
        of = f" of {', '.join(named)}" if named else ""
        raise LensproofError(f"the estimates hold no {measure_title(str(values['measure']))}{of}")
    return rows


def of_contrast(estimates: pd.DataFrame, contrast: Contrast, measure: str, setting: str = LANGUAGE) -> pd.Series:
    """One contrast of one checkpoint: of a readout over the band, or of accuracy.

    Raises:
        LensproofError: it is not there.
    """
    summary = "all_layers" if measure == "accuracy" else "band_mean"
    about = {"method": contrast.method, "reference": contrast.reference, "setting": setting, "summary": summary}
    return select(estimates, experiment="visibility", measure=measure, contrast="difference", **about).iloc[0]


def by_checkpoint(estimates: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Each checkpoint and its rows, in order of appearance."""
    for checkpoint, own in estimates.groupby("checkpoint", sort=False, observed=True):
        yield str(checkpoint), own


def lines(
    rows: pd.DataFrame, titles: Mapping[str, str] | None, widths: Sequence[float], height: float, *, note: bool = True
) -> tuple[Figure, dict[str, list[Axes]]]:
    """A figure with one titled line of panels for each checkpoint.

    Args:
        rows: estimates of the figure; their checkpoints in order of appearance.
        titles: checkpoint -> name to show.
        widths: of the panels of a line, relative to one another.
        height: of a line, in inches.
        note: whether the sample is named beside the title.
    """
    checkpoints = list(by_checkpoint(rows))
    figure = Figure(figsize=(WIDTH, height * len(checkpoints) + 0.45), layout="constrained")
    figure.get_layout_engine().set(hspace=0.04)
    strips = figure.subfigures(len(checkpoints), 1, squeeze=False)[:, 0]
    panels = {}
    for strip, (checkpoint, own) in zip(strips, checkpoints, strict=True):
        panels[checkpoint] = list(strip.subplots(1, len(widths), width_ratios=widths, squeeze=False)[0])
        name = (titles or {}).get(checkpoint, checkpoint)
        strip.suptitle(f"{name}  ", x=0.01, ha="left", fontweight="bold", fontsize=8.5)
        strip.text(0.99, 0.985, instances(own) if note else "", ha="right", va="top", color=GREY, fontsize=7)
    return figure, panels


def key(figure: Figure, arms: Sequence[str], contrasts: Sequence[Contrast] = (), **more: Mapping[str, Any]) -> None:
    """The arms' lines, and the contrasts' marks below them, above all panels; ``more`` gives further handles."""
    handles = [Line2D([], [], label=setting_title(arm), **ARMS[arm]) for arm in arms]
    handles += [Line2D([], [], label=contrast.title, markersize=5, **contrast.style) for contrast in contrasts]
    handles += [Line2D([], [], label=label, **style) for label, style in more.items()]
    columns = max(len(arms), len(contrasts)) or len(handles)
    look = {"fontsize": 7, "columnspacing": 1.2, "handlelength": 2.4, "handletextpad": 0.6}
    figure.legend(handles=by_columns(handles, columns), loc="outside upper center", ncols=columns, **look)


def by_columns(handles: Sequence[Line2D], columns: int) -> list[Line2D]:
    """Handles in the order in which a legend of so many columns, which fills them one by one, shows them in lines."""
    spare = [Line2D([], [], linestyle="", label=" ")] * (-len(handles) % columns)
    whole = [*handles, *spare]
    return [handle for start in range(columns) for handle in whole[start::columns]]
