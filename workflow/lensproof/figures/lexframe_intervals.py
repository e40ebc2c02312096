"""How sharp Table 1 is for a number of documents."""

from __future__ import annotations

import pandas as pd

from lensproof.figures.names import method_title
from lensproof.figures.tables import Column, Fitted, Layout, Line
from lensproof.statistics.methods import in_order

COLUMNS = [
    Column("half_width_kl"),
    Column("half_width_top1"),
    Column("shrinkage_exponent_kl"),
    Column("shrinkage_exponent_top1"),
]
CAPTION = (
    "Half of the {level} interval of a mean of Table 1, over {layers}, had only so many documents been read: root mean "
    "square over random sets of that many, in brackets {level} of these sets. Below, the power of the number of "
    "documents that fits them, where there are three numbers or more; independent documents give -0.5. In all "
    "{documents} were read, one set: that row has no range."
)


def _layout(rows: pd.DataFrame) -> Layout:
    """A line for each method and number of documents, then one for the power."""
    numbers = sorted(set(rows["setting"].dropna()), key=int)
    lines = []
    for method in in_order(rows["method"]):
        title = method_title(method)
        lines += [Line(method, f"{title}, {number} documents", number) for number in numbers]
        lines.append(Line(method, f"{title}, power"))
    return Layout("intervals", "Intervals", "intervals", lines, COLUMNS, CAPTION, no_interval="")


TABLE = Fitted("intervals", _layout)
tidy, markdown, latex = TABLE.tidy, TABLE.markdown, TABLE.latex
