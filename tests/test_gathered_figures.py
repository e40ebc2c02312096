"""Gathered's figures and tables show their estimates and nothing else."""

from __future__ import annotations

import importlib
import io
import itertools
from collections import Counter

import gathered_world as world
import numpy as np
import pandas as pd
import pytest
import yaml
from docutils.core import publish_string
from jsonschema import Draft202012Validator
from matplotlib.colors import to_hex, to_rgb
from matplotlib.image import imread
from matplotlib.patches import FancyArrowPatch
from test_direction_figures import DEFICIENCIES, seen_by

from lensproof.claims import catalogue
from lensproof.corpora.benchmark.record import ARMS
from lensproof.errors import LensproofError
from lensproof.figures import (
    captions,
    gathered_across,
    gathered_contrasts,
    gathered_entry,
    gathered_example,
    gathered_overview,
    gathered_probe,
    gathered_results,
    style,
)
from lensproof.figures.arms import Contrast, by_columns, of_contrast
from lensproof.figures.catalogue import ALSO, FIGURES, PAPERS, TABLES, title
from lensproof.figures.tables import THEIRS, interval
from lensproof.statistics import availability, visibility, worked_example
from lensproof.statistics.table import COLUMNS

SETTINGS = {"resamples": 100, "level": 0.95, "seed": 0}
CHECKPOINTS = ("toy", "qwen3.6-27b")
TABLE_MODULES = (gathered_contrasts, gathered_results, gathered_probe)


@pytest.fixture(scope="module")
def estimates() -> pd.DataFrame:
    """Of two checkpoints, the second named like the paper's primary one; the first has tracking records too."""
    parts = [world.visibility("toy", "tracking_1swap", ARMS[:-1])]
    tables = [visibility.estimate(parts[0], **SETTINGS)]
    for seed, name in enumerate(CHECKPOINTS):
        tables.append(visibility.estimate(world.visibility(name, seed=seed), **SETTINGS))
        tables.append(availability.estimate(world.availability(name, seed=seed), **SETTINGS))
        tables.append(worked_example.estimate(world.worked_example(name), **SETTINGS))
    return pd.concat(tables, ignore_index=True)


@pytest.fixture(scope="module")
def published():
    return catalogue.load("gathered")


def drawn(module, estimates, titles=None):
    with style.styled():
        figure = module.draw(estimates, titles)
        figure.canvas.draw()
    return figure


def one(estimates, checkpoint="toy", **values):
    """The only row that has these values."""
    rows = estimates[(estimates["checkpoint"] == checkpoint) & (estimates["setting"] == "language")]
    for name, value in {"contrast": None, **values}.items():
        rows = rows[rows[name].isna() if value is None else rows[name] == value]
    (row,) = rows.to_dict("records")
    return row


# -- entry


@pytest.fixture(scope="module")
def entry(estimates):
    return drawn(gathered_entry, estimates, {"toy": "A toy"})


def panels(figure, line=0):
    return figure.subfigs[line].axes


def test_a_line_of_panels_for_each_checkpoint(entry):
    assert [strip.get_suptitle().strip() for strip in entry.subfigs] == ["A toy", "qwen3.6-27b"]
    assert [axes.get_title("left")[0] for axes in panels(entry)] == ["a", "b", "c"]
    assert "24 instances of 8 passages" in [text.get_text() for text in entry.subfigs[0].texts]


def test_profiles_are_the_points_and_their_intervals(entry, estimates):
    axes = panels(entry)[0]
    for line, band, arm in zip(axes.lines, axes.collections, style.ARMS, strict=True):
        rows = estimates.query(
            "checkpoint == 'toy' and experiment == 'visibility' and measure == 'rz' and summary == 'layer' "
            "and method == @arm and setting == 'language' and contrast.isna()"
        ).sort_values("layer")
        assert line.get_xdata().tolist() == rows["layer"].tolist() == list(range(1, world.DEPTH + 1))
        assert line.get_ydata().tolist() == rows["point"].tolist()
        assert set(rows["lo"]) | set(rows["hi"]) == set(band.get_paths()[0].vertices[:, 1])
        assert line.get_color() == style.ARMS[arm]["color"]


def test_effects_stand_at_their_accuracy_gap(entry, estimates):
    axes = panels(entry)[1]
    marks = [container.lines[0] for container in axes.containers]
    assert len(marks) == len(gathered_entry.CONTRASTS) == 5
    for mark, contrast in zip(marks, gathered_entry.CONTRASTS, strict=True):
        pair = {"method": contrast.method, "reference": contrast.reference, "contrast": "difference"}
        x = one(estimates, measure="accuracy", summary="all_layers", **pair)
        y = one(estimates, measure="rz", summary="band_mean", **pair)
        assert (mark.get_xdata()[0], mark.get_ydata()[0]) == (x["point"], y["point"])
        assert mark.get_color() == style.ARMS[contrast.method]["color"]
        low, high = axes.get_xlim()
        assert low < x["lo"] <= x["hi"] < high
    assert len({(mark.get_color(), mark.get_marker()) for mark in marks}) == 5


def test_what_coincides_is_seen_beside_one_another(entry):
    profile, effects, _ = panels(entry)
    solid, *broken = sorted(profile.lines[: len(style.ARMS)], key=lambda line: line.get_linestyle() != "-")
    assert all(line.get_zorder() > solid.get_zorder() for line in broken)
    marks = [container.lines[0] for container in effects.containers]
    above = sorted(marks, key=lambda mark: mark.get_zorder())
    assert [mark.get_markersize() for mark in above] == sorted((m.get_markersize() for m in marks), reverse=True)
    assert len({mark.get_markersize() for mark in marks if mark.get_marker() == "o"}) == 2


def test_what_is_confounded_is_shaded(entry):
    axes = panels(entry)[1]
    ends = [(patch.get_x(), patch.get_x() + patch.get_width()) for patch in axes.patches]
    low, high = axes.get_xlim()
    assert ends == [pytest.approx((low, -0.15)), pytest.approx((0.15, high))]


def test_probes_are_drawn_from_the_floor_to_the_value(entry, estimates):
    axes = panels(entry)[2]
    floor = one(estimates, measure="floor")["point"]
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert set(names) == set(ARMS)
    spans = [line for line in axes.lines if len(line.get_xdata()) == 2 and line.get_linestyle() == "-"]
    for name, span in zip(names, spans, strict=True):
        value = one(estimates, measure="probe", method=name)["point"]
        assert list(span.get_xdata()) == [floor, value]
    for name, container in zip(names, axes.containers, strict=True):
        (segment,) = container.lines[2][0].get_segments()
        spread = one(estimates, measure="spread", method=name)["point"]
        assert segment[1][0] - segment[0][0] == pytest.approx(2 * spread)
    said = [text.get_text() for text in axes.texts]
    assert said == [f"{one(estimates, measure='probe', method=name)['point']:.2f}" for name in names]


# -- across


def test_across_shows_both_contrasts_of_every_checkpoint(estimates):
    figure = drawn(gathered_across, estimates, {"toy": "A toy"})
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["qwen3.6-27b", "A toy"]
    shown = {(round(float(c.lines[0].get_ydata()[0])), c.lines[0].get_marker()): c for c in axes.containers}
    assert len(shown) == 4
    for line, checkpoint in enumerate(reversed(CHECKPOINTS)):
        for contrast in gathered_across.CONTRASTS.values():
            row = one(
                estimates, checkpoint, measure="rz", summary="band_mean", contrast="difference",
                method=contrast.method, reference=contrast.reference,
            )  # fmt: skip
            container = shown[line, style.AGAINST[contrast.reference]]
            assert container.lines[0].get_xdata()[0] == row["point"]
            (segment,) = container.lines[2][0].get_segments()
            assert [segment[0][0], segment[1][0]] == pytest.approx([row["lo"], row["hi"]])


# -- worked example


@pytest.fixture(scope="module")
def example(estimates):
    return drawn(gathered_example, estimates)


def test_ranks_by_layer_the_first_on_top(example):
    axes = panels(example)[0]
    lines = {line.get_color(): line for line in axes.lines if len(line.get_xdata()) == world.DEPTH}
    for arm, look in style.ARMS.items():
        found = lines[look["color"]].get_ydata().tolist()
        assert found == [world.EARLY + 1] * (world.TURN - 1) + [world.RANKS[arm]] * (world.DEPTH - world.TURN + 1)
    low, high = axes.get_ylim()
    assert (low, high) == (world.VOCABULARY, 1)
    assert "alpha" in axes.get_title("left")


def test_tokens_of_every_arm_the_variable_itself_in_bold(example):
    axes = panels(example)[1]
    texts = [(text.get_text(), text.get_fontweight()) for text in axes.texts]
    said = Counter(text for text, _ in texts)
    assert [text for text in said if text.startswith("layer")] == ["layer 7", "layer 8", "layer 9"]
    assert Counter(text for text, weight in texts if weight == "bold") == {"·alpha": 3}
    assert said["·the"] == 3 * (len(ARMS) - 1)
    assert said["\\n"] == said["·U+6F22"] == 3 * len(ARMS)  # a line end, and a letter that the font has not
    assert said[f"rank {world.RANKS['control']}"] == 3


def test_tokens_are_short_and_no_formulas(estimates, recwarn):
    """Code points too; a dollar sign opens no formula."""
    longer = {" the": " internationalisation", " 漢": " 漢字", "alpha": "$alpha$"}
    figure = drawn(gathered_example, estimates.replace({"token": longer}))
    ranks, grid = panels(figure)
    assert {"·internat…", "·U+6F22 U…"} <= {text.get_text() for text in grid.texts}
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in grid.texts if not text.get_text().startswith("layer")]
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))
    assert "“$alpha$”" in ranks.get_title("left")
    assert not recwarn.list


# -- overview


def test_the_overview_shows_a_gate_and_a_window():
    figure = drawn(gathered_overview, None)
    admission, transport = figure.axes
    titles = [axes.get_title("left") for axes in figure.axes]
    assert titles == ["a  admission: a gate decides", "b  transport: attention gathers"]
    full, empty = to_hex(gathered_overview.FULL["color"]), "#ffffff"
    marks = [
        Counter(to_hex(line.get_markerfacecolor()) for line in axes.lines if line.get_marker() == "o"
                and line.get_xdata()[0] == gathered_overview.QUERY)
        for axes in figure.axes
    ]  # fmt: skip
    below = sum(layer < gathered_overview.GATE for layer in range(gathered_overview.DEPTHS))
    assert marks[0] == {empty: below, full: gathered_overview.DEPTHS - below}
    assert marks[1] == {full: len(gathered_overview.WINDOW)}
    attention = to_hex(gathered_overview.ATTENTION["color"])
    arrows = [
        sum(isinstance(patch, FancyArrowPatch) and to_hex(patch.get_edgecolor()) == attention for patch in axes.patches)
        for axes in figure.axes
    ]
    assert arrows == [0, len(gathered_overview.WINDOW) + 1]
    depth = gathered_overview.DEPTHS
    assert all(0.3 < layer / depth < 0.65 for layer in (*gathered_overview.WINDOW, gathered_overview.GATE))
    assert "gate" in [text.get_text() for text in admission.texts]
    assert any("re-derived above" in text.get_text() for text in transport.texts)


# -- what all share


@pytest.mark.parametrize("module", [gathered_entry, gathered_across, gathered_example])
def test_estimates_of_something_else_are_refused_in_one_line(estimates, module):
    for table in (estimates[estimates["measure"] == "chance"], pd.DataFrame(columns=COLUMNS), pd.DataFrame()):
        with pytest.raises(LensproofError, match="the estimates hold no") as caught:
            module.draw(table)
        assert "\n" not in str(caught.value)


def test_a_figure_without_its_other_experiment_is_refused(estimates):
    with pytest.raises(LensproofError, match="the estimates hold no Floor of language"):
        gathered_entry.draw(estimates[estimates["experiment"] == "visibility"])


@pytest.mark.parametrize("module", [gathered_entry, gathered_across, gathered_example])
@pytest.mark.parametrize("count", [1, 3])
def test_any_number_of_checkpoints(estimates, module, count):
    toy = estimates[estimates["checkpoint"] == "toy"]
    figure = drawn(module, pd.concat([toy.assign(checkpoint=f"toy-{index}") for index in range(count)]))
    assert len(figure.subfigs or figure.axes) == (count if module is not gathered_across else 1)


@pytest.mark.parametrize("name", FIGURES["gathered"])
def test_a_caption_says_what_the_estimates_are_of(estimates, name):
    module = importlib.import_module(f"lensproof.figures.gathered_{name}")
    needed = FIGURES["gathered"][name]
    rows = estimates[estimates["experiment"].isin(needed)] if needed else pd.DataFrame(columns=COLUMNS)
    text = captioned(name, module, rows)
    assert text.startswith(f"**{title(name)}.** ")
    assert "{" not in text
    assert publish_string(text, writer="html5", settings_overrides={"halt_level": 2})  # the report includes it
    if needed:
        assert "A toy, qwen3.6-27b" in text
    if name in ("entry", "across"):
        assert all(words in text for words in ("95%", "100 resamples", "instances of"))


def captioned(name, module, rows):
    return captions.of_figure(name, module.CAPTION, rows, {"toy": "A toy"}, getattr(module, "words", None))


@pytest.mark.parametrize(("name", "module"), [("entry", gathered_entry), ("example", gathered_example)])
@pytest.mark.parametrize(
    ("depth", "layers"), [(world.DEPTH, "1, 2, ..., 12."), (16, "1, 2, ..., 12 of 0 to 16."), (None, "1, 2, ..., 12.")]
)
def test_what_is_drawn_by_layer_goes_to_the_models_last(estimates, name, module, depth, layers):
    """Whether that is drawn or not; the caption says which layers are."""
    rows = estimates.assign(depth=depth)
    axes = panels(drawn(module, rows))[0]
    assert axes.get_xticks()[-1] == (depth or world.DEPTH)
    assert "last" not in axes.get_xlabel()
    assert f"Layers drawn: {layers}" in captioned(
        name, module, rows[rows["experiment"].isin(FIGURES["gathered"][name])]
    )


@pytest.mark.parametrize("name", FIGURES["gathered"])
@pytest.mark.parametrize("count", [1, 2])
def test_nothing_lies_outside_the_paper(estimates, name, count):
    """The outermost pixels are white."""
    module, file = importlib.import_module(f"lensproof.figures.gathered_{name}"), io.BytesIO()
    with style.styled():
        module.draw(estimates[estimates["checkpoint"].isin(CHECKPOINTS[:count])]).savefig(file, format="png")
    pixels = imread(io.BytesIO(file.getvalue()))[..., :3]
    assert all((edge == 1).all() for edge in (pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]))


@pytest.mark.parametrize("module", TABLE_MODULES)
def test_tables_name_their_layers_and_sizes(estimates, published, module):
    text = module.markdown(module.tidy(estimates, published), published)
    layers = {"contrasts": "layers 6, 7, ..., 12", "results": "layers 6, 7, ..., 12", "probe": "layers 6, 9"}
    assert layers[module.NAME] in text
    assert "instances of" in text
    assert "{" not in text
    first = text.splitlines()[0]
    assert first.startswith(f"**{module.TITLE}.** ")
    assert publish_string(first, writer="html5", settings_overrides={"halt_level": 2})  # the report includes it
    alone = module.markdown(module.tidy(estimates.assign(over="12"), published), published)
    assert "layer 12" in alone
    assert "layers 12" not in alone


@pytest.mark.parametrize("deficiency", [*DEFICIENCIES, "none"])
def test_arms_are_told_apart_by_colour_alone(deficiency):
    """Marks have no dashes."""
    matrix = np.asarray(DEFICIENCIES.get(deficiency, np.eye(3)))
    looks = list(style.ARMS.values())
    for place, one_look in enumerate(looks):
        for other in looks[:place]:
            gap = np.linalg.norm(np.subtract(*(seen_by(look["color"], matrix) for look in (one_look, other))))
            assert gap > 0.12, (one_look, other)
            assert one_look["linestyle"] != other["linestyle"]


def test_arms_differ_in_greyscale_too():
    shades = [
        0.2126 * r + 0.7152 * g + 0.0722 * b for r, g, b in (to_rgb(look["color"]) for look in style.ARMS.values())
    ]
    assert sorted(style.ARMS) == sorted(ARMS)
    assert min(abs(one - other) for n, one in enumerate(shades) for other in shades[:n]) > 0.03


def test_a_legend_reads_line_by_line():
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], label=str(number)) for number in range(7)]
    shown = [handle.get_label() for handle in by_columns(handles, 4)]
    assert shown == ["0", "4", "1", "5", "2", "6", "3", " "]  # a legend fills its columns one by one


# -- tables


@pytest.mark.parametrize("module", TABLE_MODULES)
def test_tidy_tables_are_as_their_schema_says(estimates, published, root, module):
    table = module.tidy(estimates, published)
    validator = Draft202012Validator(yaml.safe_load((root / "workflow/schemas/table.schema.yaml").read_text()))
    for line in table.astype(object).where(table.notna(), None).to_dict("records"):
        validator.validate({key: getattr(value, "item", lambda value=value: value)() for key, value in line.items()})
    assert set(table["checkpoint"]) == set(CHECKPOINTS)


@pytest.mark.parametrize("module", TABLE_MODULES)
def test_latex_is_balanced_and_has_the_cells_of_the_markdown(estimates, published, module):
    table = module.tidy(estimates, published)
    text, plain = (make(table, published, {"toy": "A_toy & 1%"}) for make in (module.latex, module.markdown))
    assert text.count("{") == text.count("}")
    assert r"A\_toy \& 1\%" in text
    assert rf"\label{{tab:gathered-{module.NAME}}}" in text
    rows = [line for line in text.splitlines() if line.endswith(r"\\")]
    widths = Counter(line.count("|") for line in plain.splitlines() if line.startswith("|"))
    assert len(rows) >= sum(widths.values()) - 2 * text.count(r"\begin{tabular}")


@pytest.mark.parametrize("module", TABLE_MODULES)
def test_other_estimates_are_refused(published, module):
    for table in (pd.DataFrame(columns=COLUMNS), pd.DataFrame()):
        with pytest.raises(LensproofError, match="the estimates hold no"):
            module.tidy(table, published)


def test_contrasts_beside_the_papers_own(estimates, published):
    table = gathered_contrasts.tidy(estimates, published)
    mine = table.query("checkpoint == 'toy' and setting == 'language' and measure == 'rz' and reference == 'control'")
    (row,) = mine[mine["method"] == "flexible"].to_dict("records")
    source = of_contrast(estimates[estimates["checkpoint"] == "toy"], Contrast("flexible", "control"), "rz")
    assert (row["point"], row["lo"], row["hi"]) == (source["point"], source["lo"], source["hi"])
    stated = table[table["published"].notna()].set_index(["method", "reference", "measure"])["published"]
    assert set(table[table["published"].notna()]["checkpoint"]) == {"qwen3.6-27b"}
    assert stated["flexible", "control", "rz"] == 0.0891
    text = gathered_contrasts.markdown(table, published, {"toy": "A toy"})
    ours, theirs = text.split(THEIRS)
    assert f"| A toy | flexible − control | {interval(row)} |" in ours
    assert "Records: language." in ours
    assert "Records: tracking 1swap." in ours
    assert ours.count("supplied − control") == 2  # tracking has no such arm
    assert "| qwen3.6-27b | flexible − supplied | 0.0504 | -0.060 | 0.94 / 1.00 |" in theirs
    assert theirs.count("qwen3.6-27b") == len(gathered_contrasts.CONTRASTS)


def test_results_in_short(estimates, published):
    table = gathered_results.tidy(estimates, published)
    assert len(table) == len(CHECKPOINTS) * len(gathered_results.FINDINGS)
    text = gathered_results.markdown(table, published, {"toy": "A toy"}).splitlines()
    assert text[2] == "| Finding | Measure | Paper | A toy | qwen3.6-27b |"
    (line,) = [line for line in text if line.startswith("| The operator alone raises it |")]
    assert line.split(" | ")[1:3] == ["Δ visibility, supplied − control", "0.0387"]
    (line,) = [line for line in text if line.startswith("| One linear map")]
    lowest = one(estimates, measure="over_floor", method="lowest_arm")
    assert line.split(" | ")[1:4] == ["accuracy over floor, lowest of all arms", "6.4", interval(lowest)]


def test_probes_by_arm_and_between_arms(estimates, published):
    text = gathered_probe.markdown(gathered_probe.tidy(estimates, published), published, {"toy": "A toy"}).splitlines()
    value = one(estimates, measure="probe", method="report")
    line = next(line for line in text if line.startswith("| A toy | language | report |"))
    assert interval(value) in line
    floor = one(estimates, measure="floor")
    assert line.endswith(f"| {interval(floor)} |")
    (head,) = [line for line in text if "Fitted on" in line]
    tested = " | ".join(f"Tested on: {arm}" for arm in style.ARMS)
    assert head == f"| Checkpoint | Records | Fitted on | {tested} |"
    line = next(line for line in text[text.index(head) :] if " | automatic | " in line)
    cells = estimates.query("checkpoint == 'toy' and measure == 'probe' and method == 'report' and contrast.isna()")
    raw, centred = (
        cells[cells["setting"] == f"language:automatic{suffix}"]["point"].item() for suffix in ("", ":centred")
    )
    assert f"{raw:.2f} / {centred:.2f}" in line
    below = text[text.index(head) + 2 :]
    assert sum("| language |" in line for line in below) == estimates["checkpoint"].nunique()  # once for each


# -- catalogue


@pytest.mark.parametrize("paper", PAPERS)
def test_everything_in_the_catalogue_is_there(paper):
    for catalogued, needs in ((FIGURES[paper], ("draw",)), (TABLES[paper], ("tidy", "markdown", "latex"))):
        for name in catalogued:
            module = importlib.import_module(f"lensproof.figures.{paper}_{name}")
            assert all(callable(getattr(module, function)) for function in needs)
            assert title(name)[0].isupper()
    assert not set(FIGURES[paper]) & set(TABLES[paper])
    assert set(ALSO[paper]) <= set(TABLES[paper])
