"""One look for every figure, and files that come out the same byte for byte.

Each method has one colour and one dash pattern everywhere, and what is made of one kind of thing has one hue: the
reference frames are shades of blue, darker with the order, the lenses orange and purple. Of any two methods the dashes
or the lightness differ, so that they are told apart in greyscale and with the common colour-vision deficiencies. So do
arms, which never stand beside methods.
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
SOLID, DOTS, DASHES, SHORT = "-", (0, (1.2, 1.2)), (0, (4, 1.5)), (0, (2.4, 1.2))
LONG, MIXED, SPARSE = (0, (8, 1.5)), (0, (4, 1.2, 1.2, 1.2)), (0, (1.2, 2.6))
DOUBLE = (0, (4, 1.2, 1.2, 1.2, 1.2, 1.2))
METHODS: dict[str, dict[str, Any]] = {
    # what the output says, as it is: orange
    "logit_lens": {"color": "#d55e00", "linestyle": DOTS},
    "logit_lens_difference": {"color": "#f0a45f", "linestyle": MIXED},
    "output_rows_of_state": {"color": "#f5b878", "linestyle": LONG},
    "fixed_output_basis": {"color": "#8f3b00", "linestyle": DASHES},
    "fixed_input_basis": {"color": "#9a4a10", "linestyle": SHORT},
    # the Jacobian lens: purple
    "jacobian_lens": {"color": "#aa4499", "linestyle": DASHES},
    "jacobian_lens_normed": {"color": "#c987bf", "linestyle": MIXED},
    "jacobian_lens_difference": {"color": "#6b1f5e", "linestyle": MIXED},
    "jacobian_lens_reading": {"color": "#d9a8d2", "linestyle": SHORT},
    "output_rows_of_jacobian_lens": {"color": "#7d2a6f", "linestyle": LONG},
    # trained maps: green
    "ridge_probe": {"color": "#228833", "linestyle": SHORT},
    "tuned_lens": {"color": "#117755", "linestyle": LONG},
    "tuned_lens_start": {"color": "#66b399", "linestyle": LONG},
    "identity_translator": {"color": "#8fc7a0", "linestyle": DOUBLE},
    "random_translator": {"color": "#c3e0c0", "linestyle": SPARSE},
    # reference frames and what stands in for attention in them: blue
    "lexframe_0": {"color": "#7fbfe8", "linestyle": SOLID},
    "lexframe_1": {"color": "#1f78b4", "linestyle": SOLID},
    "lexframe_2": {"color": "#08306b", "linestyle": SOLID},
    "lexframe_1_readout": {"color": "#4a9fd0", "linestyle": DASHES},
    "lexframe_1_basis": {"color": "#12578a", "linestyle": DOUBLE},
    "lexframe_1_difference": {"color": "#155f96", "linestyle": MIXED},
    "lexframe_1_linear": {"color": "#5aaedd", "linestyle": SHORT},
    "lexframe_1_reading_kl": {"color": "#2b86c2", "linestyle": LONG},
    "lexframe_1_reading_kl_own_prefix": {"color": "#8cc6ec", "linestyle": DOTS},
    "mean_and_regression": {"color": "#1a6ca6", "linestyle": DOTS},
    "mean_only": {"color": "#6b93b8", "linestyle": DOUBLE},
    "zero": {"color": "#c2cfde", "linestyle": SHORT},
    # the cloud of states: yellow
    "cosine_distance": {"color": "#b3a23a", "linestyle": SOLID},
    "euclidean_distance": {"color": "#8a7a1e", "linestyle": DASHES},
    "principal_subspace": {"color": "#998924", "linestyle": SHORT},
    "mahalanobis": {"color": "#978420", "linestyle": MIXED},
    "geodesic": {"color": "#6e6118", "linestyle": DOUBLE},
    "local_subspace": {"color": "#665500", "linestyle": SOLID},
    "global_subspace": {"color": "#e0b040", "linestyle": DASHES},
    # the whole model, limits and chance: black and grey
    "model": {"color": "#000000", "linestyle": DOTS},
    "native": {"color": "#111111", "linestyle": SOLID},
    "native_readout": {"color": "#222222", "linestyle": DASHES},
    "native_basis": {"color": "#2b2b2b", "linestyle": DOUBLE},
    "native_difference": {"color": "#1a1a1a", "linestyle": MIXED},
    "native_linear": {"color": "#333333", "linestyle": SHORT},
    "fixed_direction_ceiling": {"color": "#555555", "linestyle": SPARSE},
    "mean_direction": {"color": "#9a9a9a", "linestyle": SPARSE},
    "random_direction": {"color": "#4d4d4d", "linestyle": DOTS},
    "leading_over_width": {"color": "#8a8a8a", "linestyle": SOLID},
}
ARMS: dict[str, dict[str, Any]] = {
    # arms that need the variable: warm
    "report": {"color": "#ee8833", "linestyle": DASHES},
    "flexible": {"color": "#cc3311", "linestyle": SOLID, "zorder": 1.9},  # below broken lines that coincide with it
    # arms that do not: blue, and black for the control
    "automatic": {"color": "#0077bb", "linestyle": DOTS},
    "supplied": {"color": "#44bbdd", "linestyle": MIXED},
    "control": {"color": "#000000", "linestyle": LONG},
}
"""Arms of the five-arm benchmark, in the order in which they are named."""
AGAINST = {"control": "o", "automatic": "^", "supplied": "D"}
"""A contrast of two arms is drawn in the colour of the first, with a marker that stands for the second."""
FONT = "DejaVu Sans"
"""Comes with matplotlib, so every machine draws the same."""
RC = {
    "font.family": FONT,
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
    """Colour and dashes of a method or arm."""
    return METHODS.get(method) or ARMS.get(method) or {"color": "#555555", "linestyle": "-."}


def save(figure: Figure, stem: Path) -> None:
    """Write ``stem`` as PDF, SVG and PNG, each whole or not at all and without a time stamp."""
    for form in FORMATS:
        with atomic(stem.with_suffix(f".{form}")) as temporary:
            figure.savefig(temporary, format=form, metadata=_METADATA[form])
