"""What the estimates of all experiments share: the sample of documents, means and the table's rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import yaml
from jsonschema import Draft202012Validator

from lensproof.errors import LensproofError
from lensproof.statistics.bootstrap import resampling_weights, summarise
from lensproof.statistics.means import means
from lensproof.statistics.methods import in_order
from lensproof.statistics.sample import ByLayer, Sample
from lensproof.statistics.table import COLUMNS, contrasted, finish, overall, row

SETTINGS = {"resamples": 100, "level": 0.9, "seed": 3}


@pytest.fixture
def trials() -> pd.DataFrame:
    """Order 1 at layers 0, 1, 2, 3 of L = 3; the lens at layer 1 only. Documents 5, 7, 9 of unequal size."""
    generator = np.random.default_rng(0)
    rows = [
        {"document": document, "layer": layer, "method": method, "value": generator.normal() + document}
        for document, size in ((9, 4), (5, 1), (7, 2))
        for method, layers in (("lexframe_1", (0, 1, 2, 3)), ("logit_lens", (1,)))
        for layer in layers
        for _ in range(size)
    ]
    table = pd.DataFrame(rows).assign(checkpoint="toy")
    return table.assign(weight=generator.random(len(table)), share=table["value"] > 7)


@pytest.fixture
def sample(trials) -> Sample:
    return Sample.of(trials, **SETTINGS)


def written_out(trials: pd.DataFrame, weight: np.ndarray) -> pd.DataFrame:
    """The trials of a resample, each as often as its document was drawn."""
    return trials.loc[trials.index.repeat(trials["document"].map(dict(zip((5, 7, 9), weight, strict=True))))]


def test_means_are_those_of_the_trials_written_out(trials, sample):
    found = means(sample, trials, "value")
    assert list(found) == ["logit_lens", "lexframe_1"]
    assert found["logit_lens"].layers == (1,)
    assert found["lexframe_1"].layers == (0, 1, 2, 3)
    assert found["lexframe_1"].n == (7, 7, 7, 7)
    for draw, weight in enumerate(resampling_weights(3, 100, 3)):
        expected = written_out(trials, weight).groupby(["method", "layer"])["value"].mean()
        assert found["lexframe_1"].draws[draw] == pytest.approx(expected["lexframe_1"].to_numpy())
        assert found["logit_lens"].draws[draw] == pytest.approx(expected["logit_lens"].to_numpy())


def test_weighted_means_and_shares(trials, sample):
    own = trials[(trials["method"] == "lexframe_1") & (trials["layer"] == 2)]
    weighted = means(sample, trials, "value", weight="weight")["lexframe_1"].at([2])
    assert weighted.draws[0] == pytest.approx([np.average(own["value"], weights=own["weight"])])
    assert means(sample, trials, "share")["lexframe_1"].at([2]).draws[0] == pytest.approx([own["share"].mean()])


def test_a_part_of_the_trials_keeps_the_resamples(trials, sample):
    """Where only document 9 has trials, resamples without it are not defined, and the others are its mean."""
    part = trials[trials["document"] == 9]
    values = means(sample, part, "value")["logit_lens"].draws[:, 0]
    drawn = sample.weights[:, 2] > 0
    assert np.isnan(values[~drawn]).all()
    assert (~drawn).any()
    assert values[drawn] == pytest.approx(part[part["method"] == "logit_lens"]["value"].mean())


def test_layer_means_leave_out_the_ends_and_differences_take_common_layers(trials, sample):
    found = means(sample, trials, "value")
    table = finish(sample, "toys", contrasted(sample, "value", "nats", found, depth=3, setting="a", drop=True))
    assert tuple(table.columns) == COLUMNS
    assert set(table["setting"]) == {"a"}
    of_mean = table[table["summary"] == "layer_mean"]
    frame, lens = found["lexframe_1"], found["logit_lens"]
    cases = [
        ("logit_lens", None, lens.draws[:, 0], 1, "nats"),
        ("lexframe_1", None, frame.draws[:, 1:3].mean(axis=1), 2, "nats"),
        ("lexframe_1", "difference", frame.draws[:, 1] - lens.draws[:, 0], 1, "nats"),
        ("lexframe_1", "relative_drop", 1 - frame.draws[:, 1] / lens.draws[:, 0], 1, "share"),
    ]
    assert len(of_mean) == len(cases)
    for (_, own), (method, contrast, draws, layers, unit) in zip(of_mean.iterrows(), cases, strict=True):
        assert own["method"] == method
        assert own["contrast"] == contrast or (contrast is None and pd.isna(own["contrast"]))
        assert own[["point", "lo", "hi"]].tolist() == pytest.approx(list(summarise(draws, 0.9)))
        assert (own["layers"], own["unit"]) == (layers, unit)
    assert of_mean.iloc[3]["numerator"] == pytest.approx(lens.draws[0, 0] - frame.draws[0, 1])


def test_without_a_depth_all_layers_above_the_embedding_count(trials, sample):
    table = finish(sample, "toys", contrasted(sample, "value", "nats", means(sample, trials, "value")))
    means_ = table[(table["summary"] == "layer_mean") & table["contrast"].isna()]
    assert means_["layers"].tolist() == [1, 3]


def test_chosen_pairs(sample):
    draws = np.arange(101.0)[:, None]
    found = {name: ByLayer((1,), factor * draws, (5,)) for name, factor in (("a", 1), ("b", 2), ("c", 4))}
    rows = list(contrasted(sample, "m", "nats", found, pairs=[("a", "c"), ("b", "absent")]))
    pairs = [(r["method"], r["reference"], r["hi"]) for r in rows if r["contrast"]]
    assert pairs == [("a", "c", pytest.approx(-3 * 5.95))]


def test_the_trials_of_a_layer_mean_are_the_fewest(sample):
    found = {"a": ByLayer((1, 2), np.zeros((101, 2)), (5, 3))}
    assert [(r["summary"], r["n"]) for r in contrasted(sample, "m", "nats", found)] == [
        ("layer", 5), ("layer", 3), ("layer_mean", 3)
    ]  # fmt: skip


def test_numbers_of_all_layers_together(sample):
    draws = np.arange(101.0)
    rows = list(overall(sample, "m", "share", {"a": draws, "b": 3 * draws}, n=7, layers=(1, 2)))
    assert [(r["method"], r["reference"], r["contrast"], r["hi"]) for r in rows] == [
        ("a", None, None, pytest.approx(95.05)),
        ("b", None, None, pytest.approx(3 * 95.05)),
        ("b", "a", "difference", pytest.approx(2 * 95.05)),
    ]


@pytest.mark.parametrize(
    ("layers", "said"),
    [
        ((3,), "3"), ((6, 12), "6, 12"), ((1, 2, 5, 9, 10), "1, 2, 5, 9, 10"), ((3, 6, 9, 12), "3, 6, 9, 12"),
        (range(1, 30), "1, 2, ..., 29"), (range(3, 28, 3), "3, 6, ..., 27"),
    ],
)  # fmt: skip
def test_a_number_of_several_layers_says_which(sample, layers, said):
    found = {"a": ByLayer(tuple(layers), np.zeros((101, len(layers))), (5,) * len(layers))}
    rows = [*contrasted(sample, "m", "nats", found), *overall(sample, "m", "share", {"a": np.zeros(101)}, n=1,
                                                              layers=layers)]  # fmt: skip
    assert [row["over"] for row in rows] == [None] * len(layers) + [said, said]
    assert [row["layers"] for row in rows] == [1] * len(layers) + [len(layers)] * 2


def test_rows_match_the_schema(root, trials, sample):
    schema = yaml.safe_load((root / "workflow/schemas/estimates.schema.yaml").read_text())
    found = means(sample, trials, "value")
    rows = [
        *contrasted(sample, "value", "nats", found, depth=3, setting="a", drop=True),
        *overall(sample, "all", "share", {"a": np.zeros(101)}, n=1, layers=(3,)),
        row(sample, "b", np.full(101, np.nan), measure="undefined", unit="ratio", n=1),
    ]
    table = finish(sample, "toys", rows)
    for record in table.astype(object).where(table.notna(), None).to_dict("records"):
        Draft202012Validator(schema).validate(record)


def test_nothing_to_estimate_is_refused(sample):
    with pytest.raises(LensproofError, match="toy: the observations hold nothing that toys estimates"):
        finish(sample, "toys", [])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda trials: trials.drop(columns=["layer", "value"]), "lack layer, value: build them again"),
        (lambda trials: pd.concat([trials, trials.assign(checkpoint="other")]), r"not of 2 \(other, toy\)"),
        (lambda trials: trials[trials["document"] == 5], "toy: observations of at least 2 documents"),
    ],
)
def test_observations_that_make_no_sample_are_refused(trials, damage, message):
    with pytest.raises(LensproofError, match=message) as caught:
        Sample.of(damage(trials), **SETTINGS, needs=["value"])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_value_that_is_not_finite_is_refused(trials, sample, value):
    trials.loc[3, "value"] = value
    with pytest.raises(LensproofError, match="toy: value is not finite in 1 trials, first lexframe_1 at layer 0"):
        means(sample, trials, "value")


def test_methods_stand_as_in_the_papers_tables():
    names = [
        "native_basis", "lexframe_1_basis", "lexframe_1_readout", "lexframe_0", "something_new", "model",
        "fixed_output_basis", "lexframe_1", "logit_lens", "tuned_lens", "jacobian_lens", "native_readout",
    ]  # fmt: skip
    assert in_order(names) == [
        "logit_lens", "tuned_lens", "jacobian_lens", "fixed_output_basis", "something_new", "lexframe_0", "lexframe_1",
        "lexframe_1_readout", "lexframe_1_basis", "native_readout", "native_basis", "model",
    ]  # fmt: skip
