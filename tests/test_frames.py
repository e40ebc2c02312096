"""Typical attention and the order-n flows: exactness, the definition spelled out, affine attention
(known answers 20 and 25)."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch
from models import ARCHITECTURES, assert_same, tiny, tokens

from lensproof.errors import LensproofError
from lensproof.frames import typical
from lensproof.frames.flow import flow
from lensproof.lenses.reading import NativeReading, compare
from lensproof.streams.trace import residuals

LENGTH = 24


@pytest.fixture(params=ARCHITECTURES)
def decoder(request):
    return tiny(request.param, window=9).on(tokens(1, LENGTH))


@pytest.fixture
def fitted(decoder):
    return typical.calibrate(decoder, tokens(6, LENGTH, seed=1))


@pytest.fixture
def states(decoder):
    return residuals(decoder, tokens(1, LENGTH))[:, 0]


def by_definition(decoder, fitted, states, cut, order):
    """h_L^n from the cut, position by position, straight from equation (6).

    Below the cut every order is the model's own, which is what blocks see there that use earlier keys and values.
    """
    flows = [[state] * (order + 1) for state in states[: cut + 1]]
    for index in range(cut, decoder.depth):
        block, before = decoder.blocks[index], flows[index]
        after = []
        for n in range(order + 1):
            outputs = [
                fitted(index, block.attention_input(before[0][t]))
                if n == 0 and t > 0
                else attention(decoder, index, [flow[max(n - 1, 0)] for flow in flows], [flow[n] for flow in flows], t)
                for t in range(LENGTH)
            ]
            after.append(block.finish(before[n][None], torch.stack(outputs)[None])[0])
        flows.append(after)
    return flows[-1][order]


def attention(decoder, index, earlier, own, t):
    """The model's own attention output at position t, in block ``index``, when positions before t have the states
    ``earlier`` and t has ``own``, each one ``[T, d]`` per layer."""
    block = decoder.blocks[index]
    source = index if block.shares is None else block.shares
    x = torch.cat((earlier[source][:t], own[source][t : t + 1]))[None]
    if block.shares is None:
        return block.attention(block.attention_input(x))[0, -1]
    y = block.attention_input(own[index][None, t : t + 1])
    return block.attention(y, decoder.blocks[source].remember(x))[0, -1]


@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_flow_is_the_definition(decoder, fitted, states, order):
    ((_, cuts, last),) = flow(decoder, states, [order], fitted)
    assert cuts == list(range(decoder.depth - order))
    for cut, state in zip(cuts, last, strict=True):
        expected = by_definition(decoder, fitted, states, cut, order)
        assert_same(state, expected)


def test_orders_are_exact_where_few_blocks_remain(decoder, fitted, states):
    """By the definition, not by the shortcut that leaves these cuts out of the flow."""
    for cut in range(decoder.depth + 1):
        order = decoder.depth - cut
        last = by_definition(decoder, fitted, states, cut, order)
        assert_same(last, states[-1])


def test_infinite_order_is_the_model_itself_at_every_layer(decoder, states):
    ((order, cuts, last),) = flow(decoder, states, [math.inf])
    assert order == math.inf
    assert cuts == list(range(decoder.depth))
    result = compare(decoder, NativeReading.of(decoder, states[-1]), last)
    assert result.kl.max() < 1e-5
    assert_same(last, states[-1].expand_as(last))


def test_some_cuts_are_as_all_cuts(decoder, fitted, states):
    every = {
        order: dict(zip(cuts, last, strict=True)) for order, cuts, last in flow(decoder, states, [0, 1, 2], fitted)
    }
    for order, cuts, last in flow(decoder, states, [0, 1, 2], fitted, cuts=[1, 3]):
        assert cuts == [cut for cut in (1, 3) if decoder.depth - cut > order]
        for cut, state in zip(cuts, last, strict=True):
            assert_same(state, every[order][cut])


def test_the_first_position_is_exact_in_every_order(decoder, fitted, states):
    for _, _, last in flow(decoder, states, [0, 1, 2], fitted):
        assert_same(last[:, 0], states[-1, :1].expand(len(last), -1))


def test_a_later_token_changes_no_earlier_reading(decoder, fitted):
    ids = tokens(1, LENGTH)
    other = ids.clone()
    other[0, -1] = (other[0, -1] + 1) % 300
    for (_, _, a), (_, _, b) in zip(
        *(flow(decoder.on(x), residuals(decoder, x)[:, 0], [0, 1, 2], fitted) for x in (ids, other)), strict=True
    ):
        assert_same(a[:, :-1], b[:, :-1])
        assert not torch.allclose(a[:, -1], b[:, -1])


def test_affine_attention_is_recovered_and_order_0_is_then_exact():
    """A window of one position leaves attention its own value only, an affine map of its input."""
    decoder = tiny("gemma3_text")
    alone = [dataclasses.replace(b, attention=dataclasses.replace(b.attention, window=1)) for b in decoder.blocks]
    decoder = dataclasses.replace(decoder, blocks=alone)
    text = tokens(40, LENGTH, seed=2)
    fitted = typical.calibrate(decoder, text, ridges=typical.RIDGES[:1])
    for index, block in enumerate(decoder.blocks):
        x = residuals(decoder, tokens(2, LENGTH))[index]
        y = block.attention_input(x)
        a = block.attention(y)
        assert (fitted(index, y) - a).norm() < 1e-4 * a.norm()
    states = residuals(decoder, tokens(1, LENGTH))[:, 0]
    ((_, _, last),) = flow(decoder, states, [0], fitted)
    assert (last - states[-1]).norm() < 1e-3 * states[-1].norm() * len(last) ** 0.5


def test_ridge_regression_with_two_folds_as_numpy_does_it():
    generator = np.random.default_rng(0)
    y = [generator.normal(size=(30, 5)) + 1 for _ in range(2)]
    a = [fold @ generator.normal(size=(5, 5)) + generator.normal(size=(30, 5)) for fold in y]
    grid = torch.tensor([1e-3, 1e-1, 10.0], dtype=torch.float64)

    both = np.concatenate(y), np.concatenate(a)
    trace = ((both[0] - both[0].mean(0)) ** 2).sum()

    def regress(y, a, ridge):
        y_mean, a_mean = y.mean(0), a.mean(0)
        gram = (y - y_mean).T @ (y - y_mean) + ridge * trace / 5 * np.eye(5)
        slope = (a - a_mean).T @ (y - y_mean) @ np.linalg.inv(gram)
        return lambda new: a_mean + (new - y_mean) @ slope.T, slope

    losses = [
        sum(((regress(y[i], a[i], ridge)[0](y[1 - i]) - a[1 - i]) ** 2).sum() for i in (0, 1))
        for ridge in grid.tolist()
    ]
    moments = [typical.Moments.of(torch.from_numpy(y[i]), torch.from_numpy(a[i])) for i in (0, 1)]
    slope, y_mean, a_mean, ridge, unexplained = typical.Folds(*moments).solve(grid)
    assert ridge.item() == grid[int(np.argmin(losses))]
    np.testing.assert_allclose(slope, regress(*both, ridge.item())[1], rtol=1e-9)
    np.testing.assert_allclose(y_mean, both[0].mean(0))
    np.testing.assert_allclose(a_mean, both[1].mean(0))
    assert unexplained.item() == pytest.approx(min(losses) / ((both[1] - both[1].mean(0)) ** 2).sum())


def test_saved_and_loaded(tmp_path, decoder, fitted):
    typical.save(tmp_path / "typical.safetensors", fitted, {})
    again = typical.load(tmp_path / "typical.safetensors", decoder)
    for name, part in vars(fitted).items():
        assert torch.equal(getattr(again, name), part)
    with pytest.raises(LensproofError, match=r"4 blocks of width 32, this one has 3 of 32"):
        typical.load(tmp_path / "typical.safetensors", tiny("llama", layers=3))


def test_typical_attention_of_other_weights_is_refused(tmp_path, decoder, fitted):
    typical.save(tmp_path / "typical.safetensors", fitted, {"weights": "a" * 64})
    typical.load(tmp_path / "typical.safetensors", decoder, "a" * 64)
    with pytest.raises(LensproofError, match="calibrated on other weights"):
        typical.load(tmp_path / "typical.safetensors", decoder, "b" * 64)


def test_one_sequence_is_too_few_to_calibrate_on(decoder):
    with pytest.raises(LensproofError, match="at least two calibration sequences"):
        typical.calibrate(decoder, tokens(1, LENGTH))
