"""Figures as a reviewer sees them in print: nothing is cut off, nothing looks alike, and every caption is complete."""

from __future__ import annotations

import importlib
import itertools

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb

from lensproof.figures import captions, lexframe_fig5, lexframe_fig6, style
from lensproof.figures.catalogue import FIGURES, title
from lensproof.figures.panels import layer_axis
from lensproof.statistics.table import COLUMNS

LAST = 6
COMMON = {
    "checkpoint": "toy", "reference": None, "contrast": None, "setting": None, "layer": None, "over": None, "layers": 1,
    "numerator": np.nan, "n": 320, "clusters": 9, "resamples": 1000, "level": 0.95, "seed": 0, "unit": "share",
}  # fmt: skip
DRAWN = {
    "fig1": ("logit_lens", "jacobian_lens", "jacobian_lens_normed", "lexframe_1"),
    "fig4": ("logit_lens", "jacobian_lens", "lexframe_0", "lexframe_1", "lexframe_2", "tuned_lens"),
    "fig5": ("local_subspace", "global_subspace", "random_direction", "leading_over_width"),
    "fig6": ("logit_lens", "lexframe_0", "lexframe_1", "lexframe_2"),
    "fig7": ("logit_lens", "jacobian_lens", "ridge_probe", "lexframe_0", "lexframe_1", "lexframe_2",
             "fixed_direction_ceiling"),
    "fig8": ("lexframe_1", "fixed_direction_ceiling"),
    "fig9": ("logit_lens", "lexframe_0", "lexframe_1", "lexframe_2"),
}  # fmt: skip
"""Figure -> the methods that stand in it."""


def module(name):
    return importlib.import_module(f"lensproof.figures.lexframe_{name}")


def row(measure, method, point, lo, hi, **more):
    summary = "layer" if more.get("layer") is not None else "layer_mean"
    about = {"measure": measure, "method": method, "point": point, "lo": lo, "hi": hi, "summary": summary}
    return {**COMMON, **about, **more}


def extreme(name) -> pd.DataFrame:
    """Estimates of a figure whose values and intervals reach further than usual on either side."""
    layers, rows = range(LAST + 1), []
    for method, layer in itertools.product(DRAWN[name], layers):
        wide = layer % 2
        experiment = "translators" if method == "tuned_lens" else "readings"
        setting = "held_out" if method == "tuned_lens" else None
        rows += [
            row("angle", method, 60 + 40 * wide, 55 - 60 * wide, 105, layer=layer),
            row("cosine", method, 0.9 - wide, 0.8 - wide, 1.05, layer=layer),
            row("kl", method, 2.0, 0.003, 3000.0, layer=layer, experiment=experiment, setting=setting),
            row("energy", method, 0.1, 0.0, 0.95, layer=layer),
            row("angle_fit", method, 120.0, 110.0, 130.0, layer=layer),
        ]
    for method, measure, (at, setting) in itertools.product(
        DRAWN[name], ("kl", "top1"), enumerate(("a", "b", "c") if name == "fig6" else ("128:0-15", "1024:896-1023"))
    ):
        more = {"setting": setting, "over": "1, 2", "experiment": "training"}
        rows.append(row(measure, method, 0.02 + 0.9 * (at % 2), 0.0 if measure == "top1" else 0.003, 1.0, **more))
    return pd.DataFrame(rows)


def draw(name, estimates):
    with style.styled():
        figure = module(name).draw(estimates, {"toy": "A toy"})
        figure.canvas.draw()
    return figure


@pytest.mark.parametrize("name", DRAWN)
def test_no_point_and_no_interval_is_cut_off(name):
    figure = draw(name, extreme(name))
    seen = 0
    for panel in figure.axes:
        low, high = sorted(panel.get_ylim())
        left, right = sorted(panel.get_xlim())
        drawn = [line.get_xydata() for line in panel.lines]
        drawn += [path.vertices for part in panel.collections for path in part.get_paths()]
        for points in map(np.asarray, drawn):
            points = points[np.isfinite(points).all(axis=1)]
            seen += len(points)
            assert ((points[:, 1] >= low) & (points[:, 1] <= high)).all()
            assert ((points[:, 0] >= left) & (points[:, 0] <= right)).all()
    assert seen > 10


@pytest.mark.parametrize("name", DRAWN)
def test_methods_of_one_figure_are_told_apart(name):
    """In greyscale or by their dashes: greys that are seen beside one another differ clearly."""
    for one, other in itertools.combinations(DRAWN[name], 2):
        looks = [style.METHODS[method] for method in (one, other)]
        greys = [np.dot(to_rgb(look["color"]), (0.2126, 0.7152, 0.0722)) for look in looks]
        colours = [np.array(to_rgb(look["color"])) for look in looks]
        dashes = looks[0]["linestyle"] != looks[1]["linestyle"]
        assert abs(greys[0] - greys[1]) > 0.15 or (dashes and np.abs(colours[0] - colours[1]).max() > 0.15), (
            one,
            other,
        )


@pytest.mark.parametrize("last", [*range(1, 49), 60, 61, 64, 80])
def test_ticks_reach_the_last_layer_evenly(last):
    with style.styled():
        from matplotlib.figure import Figure

        axes = Figure().subplots()
        layer_axis(axes, last)
    ticks = axes.get_xticks().tolist()
    gaps = np.diff(ticks)
    assert (ticks[0], ticks[-1]) == (0, last)
    assert 2 <= len(ticks) <= 10
    assert len(set(gaps[:-1])) <= 1
    if any(last % step == 0 and 4 <= last // step <= 9 for step in range(1, last + 1)):
        assert len(set(gaps)) == 1
    assert gaps[0] / 2 <= gaps[-1] <= 1.5 * gaps[0]  # neither crowded nor a tick missing


@pytest.mark.parametrize("name", FIGURES)
def test_a_caption_says_what_the_estimates_are_of(name):
    rows = extreme(name) if name in DRAWN else pd.DataFrame([row("plane_x", "state", 0.0, 0.0, 0.0, layer=1)])
    rows = pd.DataFrame(columns=COLUMNS) if not FIGURES[name] else rows
    text = captions.of_figure(name, module(name).CAPTION, rows, {"toy": "A toy"})
    assert text.startswith(f"**{title(name)}.** ")
    assert "{" not in text
    if name in DRAWN:
        assert all(words in text for words in ("95%", "9 documents", "1,000 resamples"))
    if name in ("fig6", "fig9"):
        assert "layers 1, 2" in text
    elif name != "fig3":
        assert "A toy" in text


def test_intervals_of_two_methods_at_one_checkpoint_do_not_overlap():
    """Figure 6: each method's marks and intervals stand at places of their own."""
    places = [
        place for panel in draw("fig6", extreme("fig6")).axes for line in panel.lines for place in line.get_xdata()
    ]
    assert len(places) == 2 * len(set(places))  # alike in the two panels only
    members = np.round(places)
    assert np.abs(np.array(places) - members).max() < 3 * lexframe_fig6.APART


def test_figure_9_gives_a_short_sequence_as_much_room_as_a_long_one():
    panel = draw("fig9", extreme("fig9")).axes[0]
    assert panel.get_xscale() == "log"
    ticks = panel.get_xticks().tolist()
    assert {8, 128, 1024} <= set(ticks)
    assert "layers 1, 2" in "".join(text.get_text() for text in panel.texts)
    assert "per point" in "".join(text.get_text() for text in panel.texts)


def test_figure_5_tells_its_subspaces_apart_by_marks_too():
    assert len(set(lexframe_fig5.MARKERS)) == len(lexframe_fig5.SUBSPACES)
