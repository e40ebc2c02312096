"""LexFrame's Figure 9: KL by position in long and in short sequences of the same text."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator, ScalarFormatter

from lensproof.errors import LensproofError
from lensproof.figures.captions import spread
from lensproof.figures.panels import curve, divergence_axis, exact, grid, legend, scale
from lensproof.figures.style import method_style
from lensproof.statistics.methods import in_order

CAPTION = (
    "KL of readings from the model's own output by position, in long sequences (thin lines with marks) and in the same"
    " text cut into short ones (wide lines), {mean}, with {level} bootstrap intervals over {documents} "
    "({resamples} resamples), on {checkpoints}. A point stands at the middle of the positions that it gathers, "
    "{gathered}; the trials above each panel are those of one point. Typical attention is calibrated for each length "
    "on the same number of tokens of the same corpus. {axes}"
)

LOGARITHMIC = "Both axes are logarithmic."


def draw(estimates: pd.DataFrame, titles: Mapping[str, str] | None = None) -> Figure:
    """Draw the figure inside :func:`lensproof.figures.style.styled`.

    Args:
        estimates: of ``long_context``, one or more checkpoints.
        titles: checkpoint -> name to show.

    Raises:
        LensproofError: there is no KL by position in the estimates.
    """
    rows = _by_position(estimates)
    if rows.empty:
        raise LensproofError("the estimates hold no KL by position: give those of the long_context experiment")
    figure, panels = grid(rows, titles, trials=_trials)
    lengths = sorted(set(rows["length"]))
    for checkpoint, panel in panels.items():
        for length in lengths:
            for method in in_order(rows["method"]):
                own = rows[
                    (rows["checkpoint"] == checkpoint) & (rows["method"] == method) & (rows["length"] == length)
                ]  # fmt: skip
                long = length == lengths[-1]
                look = {"marker": "o", "markersize": 2.5} if long else {"linewidth": 2.6, "alpha": 0.6}
                curve(panel, own, method_style(method), x="place", **look)
        _positions(panel, rows["place"].min(), lengths[-1])
        panel.grid(axis="x", visible=False)
    divergence_axis(list(panels.values()), rows)
    figure.supylabel("mean KL(model \N{DOUBLE VERTICAL LINE} reading), nats", fontsize=8)
    more = {
        f"sequences of {lengths[-1]:,}": {"color": "#555555", "marker": "o", "markersize": 2.5},
        f"of {lengths[0]:,}": {"color": "#555555", "linewidth": 2.6, "alpha": 0.6},
    }
    legend(figure, in_order(rows["method"]), 3, **(more if len(lengths) > 1 else {}))
    return figure


def words(estimates: pd.DataFrame, titles: Mapping[str, str] | None = None) -> dict[str, str]:
    """What the caption says of the positions that a point gathers and of the axis."""
    rows = _by_position(estimates)
    gathered = [f"{spread(own['width'])} of a sequence of {length:,}" for length, own in rows.groupby("length")]
    axes = (
        f"The axis of positions is logarithmic, that of divergences is {scale(rows)}." if exact(rows) else LOGARITHMIC
    )
    return {"gathered": " and ".join(gathered[::-1]), "axes": axes}


def _by_position(estimates: pd.DataFrame) -> pd.DataFrame:
    """KL by position: ``length`` of the sequences, ``width``, how many positions a point gathers, ``place``, their
    middle."""
    rows = estimates[(estimates["measure"] == "kl") & estimates["setting"].str.contains(":", na=False)]
    parts = rows["setting"].str.extract(r"^(?P<length>\d+):(?P<first>\d+)-(?P<last>\d+)$").astype(int)
    width, middle = parts["last"] - parts["first"] + 1, (parts["first"] + parts["last"]) / 2
    return rows.assign(length=parts["length"], width=width, place=middle)


def _trials(rows: pd.DataFrame) -> str:
    """How many trials stand behind a point of each length."""
    numbers = [spread(own["n"]) for _, own in rows.groupby("length")][::-1]
    names = ("long", "short") if len(numbers) == 2 else ("",) * len(numbers)
    return "trials per point: " + ", ".join(f"{n} {name}".strip() for n, name in zip(numbers, names, strict=True))


def _positions(axes: Axes, first: float, length: int) -> None:
    """Positions on a logarithmic axis, on which a short sequence has room beside a long one."""
    powers = [2**power for power in range(length.bit_length()) if first <= 2**power <= length]
    axes.set_xscale("log", base=2)
    axes.set_xlim(0.9 * first, 1.1 * length)
    axes.xaxis.set_major_locator(FixedLocator(powers))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.set_xlabel("position in the sequence, tokens (logarithmic)")
