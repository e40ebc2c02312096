"""Composition: moves run on the whole sequence by transformers, directions by hand, the token that gains most by brute
force over the vocabulary."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest
import torch
from models import assert_same, last_states, tiny, tokens
from torch.nn.functional import normalize

from lensproof.experiments import composition
from lensproof.frames import typical
from lensproof.frames.basis import OutputBasis, closed_form, covectors, oriented
from lensproof.frames.frame import frames, jacobians, native_readouts
from lensproof.statistics import composition as statistics
from lensproof.streams.trace import residuals

LENGTH, AT, LAYERS = 20, torch.tensor([3, 14]), [0, 2, 3]
LABELS = torch.tensor([5, 77, 140, 299])
STEP = 0.1
METHODS = [
    "fixed_input_basis", "fixed_output_basis", "lexframe_1_readout", "lexframe_1_basis", "native_readout",
    "native_basis",
]  # fmt: skip
SETTINGS = {"resamples": 100, "level": 0.9, "seed": 4}


@pytest.fixture(params=["llama", "gemma3_text"])
def world(request):
    """A model, the states of a sequence, and what is made of the model."""
    ids = tokens(1, LENGTH)
    decoder = tiny(request.param, window=9).on(ids)
    made = {"typical": typical.calibrate(decoder, tokens(4, LENGTH, seed=1)), "basis": OutputBasis.of(decoder)}
    return decoder, residuals(decoder, ids)[:, 0], made


def composed(world, **changes):
    decoder, states, made = world
    return composition.compose(decoder, states, AT, LABELS, **{"layers": LAYERS, "step": STEP, **made, **changes})


def directions(world, layer, at):
    """Each method's directions ``[C, d]`` at one state, made on their own, the way that their token gains."""
    decoder, states, made = world
    x, at = states[layer, at][None], torch.tensor([at])
    basis, covector = made["basis"](LABELS), covectors(decoder, LABELS)
    order1 = frames(decoder, states, 1, [layer], made["typical"])[layer]
    native = frames(decoder, states, torch.inf, [layer])[layer]
    found = {
        "fixed_input_basis": decoder.embed(LABELS),
        "fixed_output_basis": basis,
        "lexframe_1_readout": order1.readouts(x, at, covector)[0],
        "lexframe_1_basis": closed_form(order1.jacobian(x, at), basis)[0],
        "native_readout": native_readouts(decoder, states, at, covector)[layer, 0],
        "native_basis": closed_form(native.jacobian(x, at), basis)[0],
    }
    return {name: rising(native, x, at, covector, part) for name, part in found.items()}


def rising(frame, x, at, covector, directions, step=1e-3):
    """Each turned so that its token's centred logit rises: by a short move both ways."""
    moves = step * x.norm() * normalize(directions, dim=-1)
    ahead, back = (frame.normed(x + sign * moves, at.expand(len(moves))) for sign in (1, -1))
    return torch.where(((ahead - back) * covector).sum(-1, keepdim=True) < 0, -directions, directions)


def test_one_trial_for_each_state_layer_token_and_method(world):
    found = composed(world)
    assert list(dict.fromkeys(found["method"])) == METHODS
    assert len(found) == len(METHODS) * len(AT) * len(LAYERS) * len(LABELS)
    assert not found.duplicated(["method", "layer", "position", "label"]).any()


@torch.no_grad()
def test_success_is_that_of_the_whole_model(world):
    """Each move run on the whole sequence by transformers; the token whose logit grew most, before any softcap."""
    decoder, states, _ = world
    found = composed(world, step=0.3).set_index(["method", "layer", "position", "label"])["success"]
    assert 0 < found.mean() < 1
    for layer in LAYERS:
        for at in AT.tolist():
            clean = decoder.coefficients(states[-1, at])
            for method, rows in directions(world, layer, at).items():
                for label, direction in zip(LABELS.tolist(), rows, strict=True):
                    changed, x = states[layer].clone(), states[layer, at]
                    changed[at] = x + 0.3 * x.norm() * normalize(direction, dim=0)
                    last = last_states(decoder, tokens(1, LENGTH), layer, changed[None])[0, at]
                    gain = decoder.coefficients(last) - clean
                    best, second = gain.topk(2).values
                    if best - second > 1e-4:  # else rounding decides
                        assert found[method, layer, at, label] == (int(gain.argmax()) == label), (method, layer, at)


def test_which_way_a_direction_is_given_does_not_matter(world):
    """Also where it is the fixed basis, or what order 1 makes of it, that points to where the token loses."""
    made = world[2]
    pd.testing.assert_frame_equal(composed(world), composed(world, basis=lambda labels: -made["basis"](labels)))


def test_a_direction_is_turned_to_where_its_token_gains():
    readouts = torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    found = oriented(torch.tensor([[2.0, 1.0], [-2.0, 1.0], [0.0, 1.0]]), readouts)
    assert found.tolist() == [[2.0, 1.0], [2.0, -1.0], [0.0, 1.0]]


def test_order_1_and_the_whole_model_agree_where_one_block_is_left(world):
    decoder = world[0]
    found = composed(world, layers=[decoder.depth - 1])
    success = {method: own["success"].tolist() for method, own in found.groupby("method")}
    assert success["lexframe_1_readout"] == success["native_readout"]
    assert success["lexframe_1_basis"] == success["native_basis"]


def test_jacobians_of_several_layers_are_those_of_each(world):
    decoder, states, made = world
    several = frames(decoder, states, 1, LAYERS, made["typical"])
    found = jacobians(list(several.values()), states[LAYERS][:, AT], AT, batch=7)
    for layer, matrix in zip(LAYERS, found, strict=True):
        eye = torch.eye(decoder.width)
        assert_same(matrix, several[layer].readouts(states[layer, AT], AT, eye))


def test_how_many_rows_and_tokens_run_at_once_changes_nothing(world, monkeypatch):
    whole = composed(world)
    monkeypatch.setattr(composition, "ROWS", 5)
    monkeypatch.setattr(composition, "TOKENS", 7)
    pd.testing.assert_frame_equal(composed(world), whole)


def test_the_token_that_gains_most_is_found_over_the_whole_vocabulary(monkeypatch):
    """Against brute force; a softcap, which would flatten large gains, plays no part."""
    monkeypatch.setattr(composition, "TOKENS", 16)
    decoder = dataclasses.replace(tiny("llama"), softcap=1e-3)
    change = 1e3 * torch.randn(400, decoder.width, generator=torch.Generator().manual_seed(5))
    best = (change @ decoder.unembedding.T).argmax(-1)
    asked = torch.where(torch.arange(400) % 2 == 0, best, (best + 1) % decoder.vocabulary)
    found = composition.gains_most(decoder, change, asked)
    assert found.tolist() == (asked == best).tolist()


def test_success_is_a_share_of_moves_by_layer_and_in_the_mean_of_layers():
    rows = [(0, 0, 1), (1, 0, 1), (0, 1, 1), (1, 1, 0), (0, 2, 0), (1, 2, 0), (0, 3, 1), (1, 3, 1)]
    table = pd.DataFrame(rows, columns=["document", "layer", "success"]).astype({"success": bool})
    both = pd.concat([table.assign(method="native_basis"), table.assign(method="native_readout", success=False)])
    observations = both.assign(checkpoint="toy", position=1, label=5, depth=3)
    found = statistics.estimate(observations, **SETTINGS)
    own = found[found["reference"].isna() & (found["method"] == "native_basis")]
    assert own.set_index("layer")["point"].to_dict() == pytest.approx({0: 1.0, 1: 0.5, 2: 0.0, 3: 1.0, pd.NA: 0.25})
    (gap,) = found.loc[found["contrast"] == "difference", "point"]
    assert abs(gap) == pytest.approx(0.25)  # layers 1 and 2; 0 is the embedding and 3 the last
    np.testing.assert_array_equal(own["n"], 2)
