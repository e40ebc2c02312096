"""One look for every figure, and files that come out the same byte for byte.

Each method has one colour and one dash pattern everywhere. The reference frames are shades of one blue, darker
with the order; the lenses are orange and purple and broken lines. Told apart in greyscale and with the common
colour-vision deficiencies.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from lensproof.files import atomic

FORMATS = ("pdf", "svg", "png")
COLUMN_INCHES = 3.4
GREY = "#555555"
METHODS: dict[str, dict[str, Any]] = {
    "logit_lens": {"color": "#d55e00", "linestyle": (0, (1.2, 1.2))},
    "jacobian_lens": {"color": "#aa4499", "linestyle": (0, (4, 1.5))},
    "lexframe_0": {"color": "#7fbfe8", "linestyle": "-"},
    "lexframe_1": {"color": "#1f78b4", "linestyle": "-"},
    "lexframe_2": {"color": "#08306b", "linestyle": "-"},
}
RC = {
    "font.family": "DejaVu Sans",  # comes with matplotlib, so every machine draws the same
    "font.size": 8,
    "axes.titlesize": 8.5,
    "axes.labelsize": 8,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.5,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "lines.linewidth": 1.5,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "pdf.fonttype": 42,
    "svg.fonttype": "path",
    "svg.hashsalt": "lensproof",
    "savefig.dpi": 200,
}
_METADATA = {"pdf": {"CreationDate": None}, "svg": {"Date": None}, "png": {"Software": None}}


@contextlib.contextmanager
def styled() -> Iterator[None]:
    """A context in which figures are made and saved, whatever matplotlib is set to on this machine."""
    logging.getLogger("fontTools").setLevel(logging.WARNING)  # it lists every glyph that it embeds
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(RC)
        yield


def method_style(method: str) -> dict[str, Any]:
    """Colour and dashes of a method."""
    return METHODS.get(method, {"color": "#555555", "linestyle": "-."})


def save(figure: Figure, stem: Path) -> None:
    """Write ``stem`` as PDF, SVG and PNG, each whole or not at all and without a time stamp."""
    for form in FORMATS:
        with atomic(stem.with_suffix(f".{form}")) as temporary:
            figure.savefig(temporary, format=form, metadata=_METADATA[form])
