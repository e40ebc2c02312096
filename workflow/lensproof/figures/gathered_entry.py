"""Gathered's entry figure: visibility by layer and arm, contrasts against their confound, availability."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from lensproof.figures.arms import LANGUAGE, Contrast, key, lines, of_contrast, select
from lensproof.figures.captions import drawn
from lensproof.figures.panels import curve, layer_axis
from lensproof.figures.style import ARMS, GREY

CONTRASTS = [
    Contrast("flexible", "control"),
    Contrast("report", "control"),
    Contrast("flexible", "automatic"),
    Contrast("report", "automatic"),
    Contrast("control", "automatic"),
]
APART = 0.15
"""Accuracies that lie further apart make a contrast confounded (Gathered section 4 of the method)."""
CAPTION = (
    "What demand does to the language of a passage, at the last token of the prompt, on {checkpoints}. All arms share "
    "the passage ({instances}). (a) Visibility R_z (1: first in the vocabulary, 0: last) in the reading of the "
    "Jacobian lens, by layer, the band shaded; bands of lines are {level} percentile bootstrap intervals over passages "
    "({resamples} resamples). Where a lens was fitted for this figure alone it begins at the band. (b) Difference of "
    "two arms' visibility, as a mean over the band, against the difference of their accuracies: the colour is that of "
    "the first arm, the mark stands for the second. In the shaded parts the accuracies lie so far apart that the "
    "contrast is confounded with difficulty. (c) Accuracy of one linear map fitted on all arms, drawn from the floor "
    "of permuted labels to the value; both take the best layer, and whiskers are standard deviations over splits. "
    "Layers drawn: {drawn}."
)
FOCAL = ("flexible", "control")
SIZES = {"report": 7.5, "flexible": 5.5, "control": 3.5}
"""First arm of a contrast -> size of its mark; the smaller lie above, so that all are seen where they coincide."""


def draw(estimates: pd.DataFrame, titles: Mapping[str, str] | None = None) -> Figure:
    """Draw the figure inside :func:`lensproof.figures.style.styled`.

    Args:
        estimates: of ``visibility`` and ``availability``, one or more checkpoints.
        titles: checkpoint -> name to show.

    Raises:
        LensproofError: something that it shows is not in the estimates.
    """
    profiles = _by_layer(estimates)
    figure, panels = lines(profiles, titles, widths=(1.25, 1, 0.95), height=2.05)
    for checkpoint, (profile, effects, probes) in panels.items():
        own = estimates[estimates["checkpoint"] == checkpoint]
        _profile(profile, own)
        _effects(effects, own)
        _probes(probes, own)
    key(figure, list(ARMS), CONTRASTS)
    return figure


def words(estimates: pd.DataFrame, titles: Mapping[str, str] | None = None) -> dict[str, str]:
    """What the caption says of the layers."""
    return {"drawn": drawn(_by_layer(estimates), titles)}


def _by_layer(estimates: pd.DataFrame, contrast: str | None = None) -> pd.DataFrame:
    """Visibility at single layers; of a contrast, those of the band."""
    about = {"setting": LANGUAGE, "summary": "layer", "contrast": contrast}
    return select(estimates, experiment="visibility", measure="rz", **about)


def _profile(axes: Axes, own: pd.DataFrame) -> None:
    rows = _by_layer(own)
    for arm, style in ARMS.items():
        mine = rows[rows["method"] == arm]
        if len(mine):
            curve(axes, mine, style, linewidth=1.8 if arm in FOCAL else 1.2)
    gaps = _by_layer(own, contrast="difference")
    axes.axvspan(gaps["layer"].min() - 0.5, gaps["layer"].max() + 0.5, color="#f3f3f3", linewidth=0, zorder=0)
    axes.set_title("a  visibility by layer", loc="left")
    layer_axis(axes, rows)
    axes.set(xlabel="layer (shaded: band)", ylabel="$R_z$ at the query position")
    axes.set_ylim(None, max(1.0, rows["hi"].max()) + 0.01)


def _effects(axes: Axes, own: pd.DataFrame) -> None:
    for contrast in CONTRASTS:
        x, y = of_contrast(own, contrast, "accuracy"), of_contrast(own, contrast, "rz")
        spans = ([[end["point"] - end["lo"]], [end["hi"] - end["point"]]] for end in (x, y))
        xerr, yerr = spans
        size = SIZES[contrast.method]
        look = {**contrast.style, "markersize": size, "elinewidth": 0.9, "zorder": 3 + 1 / size}
        axes.errorbar(x["point"], y["point"], yerr, xerr, **look)
    reach = max(0.3, 1.08 * max(map(abs, axes.get_xlim())))
    axes.set_xlim(-reach, reach)
    for span in ((-reach, -APART), (APART, reach)):
        axes.axvspan(*span, color="#ececec", linewidth=0, zorder=0)
    axes.axhline(0, color=GREY, linewidth=0.7)
    axes.axvline(0, color=GREY, linewidth=0.7)
    axes.set_title("b  effect against its confound", loc="left")
    axes.set(xlabel=f"Δ accuracy (shaded: over {APART})", ylabel="Δ $R_z$ over the band")
    axes.xaxis.set_major_locator(MaxNLocator(5, symmetric=True))
    axes.grid(visible=False)


def _probes(axes: Axes, own: pd.DataFrame) -> None:
    floor = select(own, measure="floor", setting=LANGUAGE)["point"].iloc[0]
    rows = select(own, measure="probe", setting=LANGUAGE).set_index("method")
    spread = select(own, measure="spread", setting=LANGUAGE).set_index("method")["point"]
    arms = [arm for arm in reversed(ARMS) if arm in rows.index]
    for place, arm in enumerate(arms):
        value, colour = rows.loc[arm, "point"], ARMS[arm]["color"]
        axes.plot([floor, value], [place, place], color=colour, linewidth=1.5)
        axes.errorbar(value, place, xerr=spread[arm], color=colour, marker="o", markersize=4.5, elinewidth=0.9)
        axes.annotate(f"{value:.2f}", (1.24, place), ha="right", va="center", fontsize=7, color=GREY)
    axes.axvline(floor, color=GREY, linestyle="--", linewidth=0.9)
    axes.set_title("c  one map for all arms", loc="left")
    axes.set(xlabel="accuracy (dashed: floor)", xlim=(0, 1.26), ylim=(-0.6, len(arms) - 0.4))
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1.0], ["0", "", "0.5", "", "1"])
    axes.set_yticks(range(len(arms)), arms)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", visible=False)
