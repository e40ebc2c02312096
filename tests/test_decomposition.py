"""Decomposition: the best scale recovered where it is known, KL from whole distributions by hand, transports against
the flow and the model itself."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest
import torch
from models import tiny, tokens

from lensproof.errors import LensproofError
from lensproof.experiments import decomposition
from lensproof.experiments.decomposition import Positions, Target, best_scale
from lensproof.frames import typical
from lensproof.frames.flow import flow
from lensproof.lenses.jacobian import JacobianLens
from lensproof.lenses.reading import NativeReading
from lensproof.statistics import decomposition as statistics
from lensproof.streams.trace import residuals

LENGTH, AT, LAYERS = 20, np.array([3, 8, 14]), [0, 2]
SETTINGS = {"resamples": 100, "level": 0.9, "seed": 4}


@pytest.fixture(params=[None, 2.0], ids=["no cap", "cap"])
def decoder(request):
    return dataclasses.replace(tiny("llama"), softcap=request.param)


@pytest.fixture
def held(decoder):
    """The positions of two sequences."""
    found = []
    for sequence in (0, 1):
        states = residuals(decoder, tokens(1, LENGTH, seed=sequence))[:, 0]
        with torch.no_grad():
            native = NativeReading.of(decoder, states[-1, AT])
        found.append(Positions(10 + sequence, sequence, AT, states[LAYERS][:, AT], native))
    return found


@pytest.fixture
def lens(decoder):
    generator = torch.Generator().manual_seed(3)
    return JacobianLens({layer: torch.randn(decoder.width, decoder.width, generator=generator) for layer in LAYERS}, 1)


def by_hand(decoder, held, vectors, scale):
    """KL(model || softmax(cap(scale * W x))) at every position, from whole distributions in float64."""
    own = torch.cat([decoder.logits(residuals(decoder, tokens(1, LENGTH, seed=p.sequence))[-1, 0, p.at]) for p in held])
    log_p = own.double().log_softmax(-1)
    log_q = decoder.cap(scale * (vectors @ decoder.unembedding.T).double()).log_softmax(-1)
    return (log_p.exp() * (log_p - log_q)).sum(-1)


@torch.no_grad()
@pytest.mark.parametrize("scale", [0.02, 1.0, 30.0, -1.0])
def test_a_scale_that_gives_the_models_own_output_is_found(decoder, held, scale):
    normed = torch.cat([part.native.normed for part in held])
    found = best_scale(decoder, Target.of([part.native for part in held]), normed / scale)
    assert found.scale == pytest.approx(scale, rel=2e-3)
    assert found.kl.max() < 1e-4
    assert torch.equal(found.top, torch.cat([part.native.summary.top for part in held]))


@torch.no_grad()
def test_output_rows_of_fixed_maps_with_their_best_scale_by_hand(decoder, held, lens):
    """KL from whole distributions, and no other scale does better, of either sign."""
    found = pd.concat(list(decomposition.fixed(decoder, held, LAYERS, lens)))
    assert len(found) == 2 * len(LAYERS) * 2 * len(AT)
    for (method, layer), rows in found.groupby(["method", "layer"]):
        assert rows[["document", "sequence", "position"]].to_numpy().tolist() == [
            [10 + sequence, sequence, at] for sequence in (0, 1) for at in AT
        ]
        x = torch.cat([part.x[LAYERS.index(layer)] for part in held])
        vectors = x if method == "output_rows_of_state" else x @ lens.matrices[layer].T
        (scale,) = rows["scale"].unique()
        kl = by_hand(decoder, held, vectors, float(scale))
        np.testing.assert_allclose(rows["kl"], kl, rtol=1e-3, atol=1e-5)
        others = [
            float(by_hand(decoder, held, vectors, float(scale) * by).mean()) for by in (-1, -0.1, 0.1, 0.95, 1.05, 10)
        ]
        assert min(others) >= kl.mean() - 1e-5
        top = torch.cat([part.native.summary.top for part in held])
        assert rows["agrees"].tolist() == ((scale * vectors @ decoder.unembedding.T).argmax(-1) == top).tolist()


@torch.no_grad()
def test_tiles_change_nothing(decoder, held, lens, monkeypatch):
    whole = pd.concat(list(decomposition.fixed(decoder, held, LAYERS, lens)))
    monkeypatch.setattr(decomposition, "TILE", 1)
    pd.testing.assert_frame_equal(pd.concat(list(decomposition.fixed(decoder, held, LAYERS, lens))), whole, rtol=1e-4)


@pytest.mark.parametrize("architecture", ["llama", "gemma3_text"])
def test_transported_coefficients_are_those_of_the_flow_and_of_the_model(architecture):
    ids = tokens(1, LENGTH)
    decoder = tiny(architecture, window=9).on(ids)
    fitted, at = typical.calibrate(decoder, tokens(4, LENGTH, seed=1)), torch.from_numpy(AT)
    states = residuals(decoder, ids)[:, 0]
    layers = [0, 1, decoder.depth - 1, decoder.depth]
    with torch.no_grad():
        native = NativeReading.of(decoder, states[-1, at])
    found = decomposition.transported(decoder, states, at, native, layers, fitted)
    own = found[found["method"] == "native"]
    assert len(own) == len(layers) * len(AT)
    assert own["kl"].max() < 1e-5
    assert own["agrees"].all()
    order1 = found[found["method"] == "lexframe_1"].set_index("layer")
    ((_, cuts, last),) = flow(decoder, states, [1], fitted, layers)
    log_p = decoder.logits(states[-1, at]).double().log_softmax(-1)
    for layer, state in zip(cuts, last[:, at], strict=True):
        log_q = decoder.logits(state).double().log_softmax(-1)
        expected = (log_p.exp() * (log_p - log_q)).sum(-1).detach()
        np.testing.assert_allclose(order1.loc[layer, "kl"], expected, rtol=1e-3, atol=1e-5)
        assert expected.mean() > 1e-3
        assert order1.loc[layer, "agrees"].tolist() == (log_p.argmax(-1) == log_q.argmax(-1)).tolist()
    assert order1.loc[layers[-2:], "kl"].max() < 1e-5  # exact where one block is left, and at the last layer
    assert (found["scale"] == 1).all()


def test_kl_and_top1_are_means_over_positions_of_the_layers_between():
    rows = [(0, 0, 9.0), (1, 0, 9.0), (0, 1, 1.0), (1, 1, 3.0), (0, 2, 4.0), (1, 2, 4.0), (0, 3, 9.0), (1, 3, 9.0)]
    table = pd.DataFrame(rows, columns=["document", "layer", "kl"]).assign(agrees=[True, True, True, False] * 2)
    halved = table.assign(method="native", kl=table["kl"] / 2)
    observations = pd.concat([table.assign(method="output_rows_of_state"), halved]).assign(
        checkpoint="toy", position=1, depth=3
    )
    found = statistics.estimate(observations, **SETTINGS)
    own = found[(found["method"] == "output_rows_of_state") & found["reference"].isna() & found["layer"].isna()]
    assert own.set_index("measure")["point"].to_dict() == pytest.approx({"kl": 3.0, "top1": 0.75})
    by_layer = found[(found["measure"] == "kl") & (found["method"] == "native") & (found["layer"] == 1)]
    assert by_layer["point"].tolist() == [1.0]
    (gap,) = found.loc[(found["measure"] == "kl") & (found["contrast"] == "difference"), "point"]
    assert gap == pytest.approx(-1.5)


def test_a_kl_that_is_not_finite_is_refused():
    observations = pd.DataFrame({
        "checkpoint": "toy", "document": [0, 1], "layer": 1, "method": "native", "position": 1, "kl": [0.0, math.inf],
        "agrees": True, "depth": 3,
    })  # fmt: skip
    with pytest.raises(LensproofError, match="kl is not finite in 1 trials"):
        statistics.estimate(observations, **SETTINGS)
