"""Figures 1, 2, 3, 7 and 8 show their estimates and nothing else."""

from __future__ import annotations

import io
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex, to_rgb
from matplotlib.image import imread
from matplotlib.patches import FancyArrowPatch

from lensproof.errors import LensproofError
from lensproof.figures import captions, lexframe_fig1, lexframe_fig2, lexframe_fig3, lexframe_fig7, lexframe_fig8, style
from lensproof.statistics.table import COLUMNS

CHECKPOINTS, LAST = ("toy", "other"), 12
COSINES = {
    "logit_lens": 0.1, "jacobian_lens": 0.2, "jacobian_lens_normed": 0.25, "ridge_probe": 0.22, "lexframe_0": 0.5,
    "lexframe_1": 0.8, "lexframe_2": 0.9, "fixed_direction_ceiling": 0.4, "mean_direction": 0.45,
}  # fmt: skip
EMPTY = {
    "experiment": "directions", "reference": None, "contrast": None, "setting": None, "layer": None, "layers": 1,
    "over": None, "numerator": np.nan, "n": 320, "clusters": 9, "resamples": 100, "level": 0.95, "seed": 0,
    "unit": "cosine", "depth": LAST,
}  # fmt: skip


def rows_of(checkpoint):
    """Estimates of one checkpoint: cosines and angles that change with the layer, fits, and a contrast."""

    def row(measure, method, point, **more):
        summary = "layer" if more.get("layer") is not None else "all_layers"
        place = {"checkpoint": checkpoint, "measure": measure, "method": method, "summary": summary}
        return {**EMPTY, **place, "point": point, "lo": 0.9 * point, "hi": 1.1 * point, **more}

    for layer in range(LAST + 1):
        for method, height in COSINES.items():
            cosine = min(1.0, height + 0.01 * layer)
            yield row("cosine", method, cosine, layer=layer)
            if method not in ("fixed_direction_ceiling", "mean_direction"):
                yield row("angle", method, float(np.degrees(np.arccos(cosine))), layer=layer)
    for layer in range(1, LAST - 1):
        yield row("angle_fit", "lexframe_1", 60 * 0.9**layer, layer=layer)
        yield row("angle_fit", "lexframe_1", 99.0, layer=layer, setting="logarithm")
    for layer in (3, 4, 5):
        yield row("plateau_fit", "fixed_direction_ceiling", 0.4 + 0.01 * layer, layer=layer)
    yield row("relaxation_share", "lexframe_1", 0.1)
    yield row("relaxation_r2", "lexframe_1", 0.98)
    yield row("relaxation_share", "lexframe_1", 0.7, setting="logarithm")
    yield row("plateau_slope", "fixed_direction_ceiling", 0.01)
    yield row("cosine", "lexframe_1", 0.5, reference="lexframe_0", contrast="difference", summary="layer_mean")


@pytest.fixture(scope="module")
def estimates():
    return pd.DataFrame([row for name in CHECKPOINTS for row in rows_of(name)])[list(COLUMNS)]


def drawn(module, estimates, titles=None):
    with style.styled():
        figure = module.draw(estimates, titles)
        figure.canvas.draw()
    return figure


def by_layer(estimates, checkpoint, measure, method):
    rows = estimates[
        (estimates["checkpoint"] == checkpoint) & (estimates["measure"] == measure) & (estimates["method"] == method)
        & (estimates["summary"] == "layer") & estimates["setting"].isna() & estimates["contrast"].isna()
    ]  # fmt: skip
    return rows.sort_values("layer")


LENSES = ["logit_lens", "jacobian_lens", "jacobian_lens_normed", "lexframe_1"]
ALL = [
    "logit_lens",
    "jacobian_lens",
    "ridge_probe",
    "lexframe_0",
    "lexframe_1",
    "lexframe_2",
    "fixed_direction_ceiling",
]


@pytest.mark.parametrize(
    ("module", "measure", "methods"), [(lexframe_fig1, "angle", LENSES), (lexframe_fig7, "cosine", ALL)]
)
def test_lines_are_the_points_and_bands_the_intervals(estimates, module, measure, methods):
    figure = drawn(module, estimates, {"toy": "A toy"})
    assert [panel.get_title("left") for panel in figure.axes] == ["A toy", "other"]
    for panel, checkpoint in zip(figure.axes, CHECKPOINTS, strict=True):
        assert len(panel.lines) == len(panel.collections) == len(methods)
        for line, band, method in zip(panel.lines, panel.collections, methods, strict=True):
            rows = by_layer(estimates, checkpoint, measure, method)
            assert line.get_xdata().tolist() == rows["layer"].tolist()
            assert line.get_ydata().tolist() == rows["point"].tolist()
            assert set(rows["lo"]) | set(rows["hi"]) == set(band.get_paths()[0].vertices[:, 1])
            assert line.get_color() == style.METHODS[method]["color"]
    unit = "degrees" if measure == "angle" else "cosine"
    assert unit in figure.get_supylabel()


def test_figure_8_shows_the_fits_in_degrees_with_what_they_say(estimates):
    figure = drawn(lexframe_fig8, estimates)
    uppers, lowers = figure.axes[:2], figure.axes[2:]
    for upper, lower, checkpoint in zip(uppers, lowers, CHECKPOINTS, strict=True):
        for panel, method, measure, fitted in (
            (upper, "lexframe_1", "angle", "angle_fit"), (lower, "fixed_direction_ceiling", "cosine", "plateau_fit")
        ):  # fmt: skip
            for line, name in zip(panel.lines, (measure, fitted), strict=True):
                rows = by_layer(estimates, checkpoint, name, method)
                assert line.get_xdata().tolist() == rows["layer"].tolist()
                assert line.get_ydata().tolist() == rows["point"].tolist()
        said = "\n".join(text.get_text() for text in (*upper.texts, *lower.texts))
        assert "loses 0.100 [0.090, 0.110] of the angle per layer" in said
        assert "R² 0.980 [0.882, 1.078]" in said
        assert "slope 0.0100 [0.0090, 0.0110] per layer" in said
    assert "degrees" in uppers[0].get_ylabel()


def test_figure_8_says_which_layers_the_plateau_line_rests_on(estimates):
    def said(rows):
        return captions.of_figure("fig8", lexframe_fig8.CAPTION, rows, words=lexframe_fig8.words)

    fitted, toy = estimates["measure"] == "plateau_fit", estimates["checkpoint"] == "toy"
    assert "SmolLM3: layers 3, 4, 5. Bands" in said(estimates)
    two = estimates[~(fitted & toy & (estimates["layer"] == 5))]
    assert "SmolLM3: layers 3, 4 (toy) and 3, 4, 5 (other). Bands" in said(two)
    assert "SmolLM3: layers 3, 4, 5 (other). Bands" in said(estimates[~(fitted & toy)])
    assert "SmolLM3. Bands" in said(estimates[~fitted])


def test_trials_above_a_panel_are_those_of_each_curve(estimates):
    """Documents and trials of the many, and of a curve that rests on others."""
    few = estimates["method"] == "fixed_direction_ceiling"
    for more, note in (
        ({}, "9 documents, 320 trials per point"),
        ({"n": 80}, "9 documents, 320 trials per point (Fixed-direction ceiling: 80)"),
        ({"n": 15360}, "9 documents, 320 trials per point\n(Fixed-direction ceiling: 15,360)"),
        ({"n": 80, "clusters": 4}, "9 documents, 320 trials per point (Fixed-direction ceiling: 4, 80)"),
    ):
        rows = estimates.copy()
        for name, value in more.items():
            rows.loc[few, name] = value
        assert [panel.texts[0].get_text() for panel in drawn(lexframe_fig7, rows).axes] == [note] * 2


def test_a_curve_of_one_point_is_a_mark_in_panel_and_legend(estimates):
    alone = estimates[(estimates["method"] != "ridge_probe") | (estimates["layer"] == 3)]
    for rows, marks in ((alone, {"Ridge probe"}), (estimates, set())):
        figure = drawn(lexframe_fig7, rows)
        handles = {line.get_label(): line for line in figure.legends[0].get_lines()}
        assert {label for label, line in handles.items() if line.get_marker() != "None"} == marks
        for panel in figure.axes:
            single = [line for line in panel.lines if len(line.get_xdata()) == 1]
            assert [line.get_marker() for line in single] == ["o"] * len(marks)


def test_figure_8_of_a_model_with_too_few_layers_has_no_fits(estimates):
    fits = ("angle_fit", "plateau_fit", "plateau_slope", "relaxation_share", "relaxation_r2")
    figure = drawn(lexframe_fig8, estimates[~estimates["measure"].isin(fits)])
    assert [len(panel.lines[1].get_xdata()) for panel in figure.axes] == [0] * 4
    assert all("slope" not in text.get_text() for panel in figure.axes for text in panel.texts)


@pytest.mark.parametrize("module", [lexframe_fig1, lexframe_fig2, lexframe_fig7, lexframe_fig8])
def test_estimates_of_something_else_are_refused_in_one_line(estimates, module):
    for table in (estimates[estimates["measure"] == "plateau_slope"], pd.DataFrame(columns=COLUMNS)):
        with pytest.raises(LensproofError, match="the estimates hold no") as caught:
            module.draw(table)
        assert "\n" not in str(caught.value)


def test_one_checkpoint_can_be_drawn_alone(estimates):
    one = estimates[estimates["checkpoint"] == "toy"]
    for module, panels in ((lexframe_fig1, 1), (lexframe_fig7, 1), (lexframe_fig8, 2)):
        assert len(drawn(module, one).axes) == panels


# -- figure 2


def paths(checkpoint):
    """Three tokens' paths and the state's, on circles of their own."""
    for layer in range(5):
        turn = layer / 4
        for setting, radius in (("token_1", 0.9), ("token_2", 0.7), ("token_3", 0.5), (None, 0.3)):
            place = {"checkpoint": checkpoint, "method": "native_basis" if setting else "state", "setting": setting}
            common = {**EMPTY, **place, "layer": layer, "summary": "layer", "lo": np.nan, "hi": np.nan, "token": " a\n"}
            yield {**common, "measure": "plane_x", "point": radius * np.cos(turn)}
            yield {**common, "measure": "plane_y", "point": radius * np.sin(turn)}
    yield {**EMPTY, "checkpoint": checkpoint, "method": "state", "measure": "plane_kept", "point": 0.437,
           "summary": "all_layers", "token": None}  # fmt: skip


def test_figure_2_draws_each_path_from_the_embedding_to_the_last_layer():
    figure = drawn(lexframe_fig2, pd.DataFrame([row for name in CHECKPOINTS for row in paths(name)]))
    turn = np.arange(5) / 4
    for panel in figure.axes:
        paths_drawn = [line for line in panel.lines if len(line.get_xdata())]
        whole, first, last = (paths_drawn[start::3] for start in range(3))
        for line, start, end, radius in zip(whole, first, last, (0.9, 0.7, 0.5, 0.3), strict=True):
            assert line.get_xdata() == pytest.approx(radius * np.cos(turn))
            assert line.get_ydata() == pytest.approx(radius * np.sin(turn))
            assert start.get_xdata() == pytest.approx([radius])
            assert end.get_ydata() == pytest.approx([radius * np.sin(1)])
            assert to_hex(start.get_color()) == "#ffffff"  # open at the embedding
            assert end.get_color() == line.get_color()
        assert len({line.get_color() for line in whole}) == 4
        assert any("44%" in text.get_text() for text in panel.texts)
        names = [text.get_text() for text in panel.get_legend().get_texts()]
        assert names == ["native basis of “·a\\n”"] * 3 + ["the state", "at layer 0", "at layer 4"]
        widths = [line.get_linewidth() for line in whole]
        assert widths == sorted(set(widths), reverse=True)  # one that lies upon another hides none
        assert panel.get_aspect() == 1


def test_figure_2_spells_what_its_font_does_not_have(recwarn):
    rows = pd.DataFrame(list(paths("toy"))).replace({"token": {" a\n": " 中文"}})
    names = [text.get_text() for text in drawn(lexframe_fig2, rows).axes[0].get_legend().get_texts()]
    assert names[0] == "native basis of “·U+4E2D U+6…”"
    assert not recwarn.list


@pytest.mark.parametrize("checkpoints", [1, 2])
def test_figure_2_lies_inside_the_paper(checkpoints):
    rows = pd.DataFrame([row for name in CHECKPOINTS[:checkpoints] for row in paths(name)])
    file = io.BytesIO()
    with style.styled():
        lexframe_fig2.draw(rows.replace({"token": {" a\n": " internationalisation"}})).savefig(file, format="png")
    pixels = imread(io.BytesIO(file.getvalue()))[..., :3]
    assert all((edge == 1).all() for edge in (pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]))


@pytest.mark.parametrize(
    ("depth", "said"), [(4, "large filled ones the last layer"), (6, "ones the highest layer drawn"), (None, "highest")]
)
def test_figure_2_says_which_layers_are_at_the_ends(depth, said):
    rows = pd.DataFrame(list(paths("toy"))).assign(depth=depth)
    text = captions.of_figure("fig2", lexframe_fig2.CAPTION, rows, words=lexframe_fig2.words)
    assert "Open marks are the embedding" in text
    assert said in text
    higher = captions.of_figure("fig2", lexframe_fig2.CAPTION, rows[rows["layer"] != 0], words=lexframe_fig2.words)
    assert "Open marks are the lowest layer drawn" in higher


# -- figure 3


def test_every_mark_of_figure_3_is_explained():
    def look(line):
        return line.get_marker(), to_hex(line.get_color()), to_hex(line.get_markeredgecolor())

    figure = drawn(lexframe_fig3, None)
    explained = {look(line) for line in figure.legends[0].legend_handles}
    assert {look(line) for panel in figure.axes for line in panel.lines} <= explained


def test_figure_3_keeps_the_attention_of_each_order():
    """Three blocks, four positions. Order 0: typical attention at t. Order 1: t reads three positions, each of which
    stands on typical attention. Order 2: t reads order 1 at three positions, which read the 0 + 1 + 2 positions of
    order 0 before them; of those, the two that are read stand on typical attention. Order infinity: all real."""
    figure = drawn(lexframe_fig3, None)
    counted = []
    for panel in figure.axes:
        colours = Counter(
            to_hex(patch.get_edgecolor()) for patch in panel.patches if isinstance(patch, FancyArrowPatch)
        )
        counted.append((colours["#000000"] // 3, colours["#1f78b4"] // 3))
        assert set(colours.values()) <= {3 * count for count in counted[-1]}
    assert counted == [(0, 1), (3, 3), (3 + 3, 2), (6, 0)]
    assert [panel.get_title() for panel in figure.axes] == ["Order 0", "Order 1", "Order 2", "Order ∞ (the model)"]


# -- colours


def seen_by(colour, matrix):
    """A colour as linear RGB after a deficiency's matrix (Machado, Oliveira and Fernandes 2009, severity 1)."""
    rgb = np.asarray(to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return np.clip(matrix @ linear, 0, 1)


DEFICIENCIES = {
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


@pytest.mark.parametrize("deficiency", [*DEFICIENCIES, "none"])
def test_curves_that_stand_in_one_panel_are_told_apart(deficiency):
    """By dashes, or else by colour as readers with the deficiency see it."""
    matrix = np.asarray(DEFICIENCIES.get(deficiency, np.eye(3)))
    shown = [*COSINES, "tuned_lens", "local_subspace", "global_subspace", "random_direction"]
    shown += ["leading_over_width", "model"]
    for place, one in enumerate(shown):
        for other in shown[:place]:
            looks = style.METHODS[one], style.METHODS[other]
            dashes = looks[0]["linestyle"] != looks[1]["linestyle"]
            gap = np.linalg.norm(np.subtract(*(seen_by(look["color"], matrix) for look in looks)))
            assert dashes or gap > 0.06, (one, other)
