"""What each figure and table is made from, without anything heavy: the Snakefile looks here.

A figure is a module ``lexframe_<id>`` of this folder with ``draw`` and ``CAPTION``, and ``words`` where the caption
depends on what is drawn; a table one with ``tidy``, ``markdown`` and ``latex``. The report shows the caption of either
from its Markdown file, whose first line it is (``workflow/report/item.rst``; reStructuredText has to read it alike).
"""

from __future__ import annotations

CLAIMS = "claims"
"""In place of an experiment: ``results/claims.csv``."""

FIGURES = {
    "fig1": ("directions",),
    "fig2": ("planes",),
    "fig3": (),
    "fig4": ("readings", "translators"),
    "fig5": ("subspaces",),
    "fig6": ("training",),
    "fig7": ("directions",),
    "fig8": ("directions",),
    "fig9": ("long_context",),
}
"""Figure -> the experiments whose estimates it shows."""

TABLES = {
    "table1": ("readings", "translators"),
    "table2": ("substitution",),
    "table3": ("composition",),
    "table4": ("decomposition",),
    "table5": ("steering",),
    "table6": ("attribution",),
    "table7": ("exits",),
    "table8": ("stand_ins",),
    "table9": ("examples",),
    "translators": ("translators",),
    "intervals": ("intervals",),
    "sensitivity": ("sensitivity",),
    "open_points": (),
    "costs": ("costs",),
    "text": (CLAIMS,),
}
"""Table -> the experiments whose estimates it shows."""

ALSO = {"open_points": ("open_points",), "text": ("claims",)}
"""Files of ``paper/published`` that a table shows besides the paper's values."""


def title(name: str) -> str:
    """``table1`` as ``Table 1``, ``open_points`` as ``Open points``."""
    for kind, word in (("fig", "Figure"), ("table", "Table")):
        number = name.removeprefix(kind)
        if number.isdecimal():
            return f"{word} {number}"
    return name.replace("_", " ").capitalize()
