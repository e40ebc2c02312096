"""The tuned lens: a translator's gradient, what training does, controls, files (and readings through it)."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from models import assert_same, tiny, tokens
from sklearn.linear_model import Ridge

from lensproof.errors import LensproofError
from lensproof.experiments import translators as experiment
from lensproof.lenses import tuned
from lensproof.lenses.reading import NativeReading, compare
from lensproof.lenses.ridge import RIDGES
from lensproof.statistics import translators as statistics
from lensproof.streams.trace import residuals

LENGTH = 24


@pytest.fixture(scope="module")
def decoder():
    return tiny("llama")


@pytest.fixture(scope="module")
def text():
    return tokens(12, LENGTH, seed=4)


@pytest.fixture(scope="module")
def lens(decoder, text):
    return tuned.fit(decoder, text, [0, 2], batch=32, rate=0.02, epochs=6)


def mean_kl(decoder, translator, layer, ids):
    states = residuals(decoder, ids)
    found = [
        compare(decoder, NativeReading.of(decoder, states[-1, row]), translator(states[layer, row])[None]).kl.mean()
        for row in range(len(ids))
    ]
    return torch.stack(found).mean().item()


def test_the_start_is_the_ridge_regression_of_the_last_state(decoder, text):
    states, last = tuned.collect(decoder, text, [1])
    begin = tuned.start(states[0], last)
    x, y = states[0].flatten(0, 1).double(), last.flatten(0, 1).double()
    trace = (x - x.mean(0)).square().sum().item()
    found = [
        Ridge(alpha=ridge * trace / x.shape[1]).fit(x.numpy(), y.numpy()).coef_ for ridge in RIDGES.tolist()
    ]  # fmt: skip
    closest = min(np.linalg.norm(coefficients - begin.weight.numpy()) for coefficients in found)
    assert closest < 1e-4 * np.linalg.norm(begin.weight.numpy())


def test_training_brings_the_reading_closer_than_its_start_and_the_controls(decoder, text, lens):
    for layer in lens.layers:
        trained, start, same, knows_nothing = (
            mean_kl(decoder, translator, layer, text)
            for translator in (
                lens.trained[layer], lens.start[layer], tuned.identity(decoder.width), tuned.random(decoder.width, 0)
            )
        )  # fmt: skip
        assert trained < 0.9 * start
        assert start < same
        assert start < knows_nothing


def test_one_step_goes_down_the_gradient_of_the_mean_divergence(decoder, text):
    """Adam's first step has the sign of the gradient, entry by entry; the gradient is that of KL by its definition."""
    states, last = tuned.collect(decoder, text[:2], [1])
    x, last = states.flatten(1, 2), last.flatten(0, 1)
    begin = tuned.identity(decoder.width)
    (after,) = tuned.train(decoder, x, last, [begin], batch=len(last), rate=1e-3)
    weight = begin.weight.clone().requires_grad_()
    p = decoder.logits(last).log_softmax(-1)
    q = decoder.logits(x[0] @ weight.T).log_softmax(-1)
    (gradient,) = torch.autograd.grad((p.exp() * (p - q)).sum(-1).mean(), weight)
    large = gradient.abs() > 1e-3 * gradient.abs().max()
    assert large.sum() > 100
    assert torch.equal((after.weight - begin.weight).sign()[large], -gradient.sign()[large])


def test_the_identity_reads_as_the_logit_lens(decoder):
    ids = tokens(1, LENGTH)[0]
    states = residuals(decoder, ids[None])[:, 0]
    native = NativeReading.of(decoder, states[-1])
    table = experiment.read(decoder, ids, tuned.TunedLens({2: tuned.identity(decoder.width)}, {2: tuned.random(32, 1)}))
    found = table[table["method"] == "identity_translator"]["kl"].to_numpy()
    assert np.allclose(found, compare(decoder, native, states[2][None]).kl[0].numpy(), atol=1e-6)
    assert (table[table["method"] == "tuned_lens"]["kl"].to_numpy() == found).all()


def test_groups_of_layers_join_and_survive_the_file(decoder, text, lens, tmp_path):
    settings = {"batch": 32, "rate": 0.02, "epochs": 6}
    apart = tuned.combine([tuned.fit(decoder, text, [layer], **settings) for layer in (0, 2)])
    tuned.save(tmp_path / "lens.safetensors", apart, {"weights": "abc"})
    again = tuned.load(tmp_path / "lens.safetensors", decoder, "abc")
    for layer in (0, 2):
        assert_same(again.trained[layer].weight, lens.trained[layer].weight)
        assert_same(again.start[layer].bias, lens.start[layer].bias)


def test_a_lens_of_another_model_is_refused(decoder, lens, tmp_path):
    tuned.save(tmp_path / "lens.safetensors", lens, {"weights": "abc"})
    with pytest.raises(LensproofError, match="other weights"):
        tuned.load(tmp_path / "lens.safetensors", decoder, "def")
    with pytest.raises(LensproofError, match="width 32"):
        tuned.load(tmp_path / "lens.safetensors", tiny("llama", width=64), "abc")


def test_a_diverging_training_says_so(decoder, text):
    states, last = tuned.collect(decoder, text[:2], [1])
    broken = tuned.Translator(torch.full((32, 32), torch.nan), torch.zeros(32))
    with pytest.raises(LensproofError, match="diverged at step 1"):
        tuned.train(decoder, states.flatten(1, 2), last.flatten(0, 1), [broken], batch=8, rate=1e-3)


def test_estimates_stand_by_corpus(decoder, lens):
    trials = [
        experiment.read(decoder, ids, lens).assign(
            checkpoint="toy", corpus=corpus, document=document, sequence=document
        )
        for corpus, seed in (("wiki", 1), ("held_out", 2))
        for document, ids in enumerate(tokens(3, LENGTH, seed=seed))
    ]
    trials = pd.concat(trials, ignore_index=True)
    table = statistics.estimate(trials, resamples=200, level=0.95, seed=0)
    row = table[
        (table["measure"] == "kl") & (table["method"] == "tuned_lens") & (table["setting"] == "held_out")
        & (table["layer"] == 2) & table["contrast"].isna()
    ]  # fmt: skip
    cell = (trials["corpus"] == "held_out") & (trials["method"] == "tuned_lens") & (trials["layer"] == 2)
    assert np.isclose(row["point"].item(), trials[cell]["kl"].mean())
    assert row["clusters"].item() == 3
