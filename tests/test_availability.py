"""Probes of the latent variable: what they find where it is, and that the floor pays for choosing a layer."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from records_world import ARMS, VALUES, instances
from sklearn.linear_model import LogisticRegression

from lensproof.errors import LensproofError
from lensproof.experiments import availability
from lensproof.statistics import availability as statistics

DEPTH, WIDTH = 16, 12


def run(signal: float = 4.0, count: int = 30, splits: int = 3, arms=ARMS, seed: int = 0, **more):
    """States of noise in which z stands out by ``signal`` standard deviations, in every arm and layer alike."""
    records = instances(count, arms=arms, **more)
    generator = torch.Generator().manual_seed(seed)
    states = torch.randn(len(records), DEPTH + 1, WIDTH, generator=generator)
    for place, record in enumerate(records):
        states[place, :, VALUES.index(record.latent_value)] += signal
    decoder = SimpleNamespace(depth=DEPTH)
    options = {"splits": splits}
    return SimpleNamespace(records=records, states=states, decoder=decoder, options=options, seed=seed, checkpoint="x")


def estimated(observations, **settings):
    table = observations.assign(checkpoint="x", records="language")
    return statistics.estimate(table, **{"resamples": 200, "level": 0.95, "seed": 0, **settings})


def joint(accuracy, floor, classes=8, cases=20):
    """Trials of a joint probe at one layer: arm -> share right in each split, on true and on permuted labels."""
    rows = [
        {"split": split, "permuted": permuted, "method": arm, "instance": f"i{case}", "document": f"p{case}",
         "correct": case < round(share * cases)}
        for permuted, found in ((False, accuracy), (True, floor))
        for arm, shares in found.items()
        for split, share in enumerate(shares)
        for case in range(cases)
    ]  # fmt: skip
    return pd.DataFrame(rows).assign(trained_on="joint", centred=False, layer=9, classes=classes)


def value(estimates, measure, method, setting="language"):
    chosen = estimates[
        (estimates["measure"] == measure) & (estimates["method"] == method) & (estimates["setting"] == setting)
        & estimates["contrast"].isna()
    ]  # fmt: skip
    (row,) = chosen.to_dict("records")
    return row


def test_a_variable_that_is_there_is_decoded_in_every_arm_and_its_permuted_labels_are_not():
    observed = availability.observe(run())
    assert set(observed["classes"]) == {3}
    estimates = estimated(observed)
    floor = value(estimates, "floor", "all_arms")["point"]
    assert 1 / 3 <= floor < 0.65
    for arm in ARMS:
        assert value(estimates, "probe", arm)["point"] > 0.95
        assert value(estimates, "over_floor", arm)["point"] == pytest.approx(
            value(estimates, "probe", arm)["point"] / floor
        )


def test_a_variable_that_is_not_there_is_at_the_floor_which_is_above_chance():
    """Known answer 35: the best of several layers is above chance by choice alone, for score and floor alike."""
    estimates = estimated(availability.observe(run(signal=0.0, count=60, splits=5)))
    floor = value(estimates, "floor", "all_arms")["point"]
    scores = [value(estimates, "probe", arm)["point"] for arm in ARMS]
    assert floor > 1 / 3 + 0.02
    assert abs(np.mean(scores) - floor) < 0.08


def test_permutation_moves_instances_and_not_rows():
    given = run(count=30)
    labels = availability._labels(given.records, np.random.default_rng(1), permuted=True)
    by_instance = {}
    for record, label in zip(given.records, labels, strict=True):
        by_instance.setdefault(record.semantic_instance_id, set()).add(label)
    assert all(len(own) == 1 for own in by_instance.values())
    assert sorted(next(iter(own)) for own in by_instance.values()) == sorted(VALUES * 10)
    assert any(labels != [record.latent_value for record in given.records])


def test_instances_of_one_passage_are_never_on_both_sides():
    given = run(count=30)
    records = [
        type(record)(**{**vars(record), "meta": {"passage": str(int(record.semantic_instance_id[1:]) % 10)}})
        for record in given.records
    ]
    given.records = records
    observed = availability.observe(given)
    for _, rows in observed.groupby("split"):
        held = set(rows["document"])
        assert len(held) == 4  # 40% of 10 passages
        assert set(rows["instance"]) == {r.semantic_instance_id for r in records if r.cluster in held}


def test_transfer_fails_where_arms_hold_the_variable_in_different_places():
    given = run(signal=9.0, arms=("report", "control"))
    for place, record in enumerate(given.records):
        if record.condition == "control":
            given.states[place] = given.states[place].roll(5, -1)
    estimates = estimated(availability.observe(given))
    assert value(estimates, "probe", "report", "language:report")["point"] > 0.95
    assert value(estimates, "probe", "control", "language:report")["point"] < 0.75
    assert value(estimates, "probe", "control")["point"] > 0.95  # one joint map still serves both


def test_centring_takes_out_what_arms_add():
    given = run(signal=9.0, arms=("report", "control"))
    for place, record in enumerate(given.records):
        given.states[place, :, 0] += 20.0 * (record.condition == "control")
    estimates = estimated(availability.observe(given))
    raw = value(estimates, "probe", "control", "language:report")["point"]
    centred = value(estimates, "probe", "control", "language:report:centred")["point"]
    assert centred > 0.85
    assert raw < centred - 0.2


def test_layers_are_fitted_apart_and_agree_with_another_solver():
    generator = torch.Generator().manual_seed(3)
    states = torch.randn(2, 90, 6, generator=generator)
    target = torch.arange(90) % 3
    states[0, torch.arange(90), target] += 1.5
    weight, bias = availability.fit(states, target, 3)
    alone, alone_bias = availability.fit(states[1:], target, 3)
    torch.testing.assert_close(weight[1:], alone, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(bias[1:], alone_bias, rtol=1e-3, atol=1e-4)
    other = LogisticRegression(C=1e4, max_iter=1000).fit(states[0].numpy(), target.numpy())
    ours = (states[0] @ weight[0] + bias[0]).argmax(-1).numpy()
    assert (ours == other.predict(states[0].numpy())).mean() > 0.97


def test_how_far_above_the_floor_every_arm_is():
    accuracy = {"report": (0.9, 1.0), "control": (0.6, 0.7)}
    floor = {"report": (0.2, 0.3), "control": (0.2, 0.1)}
    estimates = estimated(joint(accuracy, floor))
    assert value(estimates, "floor", "all_arms")["point"] == pytest.approx(0.2)
    assert value(estimates, "floor_over_chance", "all_arms")["point"] == pytest.approx(0.2 * 8)
    assert value(estimates, "over_floor", "report")["point"] == pytest.approx(0.95 / 0.2)
    assert value(estimates, "over_floor", "lowest_arm")["point"] == pytest.approx(0.65 / 0.2)
    assert value(estimates, "evenness", "all_arms")["point"] == pytest.approx(0.65 / 0.95)
    spread = 0.1 / 2**0.5  # of two values 0.1 apart, here in every arm, on true and on permuted labels
    assert value(estimates, "spread", "control")["point"] == pytest.approx(spread)
    assert value(estimates, "above_floor_sds", "report")["point"] == pytest.approx(0.75 / spread)
    assert value(estimates, "above_floor_sds", "lowest_arm")["point"] == pytest.approx(0.45 / spread)


def test_what_cannot_be_probed_is_refused():
    with pytest.raises(LensproofError, match="more instances"):
        availability.observe(run(count=3))
    observed = availability.observe(run(splits=2))
    with pytest.raises(LensproofError, match="two splits"):
        estimated(observed[observed["split"] == 0])
    with pytest.raises(LensproofError, match="permuted labels"):
        estimated(observed[~observed["permuted"]])
