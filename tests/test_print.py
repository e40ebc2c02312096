"""Figures as a reviewer sees them in print: nothing is cut off, nothing looks alike, and every caption is complete."""

from __future__ import annotations

import importlib
import io
import itertools

import numpy as np
import pandas as pd
import pytest
from docutils.core import publish_string
from matplotlib.colors import to_rgb
from matplotlib.image import imread

from lensproof.figures import captions, lexframe_fig5, lexframe_fig6, style
from lensproof.figures.catalogue import FIGURES, title
from lensproof.figures.panels import layer_axis
from lensproof.statistics.table import COLUMNS

LAST = 6
COMMON = {
    "checkpoint": "toy", "reference": None, "contrast": None, "setting": None, "layer": None, "over": None, "layers": 1,
    "numerator": np.nan, "n": 320, "clusters": 9, "resamples": 1000, "level": 0.95, "seed": 0, "unit": "share",
    "depth": LAST,
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


def module(name, paper="lexframe"):
    return importlib.import_module(f"lensproof.figures.{paper}_{name}")


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


def caption(name, rows) -> str:
    own = module(name)
    return captions.of_figure(name, own.CAPTION, rows, {"toy": "A toy"}, getattr(own, "words", None))


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
        layer_axis(axes, pd.DataFrame({"layer": [0, last // 2], "depth": last}))
    ticks = axes.get_xticks().tolist()
    gaps = np.diff(ticks)
    assert (ticks[0], ticks[-1]) == (0, last)
    assert 2 <= len(ticks) <= 10
    assert len(set(gaps[:-1])) <= 1
    if any(last % step == 0 and 4 <= last // step <= 9 for step in range(1, last + 1)):
        assert len(set(gaps)) == 1
    assert gaps[0] / 2 <= gaps[-1] <= 1.5 * gaps[0]  # neither crowded nor a tick missing


@pytest.mark.parametrize("name", FIGURES["lexframe"])
def test_a_caption_says_what_the_estimates_are_of(name):
    rows = extreme(name) if name in DRAWN else pd.DataFrame([row("plane_x", "state", 0.0, 0.0, 0.0, layer=1)])
    rows = pd.DataFrame(columns=COLUMNS) if not FIGURES["lexframe"][name] else rows
    text = caption(name, rows)
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


@pytest.mark.parametrize(
    ("short", "long", "said"), [(24, 12, "trials per point: 12 long, 24 short"), (64, 64, "64 long, 64 short")]
)
def test_figure_9_says_the_trials_of_either_length(short, long, said):
    rows = extreme("fig9")
    rows["n"] = rows["setting"].map(lambda setting: short if str(setting).startswith("128:") else long)
    assert said in "".join(text.get_text() for text in draw("fig9", rows).axes[0].texts)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (("128:0-15", "1024:896-1023"), "gathers, 128 of a sequence of 1,024 and 16 of a sequence of 128;"),
        (("32:0-3", "32:28-31", "64:56-63"), "gathers, 8 of a sequence of 64 and 4 of a sequence of 32;"),
        (("100:0-11", "100:84-99"), "gathers, 12 to 16 of a sequence of 100;"),
    ],
)
def test_figure_9_says_how_many_positions_a_point_gathers(settings, said):
    rows = [row("kl", "lexframe_1", 1.0, 0.5, 2.0, setting=setting, over="1, 2") for setting in settings]
    assert said in caption("fig9", pd.DataFrame(rows))


@pytest.mark.parametrize("name", ["fig4", "fig6", "fig9"])
@pytest.mark.parametrize("least", [0.0, 0.003])
def test_a_caption_tells_the_axis_that_is_drawn(name, least):
    """A strip that is linear down to 0 is there, and said to be, where some divergence is that small."""
    rows = extreme(name).assign(lo=least)
    strip = any(panel.get_yscale() == "symlog" for panel in draw(name, rows).axes)
    text = caption(name, rows)
    assert strip == (least == 0) == ("linear from there to 0" in text)
    assert "logarithmic" in text
    assert ("Both axes are logarithmic" in text) == (name == "fig9" and not strip)


BY_LAYER = ("fig1", "fig4", "fig5", "fig7", "fig8")


@pytest.mark.parametrize("name", BY_LAYER)
@pytest.mark.parametrize(
    ("depth", "label", "layers"),
    [
        (LAST, f"layer (0 the embedding, {LAST} the last block's output)", "0, 1, ..., 6."),
        (LAST + 4, f"layer (0 the embedding, {LAST + 4} the last block's output)", "0, 1, ..., 6 of 0 to 10."),
        (None, "layer (0 the embedding)", "0, 1, ..., 6."),
    ],
)
def test_no_layer_but_the_models_last_is_called_the_last(name, depth, label, layers):
    """Nor in the caption, which says which layers are drawn."""
    rows = extreme(name).assign(depth=depth)
    figure = draw(name, rows)
    labels = {panel.get_xlabel() for panel in figure.axes} - {""}
    assert labels == {label}
    last = LAST if depth is None else depth
    assert {panel.get_xticks()[-1] for panel in figure.axes} == {last}
    text = caption(name, rows)
    assert f"Layers drawn: {layers}" in text
    for sentence in ("At the last layer only", "layer 0 and the last layer are left out"):
        assert depth == LAST or sentence not in text


@pytest.mark.parametrize("name", ["fig6", "fig9"])
@pytest.mark.parametrize(("over", "said"), [("12", "layer 12"), ("6, 12", "layers 6, 12")])
def test_one_layer_is_no_layers(name, over, said):
    rows = extreme(name)
    rows["over"] = rows["over"].where(rows["over"].isna(), over)
    shown = "".join(text.get_text() for panel in draw(name, rows).axes for text in panel.texts)
    for text in (caption(name, rows), *([shown] if name == "fig6" else [])):
        assert said in text
        assert ("layers" in text) == (said != "layer 12")


def test_figure_5_tells_its_subspaces_apart_by_marks_too():
    looks = lexframe_fig5.LOOKS
    assert len({look.get("marker") for look in looks.values()}) == len(looks)
    shown = draw("fig5", extreme("fig5")).legends[0].legend_handles
    assert {line.get_marker() for line in shown} == {look.get("marker", "None") for look in looks.values()}


def test_figure_5_says_how_many_random_directions_there_are():
    rows = extreme("fig5")
    rows.loc[rows["method"] == "random_direction", "n"] = 2048
    assert "2,048 of them per layer" in caption("fig5", rows)


@pytest.mark.parametrize("name", [*DRAWN, "fig3"])
@pytest.mark.parametrize("checkpoints", [1, 2])
def test_nothing_lies_outside_the_paper(name, checkpoints):
    """The outermost pixels are white."""
    rows = [extreme(name).assign(checkpoint=f"toy-{number}") for number in range(checkpoints)] if name in DRAWN else []
    with style.styled():
        figure, file = module(name).draw(pd.concat(rows) if rows else None), io.BytesIO()
        figure.savefig(file, format="png")
    pixels = imread(io.BytesIO(file.getvalue()))[..., :3]
    assert all((edge == 1).all() for edge in (pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]))


@pytest.mark.parametrize("name", FIGURES["lexframe"])
def test_a_caption_is_read_alike_as_restructured_text(name):
    """The report includes it."""
    rows = extreme(name) if name in DRAWN else pd.DataFrame([row("plane_x", "state", 0.0, 0.0, 0.0, layer=1)])
    text = caption(name, rows if FIGURES["lexframe"][name] else pd.DataFrame(columns=COLUMNS))
    assert publish_string(text, writer="html5", settings_overrides={"halt_level": 2})
