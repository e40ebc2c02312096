"""Gathered's worked example: where the latent variable of one instance ranks, and the tokens that stand first."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from lensproof.figures.arms import LANGUAGE, key, lines, select
from lensproof.figures.captions import drawn
from lensproof.figures.panels import layer_axis
from lensproof.figures.style import ARMS, FONT, GREY
from lensproof.figures.tokens import SPACE, clip, fonts_for, spelled, visible

TOKENS = ("probability", "further_probability")
CAPTION = (
    "One instance in all its arms, the first by name, on {checkpoints}: (a) the rank of the latent variable's name in "
    "the reading of the Jacobian lens at the query position, by layer, on a logarithmic axis; (b) at some layers, that "
    "rank and the tokens that stand first, the name itself in bold where it is among them. A high percentile rank need "
    f"not be much: the vocabulary is large. {SPACE} stands for a space at either end of a token. Layers drawn: "
    "{drawn}. One example, without intervals."
)
LONGEST = 10
"""Characters of a token that are shown."""
AFTER, GAP = (1, 0.5), 4
"""A token stands where the one before it ends, so many points further on."""


def draw(estimates: pd.DataFrame, titles: Mapping[str, str] | None = None) -> Figure:
    """Draw the figure inside :func:`lensproof.figures.style.styled`.

    Args:
        estimates: of ``worked_example``, one or more checkpoints.
        titles: checkpoint -> name to show.

    Raises:
        LensproofError: the estimates given are not these.
    """
    ranks = select(estimates, measure="rank", setting=LANGUAGE)
    figure, panels = lines(ranks, titles, widths=(1, 2.5), height=2.15, note=False)
    for checkpoint, (curves, grid) in panels.items():
        own = estimates[(estimates["checkpoint"] == checkpoint) & (estimates["setting"] == LANGUAGE)]
        _ranks(curves, own)
        _tokens(grid, own)
    key(figure, [arm for arm in ARMS if arm in set(ranks["method"])])
    return figure


def words(estimates: pd.DataFrame, titles: Mapping[str, str] | None = None) -> dict[str, str]:
    """What the caption says of the layers."""
    return {"drawn": drawn(select(estimates, measure="rank", setting=LANGUAGE), titles)}


def _ranks(axes: Axes, own: pd.DataFrame) -> None:
    rows, size = select(own, measure="rank"), select(own, measure="vocabulary")["point"].iloc[0]
    for arm, style in ARMS.items():
        mine = rows[rows["method"] == arm].sort_values("layer")
        axes.plot(mine["layer"], mine["point"] + 1, clip_on=False, **style)
    for layer in _shown(own):
        axes.axvline(layer, color="#e4e4e4", linewidth=4, zorder=0)
    axes.set_yscale("log")
    axes.set_ylim(size, 1)
    decades = range(math.floor(math.log10(size)) + 1)
    axes.yaxis.set_major_locator(FixedLocator([10**power for power in decades]))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}" if value > 1 else "first")
    layer_axis(axes, rows)
    axes.set_title(f"a  where “{_plain(str(rows['token'].iloc[0]))}” ranks", loc="left", parse_math=False)
    axes.set(xlabel="layer (shaded: shown at right)", ylabel=f"rank among {size:,.0f}")


def _shown(own: pd.DataFrame) -> list[int]:
    """The layers whose tokens are there."""
    return sorted({int(layer) for layer in own[own["measure"].isin(TOKENS)]["layer"]})


def _tokens(axes: Axes, own: pd.DataFrame) -> None:
    shown, ranks = _shown(own), select(own, measure="rank")
    arms = [arm for arm in ARMS if arm in set(ranks["method"])]
    axes.set_axis_off()
    axes.set(xlim=(-0.02, len(shown)), ylim=(len(arms) + 0.1, -0.5))
    axes.set_title("b  the tokens that stand first", loc="left")
    for column, layer in enumerate(shown):
        axes.text(column, 0.02, f"layer {layer}", color=GREY, fontsize=7, va="bottom")
        for line, arm in enumerate(arms):
            where = (own["layer"] == layer) & (own["method"] == arm)
            mine = own[where & own["measure"].isin(TOKENS)].sort_values("rank")
            (z,) = ranks[(ranks["layer"] == layer) & (ranks["method"] == arm)].itertuples()
            _cell(axes, column, line, mine, z)


def _cell(axes: Axes, column: int, line: int, rows: pd.DataFrame, z) -> None:
    """The rank of the latent variable, and below it the tokens that stand first: it is bold where it is one of them."""
    colour = ARMS[z.method]["color"]
    axes.plot(
        [column, column], [line + 0.12, line + 0.88], color=colour, linewidth=2, solid_capstyle="butt", clip_on=False
    )
    axes.text(column + 0.04, line + 0.3, f"rank {z.point + 1:,.0f}", color=GREY, fontsize=6, va="center")
    look = {"fontsize": 5.1, "va": "center", "parse_math": False, "annotation_clip": False}
    before, at = axes.transData, (column + 0.04, line + 0.68)
    for token in rows["token"]:
        gold = str(token).strip() == str(z.token)
        weight = {"color": colour, "fontweight": "bold"} if gold else {"color": "#222222"}
        text = clip(_plain(str(token)), LONGEST)
        before = axes.annotate(text, at, (GAP if at == AFTER else 0, 0), before, "offset points", **look, **weight)
        at = AFTER


def _plain(token: str) -> str:
    """A token on one line, with code points for characters that the font of figures has not."""
    text = visible(token)
    return spelled(text, fonts_for([text], FONT, others=False)[1])
