"""``lensproof read`` from the command line, on a tiny model."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from matplotlib.font_manager import fontManager
from matplotlib.image import imread
from models import tokens

from lensproof.checkpoints.build import build
from lensproof.checkpoints.load import encode, load, load_tokenizer
from lensproof.config import Checkpoint, RandomSource
from lensproof.errors import LensproofError
from lensproof.experiments.prompt import read
from lensproof.figures.reading import draw
from lensproof.figures.style import FONT
from lensproof.frames import typical
from lensproof.lenses import jacobian

PROMPT = "After the rain the children ran"


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A results folder with a tiny Gemma 3, its typical attention and its lens."""
    folder = tmp_path_factory.mktemp("results")
    checkpoint, artifacts = folder / "checkpoints" / "toy", folder / "artifacts" / "toy"
    source = RandomSource(kind="random", architecture="gemma3_text", seed=3)
    entry = Checkpoint(title="A toy", licence="CC0-1.0", layers=4, tied=True, source=source)
    weights = build("toy", entry, checkpoint)["sha256"]
    decoder = load(checkpoint)
    typical.save(artifacts / "typical_attention.safetensors", typical.calibrate(decoder, tokens(4, 20)), {})
    lens = jacobian.fit(decoder, tokens(1, 20), skip=4)
    jacobian.save(artifacts / "jacobian_lens.safetensors", lens, {"weights": weights})
    return folder


def run(results, *arguments):
    command = [sys.executable, "-m", "lensproof", "read", "--results", str(results), *arguments]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.parametrize("lens", ["logit", "jacobian", "lexframe:0", "lexframe:1", "lexframe:2", "native"])
def test_every_lens_reads_the_last_layer_as_the_model_does(results, lens):
    decoder, tokenizer = load(results / "checkpoints/toy"), load_tokenizer(results / "checkpoints/toy")
    ids = encode(tokenizer, PROMPT)
    best = decoder.model(decoder.unembedding.new_tensor([ids]).long()).logits[0].softmax(-1).max(-1)
    table = read(PROMPT, "toy", lens, "all", results, "cpu")
    assert len(table) == (decoder.depth + 1) * len(ids)
    last = table[table["layer"] == decoder.depth].sort_values("position")
    assert last["token"].to_list() == [tokenizer.decode([token]) for token in best.indices]
    assert last["probability"].to_list() == pytest.approx(best.values.tolist(), rel=1e-3)
    if lens == "native":
        assert (table.groupby("position")["token"].nunique() == 1).all()


def test_a_table_in_the_terminal(results):
    done = run(results, "--checkpoint", "toy", "--lens", "lexframe:1", "--layers", "0,2,4", PROMPT)
    assert done.returncode == 0, done.stderr
    assert "toy, lexframe:1" in done.stdout
    assert set(re.findall(r"^ +(\d+) ", done.stdout, re.MULTILINE)) == {"0", "2", "4"}


def test_a_heatmap_from_the_command_line(results, tmp_path):
    done = run(results, "--checkpoint", "toy", "--lens", "logit", "--out", str(tmp_path / "read.png"), PROMPT)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{tmp_path / 'read.png'} written\n"
    assert (tmp_path / "read.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("form", ["pdf", "svg"])
def test_a_heatmap_in_vectors(results, tmp_path, form):
    out = tmp_path / f"read.{form}"
    draw(read(PROMPT, "toy", "logit", "all", results, "cpu"), "toy", out)
    assert out.stat().st_size > 5000


SCRIPTS = ["The", " 中文", "日本語", "한국어", " Ελλάδα", "عربي", "हिन्दी", "🎉"]
SCRIPTS += ["\n", "\x00", " $x_1$", "\ufffd", "\u3000", "  "]


def made_up(layers: int, tokens: list[str]) -> pd.DataFrame:
    """Readings of every token at every layer and position."""
    return pd.DataFrame([
        {"layer": layer, "position": position, "input": token, "token": tokens[(position + layer) % len(tokens)],
         "probability": (position + 1) / (len(tokens) + layer)}
        for layer in range(layers) for position, token in enumerate(tokens)
    ])  # fmt: skip


def texts(file) -> set[str]:
    """What a picture's letters say: SVG names them beside their shapes."""
    return set(re.findall(r"<!-- (.*?) -->", file.read_text()))


@pytest.mark.parametrize("form", ["png", "pdf", "svg"])
@pytest.mark.parametrize("layers", [1, 40])
def test_a_heatmap_of_any_script_draws_without_a_word_of_warning(tmp_path, recwarn, caplog, form, layers):
    draw(made_up(layers, SCRIPTS), "toy 中, logit", tmp_path / f"read.{form}")
    assert not recwarn.list
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("layers", [1, 2, 40])
@pytest.mark.parametrize("tokens", [["The"], SCRIPTS], ids=["one", "many"])
def test_nothing_of_a_heatmap_is_cut_off(tmp_path, layers, tokens):
    """The outermost pixels are white."""
    draw(made_up(layers, tokens), "smollm2-135m, lexframe:1", tmp_path / "read.png")
    pixels = imread(tmp_path / "read.png")[..., :3]
    assert all((edge == 1).all() for edge in (pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]))


def test_a_character_that_no_font_has_is_a_code_point(tmp_path, monkeypatch):
    """U+F0000 is for private use; U+4E2D is drawn as soon as some font has it."""
    table, out = made_up(2, ["\U000f0000", " a\u4e2d"]), tmp_path / "read.svg"
    monkeypatch.setattr(fontManager, "ttflist", [font for font in fontManager.ttflist if font.name == FONT])
    draw(table, "toy", out)
    assert {"U+F0000", "·aU+4E2D"} <= texts(out)
    fontManager.addfont(font_of("\u4e2d", tmp_path / "Han.ttf"))
    draw(table, "toy", out)
    assert {"U+F0000", "·a\u4e2d"} <= texts(out)


def font_of(character: str, file: Path) -> Path:
    """A font that has this character only, a square."""
    pen = TTGlyphPen(None)
    pen.moveTo((0, 0))
    for corner in ((0, 900), (900, 900), (900, 0)):
        pen.lineTo(corner)
    pen.closePath()
    builder = FontBuilder(1000, isTTF=True)
    builder.setupGlyphOrder([".notdef", "square"])
    builder.setupCharacterMap({ord(character): "square"})
    builder.setupGlyf(dict.fromkeys((".notdef", "square"), pen.glyph()))
    builder.setupHorizontalMetrics(dict.fromkeys((".notdef", "square"), (1000, 0)))
    builder.setupHorizontalHeader(ascent=900, descent=-100)
    builder.setupNameTable({"familyName": "Han of the tests", "styleName": "Regular"})
    builder.setupOS2(usWeightClass=400)
    builder.setupPost()
    builder.save(file)
    return file


@pytest.mark.parametrize(
    ("checkpoint", "lens", "layers", "message"),
    [
        ("toy", "tarot", "all", "there is no lens 'tarot': use logit, jacobian"),
        (
            "nope",
            "logit",
            "all",
            "there is no checkpoint 'nope': give the folder of one, or a name in the reg",
        ),
        ("gemma3-270m", "logit", "all", "no checkpoint in"),
        ("toy", "logit", "0,9", "the model has layers 0 to 4"),
        ("toy", "logit", "some", "give `all`, or layers with commas"),
    ],
)
def test_mistakes_are_one_line(results, checkpoint, lens, layers, message):
    with pytest.raises(LensproofError, match=re.escape(message)) as error:
        read(PROMPT, checkpoint, lens, layers, results, "cpu")
    assert "\n" not in str(error.value)


def test_a_mistake_on_the_command_line_leaves_nothing(results, tmp_path):
    out = tmp_path / "read.gif"
    done = run(results, "--checkpoint", "toy", "--lens", "logit", "--out", str(out), PROMPT)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.strip().endswith("its name must end in .pdf, .svg, .png")
    assert len(done.stderr.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_an_artifact_that_is_not_built_says_how_to_build_it(results, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder, words in (
        ("results", "build it with `snakemake --cores 2 results/artifacts/toy/typical_attention.safetensors`"),
        ("elsewhere", "say with --results where it was built"),
    ):
        Path(folder).mkdir()
        Path(folder, "checkpoints").symlink_to(results / "checkpoints")
        with pytest.raises(LensproofError, match=f"{folder}/artifacts/toy/typical_attention.safetensors: {words}"):
            read(PROMPT, "toy", "lexframe:1", "all", Path(folder), "cpu")
