"""What each figure and table is made from, without anything heavy: the Snakefile looks here.

A figure is a module ``<paper>_<id>`` of this folder with ``draw`` and ``CAPTION``, and ``words`` where the caption
depends on what is drawn; a table one with ``tidy``, ``markdown`` and ``latex``. The report shows the caption of either
from its Markdown file, whose first line it is (``workflow/report/item.rst``; reStructuredText has to read it alike).
"""

from __future__ import annotations

CLAIMS = "claims"
"""In place of an experiment: ``results/claims.csv``."""

PAPERS = {"lexframe": "Lexical Reference Frames", "gathered": "Gathered, Not Admitted"}
"""Paper, as files and targets name it -> its title."""

FIGURES: dict[str, dict[str, tuple[str, ...]]] = {}
"""Paper -> figure -> the experiments whose estimates it shows."""

FIGURES["lexframe"] = {
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
FIGURES["gathered"] = {
    "overview": (),
    "entry": ("visibility", "availability"),
    "example": ("worked_example",),
    "across": ("visibility",),
}

TABLES: dict[str, dict[str, tuple[str, ...]]] = {}
"""Paper -> table -> the experiments whose estimates it shows."""

TABLES["lexframe"] = {
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
TABLES["gathered"] = {
    "contrasts": ("visibility",),
    "results": ("visibility", "availability"),
    "probe": ("availability",),
}

ALSO = {"lexframe": {"open_points": ("open_points",), "text": ("claims",)}, "gathered": {}}
"""Paper -> table -> files of ``paper/published`` that it shows besides the paper's values."""


def title(name: str) -> str:
    """``table1`` as ``Table 1``, ``open_points`` as ``Open points``, ``entry`` as ``Entry``."""
    for kind, word in (("fig", "Figure"), ("table", "Table")):
        number = name.removeprefix(kind)
        if number.isdecimal():
            return f"{word} {number}"
    return name.replace("_", " ").capitalize()
