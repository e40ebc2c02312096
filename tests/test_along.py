"""Readings along training and in long contexts, models before training, and example prefixes."""

from __future__ import annotations

import io
import json

import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib.collections import LineCollection
from models import assert_same, tiny, tokens

from lensproof.checkpoints.build import build
from lensproof.checkpoints.load import load
from lensproof.config import Checkpoint
from lensproof.errors import LensproofError
from lensproof.experiments import examples, long_context
from lensproof.figures import captions, lexframe_fig6, style
from lensproof.frames import typical
from lensproof.frames.flow import flow
from lensproof.lenses import jacobian
from lensproof.statistics import long_context as long_statistics
from lensproof.statistics import training as training_statistics
from lensproof.streams.trace import residuals

RANDOM = {"kind": "random", "architecture": "llama", "layers": 2, "tied": True, "seed": 3}


def entry(source):
    return Checkpoint(title="t", licence="l", layers=2, tied=True, source=source)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoints") / "trained"
    build("trained", entry(RANDOM), folder)
    return folder


def test_a_model_before_training_has_the_shape_but_not_the_weights(trained, tmp_path):
    build("initial", entry({"kind": "initial", "of": "trained", "seed": 1}), tmp_path / "initial", base=trained)
    build("again", entry({"kind": "initial", "of": "trained", "seed": 1}), tmp_path / "again", base=trained)
    build("other", entry({"kind": "initial", "of": "trained", "seed": 2}), tmp_path / "other", base=trained)
    models = {name: load(tmp_path / name) for name in ("initial", "again", "other")}
    assert torch.equal(models["initial"].unembedding, models["again"].unembedding)
    assert not torch.equal(models["initial"].unembedding, models["other"].unembedding)
    assert models["initial"].unembedding.shape == load(trained).unembedding.shape
    assert (models["initial"].blocks[0].attention_norm.gain == 1).all()  # as before any training
    assert not (load(trained).blocks[0].attention_norm.gain == 1).all()
    assert (tmp_path / "initial" / "tokenizer.json").read_bytes() == (trained / "tokenizer.json").read_bytes()


def test_a_model_before_training_needs_the_trained_one(tmp_path):
    with pytest.raises(LensproofError, match="--base"):
        build("initial", entry({"kind": "initial", "of": "trained"}), tmp_path / "initial")
    with pytest.raises(LensproofError, match="no checkpoint in"):
        build("initial", entry({"kind": "initial", "of": "trained"}), tmp_path / "initial", base=tmp_path / "none")
    assert not (tmp_path / "initial").exists()


def test_pieces_of_a_long_sequence():
    ids = torch.arange(20)
    assert [piece.tolist() for piece in long_context.cut(ids, 8, bos=False)] == [list(range(8)), list(range(8, 16))]
    first, second = long_context.cut(ids, 8, bos=True)
    assert first.tolist() == [0, *range(1, 8)]
    assert second.tolist() == [0, *range(8, 15)]


def test_some_positions_of_a_long_sequence_read_as_all_of_them():
    decoder, ids = tiny("gemma3_text"), tokens(1, 48)[0]
    stand = typical.calibrate(decoder, tokens(4, 48, seed=1))
    settings = {"layers": [0, 2], "orders": [0, 1]}
    few, all_ = (
        long_context.read(decoder, ids, FakeRun({**settings, "stride": stride}), stand) for stride in (6, 1)
    )  # fmt: skip
    assert sorted(set(few["position"])) == [5, 11, 17, 23, 29, 35, 41, 47]
    keys = ["method", "layer", "position"]
    joined = few.merge(all_, on=keys)
    assert len(joined) == len(few) == 3 * 2 * 8
    assert np.allclose(joined["kl_x"], joined["kl_y"], rtol=1e-3, atol=1e-6)


class FakeRun:
    def __init__(self, options):
        self.options, self.layers = options, options["layers"]


def trials(kl, checkpoint="toy", documents=6, **more):
    """Positions 0 to 9 of each document at layers 0 to 4, order 1 with the given KL at layers 1 to 3."""
    rows = [
        {"checkpoint": checkpoint, "document": document, "position": position, "layer": layer, "method": method,
         "kl": 0.0 if layer == 4 else kl(document, position) * (1 if method == "lexframe_1" else 10),
         "agrees": True, "depth": 4, **more}
        for document in range(documents) for position in range(10) for layer in range(5)
        for method in ("logit_lens", "lexframe_1")
    ]  # fmt: skip
    return pd.DataFrame(rows)


def one(table, **wanted):
    for name, value in wanted.items():
        table = table[table[name].isna() if value is None else table[name] == value]
    return table["point"].item()


def test_a_series_is_contrasted_end_to_start_on_the_same_documents():
    series = [trials(lambda d, p, more=more: d + more, name) for name, more in (("a", 1.0), ("b", 1.5), ("c", 3.0))]
    table = training_statistics.estimate(pd.concat(series), resamples=200, level=0.95, seed=0)
    assert set(table["checkpoint"]) == {"c"}
    assert list(dict.fromkeys(table["setting"]))[:3] == ["a", "b", "c"]
    mean = {"measure": "kl", "method": "lexframe_1", "summary": "layer_mean", "contrast": None}
    assert one(table, setting="a", **mean) == pytest.approx(3.5)
    assert one(table, setting="b", **mean) == pytest.approx(4.0)
    change = table[(table["setting"] == "trained_minus_initial") & (table["method"] == "lexframe_1")]
    row = change[change["measure"] == "kl"].iloc[0]
    assert row[["point", "lo", "hi"]].tolist() == pytest.approx([2.0, 2.0, 2.0])  # paired: documents do not matter


def test_figure_6_draws_intervals_from_end_to_end():
    """Also where the point lies outside its interval, as one of a correlation or a root may."""
    rows = [
        {"checkpoint": "toy", "setting": name, "method": "lexframe_1", "measure": measure, "summary": "layer_mean",
         "contrast": None, "point": point, "lo": 0.5, "hi": 0.75, "clusters": 4, "over": "1, 2"}
        for measure in ("kl", "top1") for name, point in (("early", 0.25), ("late", 0.625), ("last", 0.9))
    ]  # fmt: skip
    with style.styled():
        figure = lexframe_fig6.draw(pd.DataFrame(rows), {"toy": "A toy"})
    for panel in figure.axes:
        (intervals,) = (part for part in panel.collections if isinstance(part, LineCollection))
        assert [part[:, 1].tolist() for part in intervals.get_segments()] == [[0.5, 0.75]] * 3
        assert panel.lines[0].get_ydata().tolist() == [0.25, 0.625, 0.9]


@pytest.mark.parametrize(("least", "strip", "words"), [(0.01, False, 0), (2e-4, True, 1), (1e-5, True, 0)])
def test_nothing_stands_upon_the_words_in_the_strip_of_figure_6(least, strip, words):
    """They are there where there is room, and the caption names the strip in any case."""
    rows = pd.DataFrame([
        {"checkpoint": "toy", "setting": name, "method": method, "measure": measure, "summary": "layer_mean",
         "contrast": None, "point": point, "lo": low, "hi": 0.75, "n": 4, "clusters": 4, "over": "12", "level": 0.95,
         "resamples": 100}
        for measure in ("kl", "top1") for name in ("early", "late")
        for method, point, low in (
            ("lexframe_1", 0.5, 0.4), ("lexframe_2", least, 0.0 if (name, least) == ("late", 2e-4) else least)
        )
    ])  # fmt: skip
    with style.styled():
        figure = lexframe_fig6.draw(rows, {"toy": "A toy"})
        figure.savefig(io.BytesIO())
    top = figure.axes[0]
    found = [text for text in top.texts if "linear" in text.get_text()]
    assert len(found) == words
    for text in found:
        box = text.get_window_extent()
        points = np.concatenate([top.transData.transform(line.get_xydata()) for line in top.lines])
        assert not any(box.contains(*point) for point in points)
    said = captions.of_figure("fig6", lexframe_fig6.CAPTION, rows, words=lexframe_fig6.words)
    assert ("shaded strip" in said) is strip
    assert "at layer 12, with" in said
    assert "4 documents, at layer 12" in [text.get_text() for text in top.texts]


@pytest.mark.parametrize("estimate", [long_statistics.estimate, training_statistics.estimate])
@pytest.mark.parametrize("layers", [range(5), range(4)])
def test_layer_means_leave_out_layer_L_and_nothing_below_it(estimate, layers):
    """Whether or not layer L was read, and however small the KL at the highest layer below it."""
    table = pd.concat([trials(lambda d, p: 1.0, name, length=10) for name in "ab"])
    table.loc[table["layer"] == 3, "kl"] = 0.0
    table = table[table["layer"].isin(layers)]
    if estimate is long_statistics.estimate:
        table = table[table["checkpoint"] == "a"]
    found = estimate(table, resamples=200, level=0.95, seed=0)
    mean = {"measure": "kl", "method": "lexframe_1", "summary": "layer_mean", "contrast": None}
    setting = "10" if estimate is long_statistics.estimate else "a"
    assert one(found, setting=setting, **mean) == pytest.approx(2 / 3)  # layers 1 to 3


def test_a_series_of_one_is_refused():
    with pytest.raises(LensproofError, match="two checkpoints or more"):
        training_statistics.estimate(trials(lambda d, p: 1.0), resamples=200, level=0.95, seed=0)


def test_long_and_short_sequences_are_compared_as_a_whole_and_by_position():
    long = trials(lambda d, p: 1.0 + p, length=10)
    short = trials(lambda d, p: 1.0, length=5)
    short = short[short["position"] < 5]
    table = long_statistics.estimate(pd.concat([long, short]), resamples=200, level=0.95, seed=0)
    mean = {"measure": "kl", "method": "lexframe_1", "summary": "layer_mean", "contrast": None}
    assert one(table, setting="10", **mean) == pytest.approx(5.5)
    assert one(table, setting="5", **mean) == pytest.approx(1.0)
    assert one(table, setting="10_minus_5", **mean) == pytest.approx(4.5)
    assert one(table, setting="late_minus_early", **mean) == pytest.approx(5.0)
    assert one(table, setting="10:0-0", **mean) == pytest.approx(1.0)
    assert one(table, setting="10:7-9", **mean) == pytest.approx(9.0)


def test_examples_are_read_at_the_last_position():
    decoder = tiny("llama")
    ids = tokens(1, 12)[0]
    stand = typical.calibrate(decoder, tokens(4, 12, seed=1))
    lens = jacobian.fit(decoder, tokens(1, 12, seed=2), skip=2)
    found = {
        (method, layer): x for method, layer, x in examples.last_states(decoder, ids, [0, 2], [1], stand, lens)
    }  # fmt: skip
    states = residuals(decoder, ids[None])[:, 0]
    assert_same(found["model", decoder.depth], states[-1, -1])
    assert_same(found["logit_lens", 2], states[2, -1])
    assert_same(found["jacobian_lens", 0], lens.transport(states[0, -1], 0))
    ((_, cuts, last),) = flow(decoder, states, [1], stand, [0, 2])
    for cut, state in zip(cuts, last, strict=True):
        assert_same(found["lexframe_1", cut], state[-1])


def test_lengths_that_do_not_divide_are_refused(root):
    import yaml

    from lensproof.config import validated

    config = yaml.safe_load((root / "config.yaml").read_text())
    config["experiments"]["long_context"]["long"] = 1000
    with pytest.raises(LensproofError, match="must be a multiple of sequence_length .128."):
        validated(json.loads(json.dumps(config)))
