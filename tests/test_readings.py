"""Readings: the norm is applied to the state that is read, ranks come before the softcap, tiles give the same as
whole rows, and observations follow the model (known answers 17, 18 and 20)."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from models import ARCHITECTURES, tiny, tokens

from lensproof.checkpoints.anatomy.decoder import Decoder
from lensproof.checkpoints.anatomy.parts import RMSNorm
from lensproof.errors import LensproofError
from lensproof.experiments.decomposition import Target, best_scale
from lensproof.experiments.readings import observe
from lensproof.frames import typical
from lensproof.lenses import jacobian, reading
from lensproof.streams.trace import residuals


def head(unembedding: torch.Tensor, softcap: float | None = None) -> Decoder:
    """A decoder with no blocks: a unit-gain norm and an output head."""
    norm = RMSNorm(torch.ones(unembedding.shape[1]), 0.0)
    return Decoder("toy", None, [], norm, unembedding, softcap)


def test_the_norm_is_that_of_the_state_that_is_read():
    decoder = head(torch.eye(2))
    torch.testing.assert_close(decoder.final_norm(torch.tensor([1.0, 0.0])), torch.tensor([2.0**0.5, 0.0]))
    torch.testing.assert_close(decoder.coefficients(torch.tensor([1.0, 0.0])), torch.tensor([2.0**0.5, 0.0]))


def test_order_comes_before_the_softcap_and_probability_after():
    """Logits 150 and 200 under a cap of 30: both are 30 in bfloat16, and the second is still the top token."""
    decoder = dataclasses.replace(
        head(torch.tensor([[150.0], [200.0]]).bfloat16(), softcap=30.0), final_norm=lambda x: x
    )
    state = torch.ones(1, 1).bfloat16()
    assert decoder.coefficients(state).tolist() == [[150.0, 200.0]]
    assert decoder.logits(state).bfloat16().tolist() == [[30.0, 30.0]]
    summary = reading.summarise(decoder, state)
    assert summary.top.tolist() == [1]
    assert summary.log_probability.exp().item() == pytest.approx(0.5, abs=1e-3)
    top, probability = reading.likeliest(decoder, state, 2)
    assert top.tolist() == [[1, 0]]  # where probabilities are shown, their order is that before the cap too
    assert probability[0].tolist() == pytest.approx([0.5, 0.5], abs=1e-3)


@pytest.mark.parametrize("softcap", [None, 5.0])
def test_tiles_give_what_whole_rows_give(monkeypatch, softcap):
    monkeypatch.setattr(reading, "ROWS", 7)
    monkeypatch.setattr(reading, "TOKENS", 13)
    generator = torch.Generator().manual_seed(0)
    decoder = head(torch.randn(50, 6, generator=generator), softcap)
    model = torch.randn(4, 6, generator=generator)
    others = torch.randn(3, 4, 6, generator=generator)
    result = reading.compare(decoder, reading.NativeReading.of(decoder, model), others)
    own, logs = decoder.logits(model).log_softmax(-1), decoder.logits(others).log_softmax(-1)
    torch.testing.assert_close(result.kl, (own.exp() * (own - logs)).sum(-1), rtol=1e-5, atol=1e-6)
    assert torch.equal(result.top, logs.argmax(-1))
    torch.testing.assert_close(result.confidence, logs.exp().amax(-1))


def test_very_large_logits_neither_overflow_nor_vanish():
    decoder = dataclasses.replace(head(torch.tensor([[1.0], [-1.0], [0.5]])), final_norm=lambda x: x)
    model = torch.tensor([[2000.0]])
    result = reading.compare(decoder, reading.NativeReading.of(decoder, model), torch.tensor([[[2000.0]], [[-2000.0]]]))
    assert result.kl[:, 0].tolist() == pytest.approx([0.0, 4000.0])


@pytest.mark.parametrize("precision", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("architecture", ["llama", "gemma3_text", "gpt_neox"])
@pytest.mark.parametrize("softcap", [None, 20.0])
@torch.no_grad()
def test_readings_are_float32_whatever_the_precision_of_the_weights(architecture, precision, softcap):
    """The head of a half-precision model against the same weights and states in float32, with logits as large as those
    of trained models."""
    half = dataclasses.replace(tiny(architecture, precision=precision), softcap=softcap)
    half = dataclasses.replace(half, unembedding=half.unembedding * (30 / half.unembedding.float().norm(dim=-1).mean()))
    single = dataclasses.replace(half, unembedding=half.unembedding.float())
    states = residuals(half, tokens(1, 24))[:, 0]
    assert states.dtype == half.unembedding.dtype == precision
    generator, width = torch.Generator().manual_seed(0), half.width
    lens = jacobian.JacobianLens({2: torch.randn(width, width, generator=generator) / width**0.5}, 1)
    found = []
    for decoder, x in ((half, states), (single, states.float())):
        native = reading.NativeReading.of(decoder, x[-1])
        compared = reading.compare(decoder, native, torch.cat((x, lens.transport(x[2], 2)[None])))
        scaled = best_scale(decoder, Target.of([native]), x[2])
        kl = (*compared.kl, *reading.divergences(decoder, x[-1], x[:-1]), scaled.kl)
        found.append((torch.stack(kl), compared.top, compared.confidence, reading.distribution(decoder, x)))
        assert compared.kl[:-2].max() > 0.1
        assert compared.kl[-2].max() < 1e-4  # the model's own state
    (kl, top, *probabilities), (exact, best, *expected) = found
    assert (kl - exact).abs().max() < 1e-4
    assert torch.equal(top, best)
    for ours, theirs in zip(probabilities, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


def test_a_kl_below_0_by_more_than_rounding_is_refused():
    """Rounding grows with the logits; what is not a number stays that, and is refused with the observations."""
    assert reading.at_least_zero(torch.tensor([-5e-4, 2.0]), torch.tensor(10.0)).tolist() == [0.0, 2.0]
    assert reading.at_least_zero(torch.tensor([-5e-3]), torch.tensor(9000.0)).tolist() == [0.0]
    assert reading.at_least_zero(torch.tensor([torch.nan]), torch.tensor(10.0)).isnan().all()
    with pytest.raises(LensproofError, match="a KL of -0.005 nats is below 0 by more than rounding"):
        reading.at_least_zero(torch.tensor([1.0, -5e-3]), torch.tensor(10.0))
    decoder, x = head(torch.randn(50, 6, generator=torch.Generator().manual_seed(0))), torch.ones(2, 6)
    native = reading.NativeReading.of(decoder, x)
    with pytest.raises(LensproofError, match="below 0"):
        reading.compare(decoder, dataclasses.replace(native, expected=native.expected - 1.0), 2.0 - x.cumsum(-1)[None])


@pytest.fixture(params=ARCHITECTURES)
def observed(request):
    decoder, ids = tiny(request.param), tokens(1, 24)[0]
    return decoder, ids, table(decoder, ids)


def table(decoder, ids, orders=(0, 1, 2)):
    fitted = typical.calibrate(decoder, tokens(4, 24, seed=1))
    lens = jacobian.fit(decoder, tokens(1, 24, seed=2), skip=4)
    layers = range(decoder.depth + 1)
    return observe(decoder, ids, orders=orders, layers=layers, typical=fitted, lens=lens)


def test_one_row_for_each_trial(observed):
    decoder, ids, rows = observed
    counts = rows.groupby("method").size().to_dict()
    per_method = (decoder.depth + 1) * len(ids)
    methods = ("logit_lens", "jacobian_lens", "lexframe_0", "lexframe_1", "lexframe_2")
    assert counts == {**dict.fromkeys(methods, per_method), "model": len(ids)}
    assert not rows.duplicated(["method", "layer", "position"]).any()


def test_every_reading_of_the_last_layer_is_the_model(observed):
    decoder, _, rows = observed
    last = rows[rows["layer"] == decoder.depth]
    assert last["kl"].max() < 1e-5
    assert last["agrees"].all()


def test_next_token_and_confidence_are_those_of_the_model(observed):
    decoder, ids, rows = observed
    probabilities = decoder.model(ids[None]).logits[0].softmax(-1).detach()
    own = rows[rows["method"] == "model"].sort_values("position")
    np.testing.assert_allclose(own["confidence"], probabilities.amax(-1), rtol=1e-4)
    right = (probabilities.argmax(-1)[:-1] == ids[1:]).tolist()
    assert own["correct"].to_list()[:-1] == right
    assert own["correct"].isna().to_list() == [False] * 23 + [True]


def test_the_logit_lens_is_norm_and_unembedding_of_the_state(observed):
    decoder, ids, rows = observed
    state = residuals(decoder, ids[None])[2, 0]
    own = decoder.model(ids[None]).logits[0].log_softmax(-1)
    lens = decoder.final_norm(state) @ decoder.unembedding.T
    cap = getattr(decoder.model.config, "final_logit_softcapping", None)  # probabilities are those after it
    lens = (lens if cap is None else cap * torch.tanh(lens / cap)).log_softmax(-1)
    expected = (own.exp() * (own - lens)).sum(-1).detach()
    found = rows[(rows["method"] == "logit_lens") & (rows["layer"] == 2)].sort_values("position")
    np.testing.assert_allclose(found["kl"], expected, rtol=1e-4, atol=1e-5)


def test_observations_depend_on_the_model():
    ids = tokens(1, 24)[0]
    one, other = (table(tiny("llama", seed=seed), ids) for seed in (0, 1))
    for method in ("logit_lens", "jacobian_lens", "lexframe_0", "lexframe_1"):
        a, b = (rows[rows["method"] == method]["kl"].mean() for rows in (one, other))
        assert abs(a - b) > 0.01
