"""Figures and tables show the estimates, all of them and nothing else, and come out the same byte for byte."""

from __future__ import annotations

import re
import subprocess
import sys
import zlib
from pathlib import Path
from types import SimpleNamespace

import jinja2
import numpy as np
import pandas as pd
import pytest
import yaml
from docutils.core import publish_parts
from jsonschema import Draft202012Validator
from matplotlib.colors import to_rgb
from synthetic import METHODS, observations, paper_like

from lensproof.claims import catalogue
from lensproof.config import validated
from lensproof.errors import LensproofError
from lensproof.figures import captions, lexframe_fig4, lexframe_table1, style
from lensproof.figures.catalogue import PAPERS
from lensproof.figures.names import method_title, titles
from lensproof.files import read_json, write_parquet
from lensproof.statistics.methods import FIXED, NATIVE
from lensproof.statistics.readings import estimate

PUBLISHED = catalogue.load("lexframe")
SETTINGS = {"resamples": 100, "level": 0.95, "seed": 0}
CHECKPOINTS = ("toy", "smollm3-3b")


@pytest.fixture(scope="module")
def estimates() -> pd.DataFrame:
    """Of two checkpoints, the second named like one of the paper's."""
    trials = (observations(checkpoint=name, seed=seed, positions=20) for seed, name in enumerate(CHECKPOINTS))
    return pd.concat([estimate(table, **SETTINGS) for table in trials], ignore_index=True)


@pytest.fixture(scope="module")
def figure(estimates):
    with style.styled():
        return lexframe_fig4.draw(estimates, {"toy": "A toy"})


# -- figure 4


def test_a_panel_for_each_checkpoint_and_a_line_for_each_method(figure, estimates):
    assert [panel.get_title("left") for panel in figure.axes] == ["A toy", "smollm3-3b"]
    curves = estimates.query("measure == 'kl' and summary == 'layer' and contrast.isna()").sort_values("layer")
    for panel, checkpoint in zip(figure.axes, CHECKPOINTS, strict=True):
        for line, method in zip(panel.lines, METHODS, strict=True):
            rows = curves[(curves["checkpoint"] == checkpoint) & (curves["method"] == method)]
            assert line.get_xdata().tolist() == rows["layer"].tolist()
            assert line.get_ydata().tolist() == rows["point"].tolist()
            assert line.get_color() == style.METHODS[method]["color"]


def test_bands_are_the_intervals(figure, estimates):
    bands = figure.axes[0].collections
    rows = estimates.query(
        "checkpoint == 'toy' and method == 'lexframe_0' and measure == 'kl' and summary == 'layer' and contrast.isna()"
    )
    corners = bands[METHODS.index("lexframe_0")].get_paths()[0].vertices[:, 1]
    assert set(rows["lo"]) | set(rows["hi"]) == set(corners)


def test_zero_is_on_the_logarithmic_axis(figure):
    """A reading that is exact must not fall off the picture."""
    for panel in figure.axes:
        assert panel.get_yscale() == "symlog"
        low, high = panel.get_ylim()
        assert low == 0
        assert 0 in panel.get_yticks()
        assert all(line.get_ydata().min() >= 0 and line.get_ydata().max() < high for line in panel.lines)
        assert {0, 8} <= set(panel.get_xticks())


def test_a_tuned_lens_on_fewer_documents_is_said_so_and_marked(estimates):
    """Above the panels and in the caption, by checkpoint; controls that are not drawn do not count."""
    kl = estimates.query("measure == 'kl' and method == 'logit_lens' and summary == 'layer' and contrast.isna()")
    about = {"experiment": "translators", "setting": "held_out", "n": 12}
    tuned = kl[kl["layer"] == 4].assign(method="tuned_lens", clusters=[4, 2], **about)
    rows = pd.concat([estimates, tuned, tuned.assign(method="random_translator", clusters=1)])
    with style.styled():
        figure = lexframe_fig4.draw(rows, {"toy": "A toy"})
    most = estimates["clusters"].max()
    for panel, count in zip(figure.axes, (4, 2), strict=True):
        notes = [text.get_text().replace("\n", " ") for text in panel.texts]
        assert f"{most} documents, {kl['n'].max()} trials per point (Tuned lens: {count}, 12)" in notes
    marked = [line.get_label() for line in figure.legends[0].get_lines() if line.get_marker() != "None"]
    assert marked == ["Tuned lens"]
    said = captions.of_figure("fig4", lexframe_fig4.CAPTION, rows, {"toy": "A toy"}, lexframe_fig4.words)
    assert f"over {most} documents; Tuned lens: 4 (A toy) and 2 (smollm3-3b). Marks" in said


@pytest.mark.parametrize("count", [1, 2, 3])
def test_any_number_of_checkpoints(estimates, count):
    one = estimates[estimates["checkpoint"] == "toy"]
    tables = [one.assign(checkpoint=f"toy-{index}") for index in range(count)]
    with style.styled():
        assert len(lexframe_fig4.draw(pd.concat(tables)).axes) == count


def test_readings_that_are_all_exact_can_be_drawn():
    def exact(method, layer, layers):
        return {**paper_like(method, layer, layers), "kl": 0.0}

    with style.styled():
        figure = lexframe_fig4.draw(estimate(observations(exact), **SETTINGS))
        figure.canvas.draw()
    assert figure.axes[0].get_ylim()[0] == 0


def test_every_method_that_tables_name_has_a_look():
    assert set(FIXED) | set(NATIVE) | {"lexframe_0", "lexframe_1", "lexframe_2"} <= set(style.METHODS)


def test_one_colour_for_each_method_that_colour_blind_readers_can_tell():
    """Every pair differs in lightness or in dashes."""
    shades = {name: 0.2126 * r + 0.7152 * g + 0.0722 * b for name, (r, g, b) in
              ((name, to_rgb(look["color"])) for name, look in style.METHODS.items())}  # fmt: skip
    looks = style.METHODS
    for first in looks:
        for second in looks:
            if first < second:
                dashes = looks[first]["linestyle"] != looks[second]["linestyle"]
                assert looks[first]["color"] != looks[second]["color"]
                assert dashes or abs(shades[first] - shades[second]) > 0.06, (first, second)


# -- table 1


def test_tidy_table_holds_the_estimates(estimates, root):
    table = lexframe_table1.tidy(estimates, PUBLISHED)
    assert tuple(table.columns[:7]) == ("checkpoint", "method", "measure", "point", "lo", "hi", "n")
    assert len(table) == len(CHECKPOINTS) * (3 * len(METHODS) + 1)
    means = estimates[(estimates["summary"] == "layer_mean") & estimates["contrast"].isna()]
    for row in table[table["method"] != "model"].itertuples():
        source = means.query("checkpoint == @row.checkpoint and method == @row.method and measure == @row.measure")
        assert source[["point", "lo", "hi", "n"]].to_numpy().tolist() == [[row.point, row.lo, row.hi, row.n]]
    validator = Draft202012Validator(yaml.safe_load((root / "workflow/schemas/table.schema.yaml").read_text()))
    for row in table.astype(object).where(table.notna(), None).to_dict("records"):
        validator.validate({key: getattr(value, "item", lambda value=value: value)() for key, value in row.items()})


def test_published_values_stand_beside_the_papers_checkpoints_only(estimates):
    table = lexframe_table1.tidy(estimates, PUBLISHED).set_index(["checkpoint", "method", "measure"])["published"]
    assert table["toy"].isna().all()
    assert table["smollm3-3b", "lexframe_1", "kl"] == 0.16
    assert table["smollm3-3b", "model", "ece"] == 0.018


def test_markdown_shows_both_blocks(estimates):
    table = lexframe_table1.tidy(estimates, PUBLISHED)
    text = lexframe_table1.markdown(table, PUBLISHED, {"toy": "A toy"})
    ours, theirs = text.split("The paper's own values")
    row = table.query("checkpoint == 'toy' and method == 'lexframe_1' and measure == 'kl'").iloc[0]
    assert f"| LexFrame[1] | {row['point']:.3f} [{row['lo']:.3f}, {row['hi']:.3f}] |" in ours
    assert "A toy: KL (nats) | A toy: Top-1 | A toy: ECE | SmolLM3-3B: KL (nats)" in ours
    assert "| LexFrame[1] | 0.16 | 0.86 | 0.027 | 0.15 | 0.86 | 0.018 |" in theirs
    assert "| Model itself |  |  | 0.018 |  |  | 0.023 |" in theirs
    for block in (ours, theirs):
        widths = {line.count("|") for line in block.splitlines() if line.startswith("|")}
        assert widths == {8}


def test_latex_is_balanced_and_escaped(estimates):
    text = lexframe_table1.latex(lexframe_table1.tidy(estimates, PUBLISHED), PUBLISHED, {"toy": "A_toy & 1%"})
    assert r"A\_toy \& 1\%" in text
    assert text.count(r"\begin{tabular}{lrrrrrr}") == text.count(r"\end{tabular}") == 2
    assert text.count("{") == text.count("}")
    rows = [line for line in text.splitlines() if line.startswith(("Logit", "Jacobian", "LexFrame", "Model"))]
    assert len(rows) == 2 * (len(METHODS) + 1)
    assert all(line.count(" & ") == 6 and line.endswith(r"\\") for line in rows)


def test_titles():
    assert [method_title(name) for name in ("logit_lens", "lexframe_2", "model")] == [
        "Logit lens", "LexFrame[2]", "Model itself"
    ]  # fmt: skip
    assert titles(["toy=A=B", "b=c"]) == {"toy": "A=B", "b": "c"}
    with pytest.raises(LensproofError, match="CHECKPOINT=TEXT"):
        titles(["toy"])


# -- commands and files


def lensproof(*arguments, cwd=None) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "lensproof", *map(str, arguments)], capture_output=True, text=True, cwd=cwd
    )


@pytest.fixture(scope="module")
def drawn(tmp_path_factory, estimates) -> Path:
    """A folder with the figure and the table, drawn twice."""
    folder = tmp_path_factory.mktemp("drawn")
    files = []
    for name in CHECKPOINTS:
        files.append(folder / f"{name}.parquet")
        write_parquet(files[-1], estimates[estimates["checkpoint"] == name], {})
    for run in ("first", "second"):
        done = lensproof(
            "figure", "lexframe", "fig4", *files, "--title", "toy=A toy", "--out", folder / run / "fig4.pdf"
        )
        assert (done.returncode, done.stderr) == (0, "")
        done = lensproof("table", "lexframe", "table1", *files, "--out", folder / run / "table1.csv")
        assert (done.returncode, done.stderr) == (0, "")
    return folder


def test_files_are_the_same_byte_for_byte(drawn):
    names = {path.name for path in (drawn / "first").iterdir()}
    assert names == {f"fig4.{form}" for form in ("pdf", "svg", "png", "md", "provenance.json")} | {
        f"table1.{form}" for form in ("csv", "md", "tex", "provenance.json")
    }
    for name in names - {"fig4.provenance.json", "table1.provenance.json"}:
        assert (drawn / "first" / name).read_bytes() == (drawn / "second" / name).read_bytes(), name


def test_pdf_embeds_its_fonts_and_no_date(drawn):
    pdf = (drawn / "first/fig4.pdf").read_bytes()
    streams = re.findall(rb"stream\r?\n(.*?)endstream", pdf, re.DOTALL)
    text = pdf + b"".join(zlib.decompress(part) for part in streams if part[:1] == b"x")
    assert b"/FontFile2" in text  # an embedded TrueType font
    assert b"/Type3" not in text
    assert b"CreationDate" not in text
    svg = (drawn / "first/fig4.svg").read_text()
    assert "<dc:date>" not in svg
    assert "<image" not in svg  # lines and not pixels


def test_picture_is_not_blank(drawn):
    from matplotlib.image import imread

    pixels = imread(drawn / "first/fig4.png")[..., :3]
    for look in (style.METHODS[name] for name in METHODS):
        assert (np.abs(pixels - to_rgb(look["color"])).max(axis=-1) < 0.02).sum() > 100


def test_provenance_names_the_estimates(drawn):
    for name, step in (("fig4", "figure"), ("table1", "table")):
        provenance = read_json(drawn / f"first/{name}.provenance.json")
        assert provenance["step"] == step
        assert set(provenance["inputs"]) == set(CHECKPOINTS)


def test_bad_input_is_one_line_and_leaves_nothing(drawn, tmp_path, estimates):
    empty = tmp_path / "empty.parquet"
    write_parquet(empty, estimates[estimates["measure"] == "accuracy"], {})
    cases = [
        (["figure", "lexframe", "fig0", empty], "there is no figure 'fig0': use one of fig1, fig2, "),
        (["table", "lexframe", "table0", empty], "there is no table 'table0': use one of table1, "),
        (["figure", "lexframe", "fig4", empty], "no KL by layer"),
        (["table", "lexframe", "table1", empty], "the estimates hold nothing of Table 1"),
        (["figure", "lexframe", "fig4", tmp_path / "absent.parquet"], "does not exist"),
    ]
    for arguments, message in cases:
        done = lensproof(*arguments, "--out", tmp_path / ("out.pdf" if arguments[0] == "figure" else "out.csv"))
        assert done.returncode == 2
        assert len(done.stderr.strip().splitlines()) == 1
        assert message in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["empty.parquet"]


def test_no_torch_to_draw(drawn):
    script = (
        "import sys; from lensproof.cli import cli\n"
        "cli.main(['figure', 'lexframe', 'fig4', 'toy.parquet', '--out', 'again/fig4.pdf'], standalone_mode=False)\n"
        "cli.main(['table', 'lexframe', 'table1', 'toy.parquet', '--out', 'again/t.csv'], standalone_mode=False)\n"
        "assert not {'torch', 'transformers', 'matplotlib.pyplot'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=drawn, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# -- captions


@pytest.mark.parametrize("paper", PAPERS)
@pytest.mark.parametrize("name", ["item", "workflow"])
@pytest.mark.parametrize("level", ["smoke", "desk", "paper"])
def test_captions_of_the_report_follow_the_configuration(root, tmp_path, monkeypatch, name, level, paper):
    """An item's is the first line of the Markdown file that stands beside it."""
    monkeypatch.chdir(tmp_path)
    config = yaml.safe_load((root / "config.yaml").read_text())
    validated(config)
    config["level"] = level
    source = (root / f"workflow/report/{name}.rst").read_text()
    Path("made.md").write_text("**Figure 4.** KL(model \N{DOUBLE VERTICAL LINE} reading).\n\n| a | b |\n")
    of_gathered = name == "item" and paper == "gathered"
    for kind, output in (("figure", {"caption": "made.md"}), ("table", {"md": "made.md", "csv": "made.csv"})):
        output = SimpleNamespace(**output, get=output.get)  # as Snakemake names what a rule made
        params = SimpleNamespace(paper=paper, name="fig4")
        snakemake = SimpleNamespace(config=config, params=params, output=output)
        text = jinja2.Environment(undefined=jinja2.StrictUndefined).from_string(source).render(snakemake=snakemake)
        page = publish_parts(text, writer="html5", settings_overrides={"halt_level": 2})["body"]
        if name == "workflow":
            assert "SmolLM2-135M-Instruct, Gemma 3 270M" in page
            assert "Planted gather, Planted gate" in page
        else:
            assert "<strong>Figure 4.</strong> KL(model \N{DOUBLE VERTICAL LINE} reading)." in page
            assert "| a" not in page
            assert ("published" in page) == (kind == "table")
        assert (("Few instances" if of_gathered else "Tiny random models") in page) == (level == "smoke")
        assert ("Small models in place" in page) == (level == "desk")
        assert ("an adapter that taught them" in page) == (level == "desk" and of_gathered)


def test_every_item_of_the_report_has_the_caption_that_stands_beside_it(root):
    rules = (root / "workflow/rules/figures.smk").read_text()
    assert re.findall(r"caption=\"(.*?)\"", rules) == ["../report/item.rst"] * 2
    assert {path.name for path in (root / "workflow/report").iterdir()} == {"item.rst", "workflow.rst"}
