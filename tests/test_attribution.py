"""Attribution against ablation (table 6): the effect is that of the whole model with the write taken out, the native
difference is the effect, the native linear form is gradient times write (known answers 9 and 26)."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from models import ARCHITECTURES, assert_same, tiny, tokens
from scipy import stats

from lensproof.errors import LensproofError
from lensproof.experiments.attribution import CHECKED, COMPONENTS, attribute, observe
from lensproof.experiments.run import Run
from lensproof.frames import typical as typical_attention
from lensproof.frames.basis import covectors
from lensproof.lenses.jacobian import JacobianLens
from lensproof.statistics.attribution import estimate
from lensproof.statistics.table import COLUMNS
from lensproof.streams.replay import remember
from lensproof.streams.trace import onward, residuals, writes

LENGTH = 20
LAYERS = (1, 3)
SETTINGS = {"resamples": 100, "level": 0.9, "seed": 3}


@pytest.fixture(params=ARCHITECTURES)
def decoder(request):
    return tiny(request.param, window=9).on(tokens(1, LENGTH))


@pytest.fixture
def ids():
    return tokens(1, LENGTH)[0]


@pytest.fixture
def states(decoder, ids):
    return residuals(decoder, ids[None])[:, 0]


@pytest.fixture
def lens(decoder):
    generator = torch.Generator().manual_seed(0)
    eye = torch.eye(decoder.width)
    draw = {layer: eye + 0.1 * torch.randn(eye.shape, generator=generator) for layer in range(decoder.depth + 1)}
    return JacobianLens(draw, 1)


@pytest.fixture
def trials(decoder, ids, lens):
    fitted = typical_attention.calibrate(decoder, tokens(6, LENGTH, seed=1))
    return attribute(decoder, ids, layers=LAYERS, typical=fitted, lens=lens)


def column(trials, name, method, layer, component) -> torch.Tensor:
    """The column over positions."""
    where = (trials["method"] == method) & (trials["layer"] == layer) & (trials["component"] == component)
    return torch.tensor(trials[where].sort_values("position")[name].to_numpy())


def added(decoder, states, layer) -> dict[str, torch.Tensor]:
    """What the block before ``layer`` adds, by component."""
    made = writes(decoder, states, [layer - 1])[layer - 1]
    return {
        "layer": states[layer] - states[layer - 1],
        "attention": made.scale * made.attention,
        "mlp": made.scale * made.mlp,
    }


def centred(decoder, states, layer, x, at):
    """Centred logit of the clean run's top token at one position, the whole sequence run again from ``layer`` with
    state ``x`` there."""
    changed = states[layer].clone()
    changed[at] = x
    *_, last = onward(decoder, changed[None], layer, remember(decoder, states))
    logits = decoder.coefficients(last[0, at])
    return logits[decoder.coefficients(states[-1, at]).argmax()] - logits.mean()


def test_writes_times_scale_make_the_next_state(decoder, states):
    """Known answer 9: x' = s (x + sum of writes), and the output is the model's own state."""
    for index, made in writes(decoder, states, range(decoder.depth)).items():
        total = states[index] + made.attention + made.mlp + (0 if made.extra is None else made.extra)
        assert_same(made.scale * total, states[index + 1])
        assert_same(made.output, states[index + 1])
        assert made.attention.norm() > 0
        assert made.mlp.norm() > 0


def test_the_effect_is_that_of_the_whole_model_without_the_write(decoder, states, trials):
    scale = decoder.coefficients(states[-1]).abs().max()
    for layer, component in itertools.product(LAYERS, COMPONENTS):
        q = added(decoder, states, layer)[component]
        effect = column(trials, "effect", "native_linear", layer, component)
        for at in (1, 8, LENGTH - 1):
            x = states[layer, at]
            expected = centred(decoder, states, layer, x, at) - centred(decoder, states, layer, x - q[at], at)
            assert abs(effect[at - 1] - expected) < 1e-5 * scale


def test_the_native_difference_is_the_effect(decoder, states, trials):
    """Known answer 26: relative to the logits, not to their difference."""
    scale = decoder.coefficients(states[-1]).abs().max()
    for layer, component in itertools.product(LAYERS, COMPONENTS):
        score = column(trials, "score", "native_difference", layer, component)
        effect = column(trials, "effect", "native_linear", layer, component)
        assert len(score) == len(range(1, LENGTH, CHECKED))
        assert (score - effect[::CHECKED]).abs().max() < 1e-5 * scale
        assert effect.abs().max() > 1e-2 * scale


def test_the_native_linear_form_is_the_models_gradient_times_the_write(decoder, states, trials):
    """Known answer 26, by autograd through the whole model run on the whole sequence."""
    for layer, component in itertools.product(LAYERS, COMPONENTS):
        q = added(decoder, states, layer)[component]
        score = column(trials, "score", "native_linear", layer, component)
        for at in (1, LENGTH - 1):
            x = states[layer, at].clone().requires_grad_()
            (gradient,) = torch.autograd.grad(centred(decoder, states, layer, x, at), x)
            assert abs(score[at - 1] - gradient @ q[at]) < 1e-4 * gradient.norm() * q[at].norm()


def test_order_1_is_the_ablation_one_block_before_the_end_and_not_earlier(decoder, states, trials):
    """Known answer 20: order 1 is exact where one block remains."""
    assert decoder.depth - LAYERS[-1] == 1
    scale = decoder.coefficients(states[-1]).abs().max()
    # Where later blocks use the keys of one below the cut, nothing is left to approximate.
    exact = all(block.shares is not None for block in decoder.blocks[LAYERS[0] + 1 :])
    for component in COMPONENTS:
        for form, reference in (("difference", "effect"), ("linear", "score")):
            gap = [
                column(trials, "score", f"lexframe_1_{form}", layer, component)
                - column(trials, reference, "native_linear", layer, component)
                for layer in LAYERS
            ]
            assert gap[1].abs().max() < 1e-4 * scale
            assert exact or gap[0].abs().max() > 1e-4 * scale


def test_lenses_read_the_state_with_and_without_the_write(decoder, states, lens, trials):
    for layer, component in itertools.product(LAYERS, COMPONENTS):
        x, less = states[layer, 1:], (states[layer] - added(decoder, states, layer)[component])[1:]
        rows = covectors(decoder, decoder.coefficients(states[-1, 1:]).argmax(-1))
        for method, move in {"logit_lens": torch.eye(decoder.width), "jacobian_lens": lens.matrices[layer]}.items():
            kept, removed = ((decoder.final_norm(part @ move.T) * rows).sum(-1) for part in (x, less))
            score = column(trials, "score", f"{method}_difference", layer, component)
            assert torch.allclose(score, kept - removed, rtol=1e-4, atol=1e-4)


def test_every_position_with_a_prefix_has_every_method_once(trials):
    counts = trials.groupby(["method", "layer", "component"])["position"].agg(["count", "nunique", "min", "max"])
    assert len(counts) == 6 * len(LAYERS) * len(COMPONENTS)
    for method, part in counts.groupby("method"):
        step = CHECKED if method == "native_difference" else 1
        positions = range(1, LENGTH, step)
        assert (part == [len(positions), len(positions), 1, positions[-1]]).all(axis=None)


def test_layers_without_a_block_or_a_rest_are_left_out():
    decoder = tiny("llama")
    run = Run(
        folder=Path("tiny"), decoder=decoder, sequences=pd.DataFrame(), first=0, count=1,
        options={"layers": [0, decoder.depth]}, inputs={}, weights="", seed=0,
    )  # fmt: skip
    with pytest.raises(LensproofError, match="no layer between"):
        observe(run)


# -- estimates


def scored(documents: int = 5, positions: int = 12, seed: int = 0) -> pd.DataFrame:
    """Made-up trials: one method's scores are the effect with noise, the other's are less noisy for MLP writes."""
    generator = np.random.default_rng(seed)
    rows = []
    for component, layer, method in itertools.product(COMPONENTS, (3, 6), ("lexframe_1_difference", "native_linear")):
        effect = np.random.default_rng([layer, COMPONENTS.index(component)]).normal(size=documents * positions)
        noise = 0.2 if (method, component) == ("lexframe_1_difference", "mlp") else 1.0
        rows.append(pd.DataFrame({
            "document": np.repeat(np.arange(documents), positions), "layer": layer, "method": method,
            "component": component, "effect": effect, "score": effect + noise * generator.normal(size=len(effect)),
        }))  # fmt: skip
    return pd.concat(rows, ignore_index=True).assign(checkpoint="toy")


def only(table: pd.DataFrame, **wanted) -> pd.Series:
    for name, value in {"reference": None, "summary": "layer_mean", **wanted}.items():
        table = table[table[name].isna()] if value is None else table[table[name] == value]
    assert len(table) == 1
    return table.iloc[0]


def test_layer_means_are_means_of_pearsons_r():
    trials = scored()
    table = estimate(trials, **SETTINGS)
    assert tuple(table.columns) == COLUMNS
    for component, method in itertools.product(COMPONENTS, ("lexframe_1_difference", "native_linear")):
        part = trials[(trials["component"] == component) & (trials["method"] == method)]
        r = [stats.pearsonr(own["score"], own["effect"]).statistic for _, own in part.groupby("layer")]
        row = only(table, method=method, setting=component)
        assert row["point"] == pytest.approx(np.mean(r))
        assert (row["measure"], row["unit"], row["n"], row["layers"]) == ("pearson", "correlation", 60, 2)
        assert row["lo"] < row["point"] < row["hi"]


def test_methods_are_contrasted_within_and_between_components():
    table = estimate(scored(), **SETTINGS)
    pair = {"method": "native_linear", "reference": "lexframe_1_difference"}

    def gap(component):
        values = (only(table, method=name, setting=component)["point"] for name in pair.values())
        return next(values) - next(values)

    for component in COMPONENTS:
        assert only(table, **pair, setting=component, contrast="difference")["point"] == pytest.approx(gap(component))
    row = only(table, **pair, setting="mlp_minus_attention", contrast="difference")
    assert row["point"] == pytest.approx(gap("mlp") - gap("attention"))
    assert row["hi"] < 0


def test_observations_without_a_component_are_refused():
    with pytest.raises(LensproofError, match="lack component"):
        estimate(scored().drop(columns="component"), **SETTINGS)
