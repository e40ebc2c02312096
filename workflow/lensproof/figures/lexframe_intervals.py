"""How sharp Table 1 is for a number of documents."""

from __future__ import annotations

import pandas as pd

from lensproof.figures.names import method_title
from lensproof.figures.tables import Column, Fitted, Layout, Line
from lensproof.statistics.intervals import FEWEST, SMALLEST
from lensproof.statistics.methods import in_order

HALF_WIDTHS = [Column("half_width_kl"), Column("half_width_top1")]
POWERS = [Column("shrinkage_exponent_kl"), Column("shrinkage_exponent_top1")]
CAPTION = (
    "Half of the {level} interval of a number of Table 1, {mean}, had only so many documents been read: root mean "
    "square over random sets of that many, in brackets {level} of these sets. In all {documents} were read, one set: "
    "that row has no range."
)
POWER = (
    " Below, the power of the number of documents that fits them, where there are three numbers or more, since one "
    "fits any two; independent documents give -0.5."
)
NO_POWER = (
    " To the few numbers of documents that there are no power is fitted, since one fits any two: that takes "
    f"{SMALLEST * 2 ** (FEWEST - 2) + 1} documents or more."
)
EMPTY = (
    "An empty cell: powers stand in the rows of the power and half-widths in the others; a model read on fewer "
    "documents has fewer of either."
)


def _layout(rows: pd.DataFrame) -> Layout:
    """A line for each method and number of documents, then one for the power where there is any."""
    numbers = sorted(set(rows["setting"].dropna()), key=int)
    power = rows["measure"].isin([column.measure for column in POWERS]).any()
    lines = []
    for method in in_order(rows["method"]):
        title = method_title(method)
        lines += [Line(method, f"{title}, {number} documents", number) for number in numbers]
        lines += [Line(method, f"{title}, power")] if power else []
    columns, caption = (HALF_WIDTHS + POWERS, CAPTION + POWER) if power else (HALF_WIDTHS, CAPTION + NO_POWER)
    return Layout("intervals", "Intervals", "intervals", lines, columns, caption, no_interval="", empty=EMPTY)


TABLE = Fitted("intervals", _layout)
tidy, markdown, latex = TABLE.tidy, TABLE.markdown, TABLE.latex
