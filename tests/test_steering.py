"""Steering: the first length that turns a prediction, and what else moves, held against transformers' own run on the
whole sequence; Reach, Side and Clean by hand (known answer 27)."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from models import last_states, tiny, tokens
from torch.nn.functional import normalize

from lensproof.errors import LensproofError
from lensproof.experiments import steering
from lensproof.frames import typical
from lensproof.frames.basis import OutputBasis, closed_form
from lensproof.frames.frame import frames, native_readouts
from lensproof.lenses.jacobian import JacobianLens
from lensproof.statistics import steering as statistics
from lensproof.streams.trace import residuals

LENGTH, AT, LAYERS = 20, torch.tensor([3, 14]), [0, 2, 3]
LENGTHS = np.geomspace(0.01, 1.0, 20)
METHODS = [
    "logit_lens", "jacobian_lens", "lexframe_1_readout", "lexframe_1_basis", "native_readout", "native_basis"
]  # fmt: skip
SETTINGS = {"resamples": 100, "level": 0.9, "seed": 4}


# -- the experiment


@pytest.fixture(params=["llama", "gemma3_text"])
def world(request):
    """A model, the states of a sequence, and what is made of the model."""
    ids = tokens(1, LENGTH)
    decoder = tiny(request.param, window=9).on(ids)
    generator = torch.Generator().manual_seed(3)
    matrices = {layer: torch.randn(decoder.width, decoder.width, generator=generator) for layer in range(decoder.depth)}
    made = {
        "typical": typical.calibrate(decoder, tokens(4, LENGTH, seed=1)),
        "lens": JacobianLens(matrices, 1),
        "basis": OutputBasis.of(decoder),
    }
    return decoder, residuals(decoder, ids)[:, 0], made


def steered(world, lengths=LENGTHS, checked=0):
    decoder, states, made = world
    return steering.steer(decoder, states, AT, layers=LAYERS, lengths=lengths, checked=checked, **made)


def directions(world):
    """(method, layer, place) -> the direction as the method defines it, each made on its own."""
    decoder, states, made = world
    found = {}
    for place, at in enumerate(AT):
        top, runner_up = decoder.coefficients(states[-1, at]).topk(2).indices
        contrast = decoder.unembedding[runner_up] - decoder.unembedding[top]
        targets = made["basis"](torch.stack((runner_up, top)))
        readouts = native_readouts(decoder, states, at[None], contrast[None])
        for layer in LAYERS:
            frame = {
                "lexframe_1": frames(decoder, states, 1, [layer], made["typical"])[layer],
                "native": frames(decoder, states, torch.inf, [layer])[layer],
            }
            found["logit_lens", layer, place] = contrast
            found["jacobian_lens", layer, place] = made["lens"].matrices[layer].T @ contrast
            found["native_readout", layer, place] = readouts[layer, 0, 0]
            x = states[layer, at][None]
            found["lexframe_1_readout", layer, place] = frame["lexframe_1"].readouts(x, at[None], contrast[None])[0, 0]
            for name, own in frame.items():
                u, v = closed_form(own.jacobian(x, at[None]), targets)[0]
                found[f"{name}_basis", layer, place] = u - v
    return found


def in_the_whole_model(decoder, states, layer, at, row):
    """Log-probabilities at one position, by transformers, with one state changed."""
    changed = states[layer].clone()
    changed[at] = row
    with torch.no_grad():
        return decoder.logits(last_states(decoder, tokens(1, LENGTH), layer, changed[None])[0, at]).log_softmax(-1)


def test_one_trial_for_each_prediction_layer_and_method(world):
    found = steered(world)
    assert list(dict.fromkeys(found["method"])) == METHODS
    assert len(found) == len(METHODS) * len(LAYERS) * len(AT)
    assert not found.duplicated(["method", "layer", "position"]).any()
    assert found["reached"].any()
    missing = found[["length", "side", "side_weighted"]].isna()
    assert missing.eq(~found["reached"], axis=0).all(axis=None)


def test_the_first_length_and_its_side_effects_are_those_of_the_whole_model(world):
    """Every length is run on the whole sequence by transformers; the change of each log-probability by hand."""
    decoder, states, _ = world
    found = steered(world).set_index(["method", "layer", "position"])
    tried = directions(world)
    for method, layer, place in tried:
        if method.endswith("_basis"):
            continue  # LSMR's direction is not quite the closed form's
        at = int(AT[place])
        x, unit = states[layer, at], normalize(tried[method, layer, place], dim=0)
        clean = in_the_whole_model(decoder, states, layer, at, x)
        top, runner_up = clean.topk(2).indices
        trial, turned = found.loc[method, layer, at], None
        for length in LENGTHS:
            turned = in_the_whole_model(decoder, states, layer, at, x + float(length) * x.norm() * unit)
            if turned[runner_up] > turned[top]:
                break
        else:
            assert not trial["reached"]
            continue
        assert trial["length"] == pytest.approx(length)
        others = torch.ones(len(clean), dtype=torch.bool)
        others[[int(top), int(runner_up)]] = False
        change, p = (turned - clean).abs()[others], clean.exp()[others]
        assert trial["side"] == pytest.approx(float(change.mean()), rel=1e-3)
        assert trial["side_weighted"] == pytest.approx(float((change * p).sum() / p.sum()), rel=1e-3)


@pytest.fixture
def steps(monkeypatch):
    """Sets the number of LSMR's steps."""
    solve = steering.lsmr
    return lambda count: monkeypatch.setattr(steering, "lsmr", lambda *given: solve(*given, steps=count))


def test_basis_directions_are_the_closed_form_of_each_token_with_its_own_ridge(world, steps):
    """LSMR run to convergence; stopped after two steps it is far off, and the check says so."""
    steps(200)
    checked = steered(world, checked=1).dropna(subset="lsmr_error")
    assert set(checked["method"]) == {"lexframe_1_basis", "native_basis"}
    assert set(checked["position"]) == {int(AT[0])}
    assert (checked["lsmr_error"] < 1e-3).all()
    assert (checked["lsmr_cosine"] > 0.999).all()
    steps(2)
    rough = steered(world, checked=2).dropna(subset="lsmr_error")
    assert len(rough) == 2 * len(checked)
    assert (rough["lsmr_error"] > 0.1).all()


def test_the_error_is_that_of_the_direction_that_is_followed(world, steps):
    """Made one state at a time, without what the experiment shares between frames; before rounding grows."""
    steps(6)
    decoder, states, made = world
    found = steered(world, checked=2).set_index(["method", "layer", "position"])
    exact = directions(world)
    for place, at in enumerate(AT):
        top, runner_up = decoder.coefficients(states[-1, at]).topk(2).indices
        targets = made["basis"](torch.stack((runner_up, top)))
        for layer in LAYERS:
            own = {
                "lexframe_1_basis": frames(decoder, states, 1, [layer], made["typical"])[layer],
                "native_basis": frames(decoder, states, torch.inf, [layer])[layer],
            }
            for method, frame in own.items():
                u, v = steering.lsmr(frame.linearise(states[layer, at][None], at[None]), targets[None])[0]
                goal = exact[method, layer, place]
                trial = found.loc[method, layer, int(at)]
                assert trial["lsmr_error"] == pytest.approx(float((u - v - goal).norm() / goal.norm()), rel=1e-2)
                cosine = float((u - v) @ goal / (u - v).norm() / goal.norm())
                assert trial["lsmr_cosine"] == pytest.approx(cosine, rel=1e-2)


def test_reach_and_first_lengths_do_not_depend_on_the_lengths_beyond(world):
    """Known answer 27: Reach is monotone in the largest allowed step."""
    whole = steered(world)
    reach = []
    for allowed in (4, 11, 20):
        found = steered(world, LENGTHS[:allowed])
        expected = whole["length"] <= LENGTHS[allowed - 1] * (1 + 1e-9)
        assert found["reached"].tolist() == expected.tolist()
        assert found["length"][expected].tolist() == whole["length"][expected].tolist()
        reach.append(found["reached"].mean())
    assert reach == sorted(reach)
    assert reach[0] < reach[-1]


def test_how_many_rows_run_at_once_changes_nothing(world, monkeypatch):
    whole = steered(world)
    monkeypatch.setattr(steering, "ROWS", 1)
    monkeypatch.setattr(steering, "TILE", 1)
    pd.testing.assert_frame_equal(steered(world), whole, rtol=1e-4)


# -- its estimates


def trials(rows) -> pd.DataFrame:
    """(document, method, layer, side effect or None) as observations; the last layer is 4."""
    table = pd.DataFrame(rows, columns=["document", "method", "layer", "side"])
    table["side"] = table["side"].astype(float)
    return table.assign(
        checkpoint="toy", sequence=table["document"], position=1, reached=table["side"].notna(), depth=4,
        side_weighted=2 * table["side"], checked=False, lsmr_error=np.nan, lsmr_cosine=np.nan,
    )  # fmt: skip


def point(estimates, measure, method, layer=None, reference=None, column="point"):
    rows = estimates[(estimates["measure"] == measure) & (estimates["method"] == method)]
    rows = rows[rows["layer"].isna() if layer is None else rows["layer"] == layer]
    rows = rows[rows["reference"].isna() if reference is None else rows["reference"] == reference]
    (value,) = rows[column]
    return value


SIDES = {
    ("logit_lens", 0): [9.0, None],
    ("logit_lens", 1): [0.3, 0.09, None, None],
    ("logit_lens", 2): [0.5, None, None, None],
    ("native_basis", 1): [0.05, 0.03, 0.1, 0.02],
    ("native_basis", 2): [0.05, 0.05, None, 0.1],
}
"""One side effect per document, or None."""


@pytest.fixture
def estimates():
    rows = [(document, *cell, side) for cell, sides in SIDES.items() for document, side in enumerate(sides)]
    return statistics.estimate(trials(rows), **SETTINGS)


def test_reach_and_clean_count_all_tested_predictions(estimates):
    assert point(estimates, "reach", "logit_lens", 1) == 0.5
    assert point(estimates, "reach", "logit_lens") == pytest.approx((0.5 + 0.25) / 2)
    assert point(estimates, "clean", "logit_lens", 1) == 0.25  # 0.09 of four
    assert point(estimates, "clean", "native_basis", 1) == 0.75  # 0.1 itself is not below 0.1
    assert point(estimates, "clean", "native_basis") == pytest.approx((0.75 + 0.5) / 2)
    assert point(estimates, "clean", "native_basis", reference="logit_lens") == pytest.approx(0.625 - 0.125)


def test_side_is_a_mean_over_the_predictions_that_turn(estimates):
    assert point(estimates, "side", "logit_lens", 1) == pytest.approx(0.195)
    assert point(estimates, "side", "logit_lens", 1, column="n") == 2
    # three turn at the layers between, one of them at layer 2
    assert point(estimates, "side", "logit_lens") == pytest.approx((0.3 + 0.09 + 0.5) / 3)
    assert point(estimates, "side_weighted", "logit_lens") == pytest.approx(2 * (0.3 + 0.09 + 0.5) / 3)
    basis = (0.05 + 0.03 + 0.1 + 0.02 + 0.05 + 0.05 + 0.1) / 7
    assert point(estimates, "side", "native_basis", reference="logit_lens") == pytest.approx(basis - 0.89 / 3)


def test_clean_is_at_most_reach_in_every_cell(estimates):
    own = estimates[estimates["reference"].isna()]
    for (method, layer), cell in own.groupby(["method", "layer"], dropna=False):
        values = cell.set_index("measure")["point"]
        assert values["clean"] <= values["reach"], (method, layer)


def test_nothing_that_turns_leaves_reach_and_clean():
    rows = [(document, method, 1, None) for document in range(3) for method in ("logit_lens", "native_basis")]
    found = statistics.estimate(trials(rows), **SETTINGS)
    assert set(found["measure"]) == {"reach", "clean"}
    assert (found["point"] == 0).all()


def test_lsmr_is_judged_on_the_documents_in_which_it_was_checked():
    table = trials([(document, "native_basis", 1, 0.2) for document in range(5)])
    table.loc[[1, 3], "checked"] = True
    table.loc[[1, 3], "lsmr_error"] = [0.2, 0.4]
    table.loc[[1, 3], "lsmr_cosine"] = [0.9, 0.8]
    found = statistics.estimate(table, **SETTINGS)
    assert point(found, "lsmr_error", "native_basis") == pytest.approx(0.3)
    assert point(found, "lsmr_cosine", "native_basis", 1) == pytest.approx(0.85)
    assert point(found, "lsmr_error", "native_basis", column="clusters") == 2
    assert point(found, "reach", "native_basis", column="clusters") == 5
    one = statistics.estimate(table.assign(checked=table["checked"] & (table.index < 2)), **SETTINGS)
    assert "lsmr_error" not in set(one["measure"])  # one document says nothing of how documents vary


@pytest.mark.parametrize("column", ["side", "side_weighted", "lsmr_error", "lsmr_cosine"])
@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_a_value_that_is_not_finite_is_refused(column, value):
    table = trials([(document, "native_basis", 1, 0.2) for document in range(3)])
    table = table.assign(checked=True, lsmr_error=0.1, lsmr_cosine=0.9)
    table.loc[1, column] = value
    with pytest.raises(LensproofError, match=f"{column} is not finite in 1 trials"):
        statistics.estimate(table, **SETTINGS)
