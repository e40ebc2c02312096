"""Frames of single states: transport, readouts and bases against autograd, finite differences and scipy
(known answers 16, 20, 22, 23, 24)."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse.linalg
import torch
from models import ARCHITECTURES, LinearBlock, assert_same, last_states, rounding, tiny, tokens, toy

from lensproof.checkpoints.anatomy.parts import Linearised
from lensproof.frames import typical
from lensproof.frames.basis import OutputBasis, closed_form, covectors, lsmr
from lensproof.frames.flow import flow
from lensproof.frames.frame import by_autograd, frames, linearise, native_readouts, transports
from lensproof.streams.replay import remember, replay
from lensproof.streams.trace import residuals

LENGTH = 24
AT = torch.tensor([23, 3, 11, 3])


@pytest.fixture(params=ARCHITECTURES)
def decoder(request):
    return tiny(request.param, window=9).on(tokens(1, LENGTH))


@pytest.fixture
def states(decoder):
    return residuals(decoder, tokens(1, LENGTH))[:, 0]


@pytest.fixture
def fitted(decoder):
    return typical.calibrate(decoder, tokens(6, LENGTH, seed=1))


def changed(states, layer, at, seed=0):
    noise = torch.randn(len(at), states.shape[-1], generator=torch.Generator().manual_seed(seed))
    return states[layer, at] + 0.3 * noise


def forward_from(decoder, states, layer, row, at):
    """The rest of transformers' own model on the whole sequence with one state changed."""
    x = states[layer, None].clone()
    x[0, at] = row
    return last_states(decoder, tokens(1, LENGTH), layer, x)[0, at]


def test_replay_of_rows_at_any_cuts_is_the_whole_model(decoder, states):
    cuts = torch.tensor([2, 0, decoder.depth, 1])
    x = torch.cat([changed(states, cut, AT[i : i + 1], seed=i) for i, cut in enumerate(cuts.tolist())])
    last = replay(decoder, remember(decoder, states), states, x, AT, cuts)
    for row, cut, at, found in zip(x, cuts.tolist(), AT.tolist(), last, strict=True):
        assert_same(found, forward_from(decoder, states, cut, row, at))


def test_replay_of_the_clean_states_is_the_clean_run(decoder, states):
    memories = remember(decoder, states)
    for cut in range(decoder.depth + 1):
        assert_same(replay(decoder, memories, states, states[cut, AT], AT, cut), states[-1, AT])


@pytest.mark.parametrize("order", [0, 1, 2, math.inf])
def test_transport_of_the_clean_state_is_the_flow(decoder, states, fitted, order):
    found = frames(decoder, states, order, range(decoder.depth + 1), fitted)
    ((_, cuts, last),) = flow(decoder, states, [order], fitted)
    for cut, frame in found.items():
        expected = last[cuts.index(cut), AT] if cut in cuts else states[-1, AT]
        assert_same(frame.transport(states[cut, AT], AT), expected)


@pytest.mark.parametrize("order", [0, 1, 2, math.inf])
def test_derivatives_are_those_of_autograd(decoder, states, fitted, order):
    for cut, frame in frames(decoder, states, order, (0, 2, decoder.depth), fitted).items():
        x = changed(states, cut, AT)
        ours, theirs = frame.linearise(x, AT), by_autograd(lambda rows, f=frame: f.normed(rows, AT), x)
        generator = torch.Generator().manual_seed(2)
        directions = torch.randn(len(AT), 5, decoder.width, generator=generator)
        assert_same(ours.vjp(directions.clone()), theirs.vjp(directions))
        assert_same(ours.jvp(directions.clone()), theirs.jvp(directions))


@pytest.mark.parametrize("orders", [(0,), (1,), (math.inf,), (1, math.inf)])
def test_frames_together_give_what_each_gives(decoder, states, fitted, orders):
    """At several layers, of one order or two, exact ones among them."""
    layers = (0, 2, decoder.depth - 1)
    made = [frames(decoder, states, order, layers, fitted) for order in orders]
    together = [found[layer] for layer in layers for found in made]
    x = torch.stack([changed(states, frame.layer, AT, seed=i) for i, frame in enumerate(together)])
    last, through = transports(together, x, AT), linearise(together, x, AT)
    generator = torch.Generator().manual_seed(2)
    directions = torch.randn(len(together), len(AT), 5, decoder.width, generator=generator)
    pulled, pushed = through.vjp(directions.flatten(0, 1)), through.jvp(directions.flatten(0, 1))
    for place, frame in enumerate(together):
        own, rows = frame.linearise(x[place], AT), slice(place * len(AT), (place + 1) * len(AT))
        assert_same(last[place], frame.transport(x[place], AT))
        assert_same(pulled[rows], own.vjp(directions[place]), 1e-4)
        assert_same(pushed[rows], own.jvp(directions[place]), 1e-4)


def test_native_readouts_are_the_gradients_of_the_whole_model(decoder, states):
    """By autograd through transformers' own run on the whole sequence, from one position to the same one's output."""
    labels = torch.tensor([5, 77])
    found = native_readouts(decoder, states, AT, covectors(decoder, labels))
    for cut in (0, 1, decoder.depth):
        for row in (0, 2):
            x = states[cut, None].clone().requires_grad_()
            last = last_states(decoder, tokens(1, LENGTH), cut, x)[0, AT[row]]
            logits = decoder.coefficients(last)
            for place, label in enumerate(labels.tolist()):
                (gradient,) = torch.autograd.grad(logits[label] - logits.mean(), x, retain_graph=True)
                assert_same(found[cut, row, place], gradient[0, AT[row]], rounding(decoder))


def central_difference(function, step):
    """The slope of ``function`` at 0, up to the fourth power of the step."""
    near, far = (function(size) - function(-size) for size in (step, 2 * step))
    return (8 * near - far) / (12 * step)


@pytest.mark.parametrize("order", [0, 1, math.inf])
def test_finite_differences_confirm_sign_and_scale_of_readouts(decoder, states, fitted, order):
    frame = frames(decoder, states, order, [1], fitted)[1]
    x, covector = states[1, AT], covectors(decoder, torch.tensor([5]))
    step = 1e-2 * torch.randn(x.shape, generator=torch.Generator().manual_seed(3))
    measured = central_difference(lambda size: frame.normed(x + size * step, AT) @ covector[0], 1.0)
    slope = (frame.readouts(x, AT, covector)[:, 0] * step).sum(-1)
    assert torch.allclose(measured, slope, rtol=2e-3, atol=2e-5)


def test_state_times_readout_is_the_slope_of_scaling_the_state_and_not_the_coefficient(decoder, states):
    label = torch.tensor([5])
    frame = frames(decoder, states, math.inf, [1])[1]
    x, covector = states[1, AT], covectors(decoder, label)
    slope = (frame.readouts(x, AT, covector)[:, 0] * x).sum(-1)
    measured = central_difference(lambda size: frame.normed((1 + size) * x, AT) @ covector[0], 1e-2)
    assert torch.allclose(measured, slope, rtol=2e-3, atol=1e-4)
    coefficient = frame.normed(x, AT) @ covector[0]
    assert (slope - coefficient).abs().max() > 0.1 * coefficient.abs().max()


@pytest.mark.parametrize("order", [0, 1, 2])
def test_a_frame_is_the_native_one_where_few_blocks_remain(decoder, states, fitted, order):
    """Coefficients, readouts and bases: from the order's own prefix, not by the shortcut."""
    cut = decoder.depth - order
    native = frames(decoder, states, math.inf, [cut])[cut]
    frame = frames(decoder, states, order, [cut], fitted)[cut]
    if order > 0:
        from lensproof.frames.flow import prefixes
        from lensproof.frames.frame import Frame

        frame = Frame(decoder, states, cut, order, prefixes(decoder, states, order - 1, fitted, [cut])[cut], fitted)
    x = states[cut, AT]
    assert_same(frame.normed(x, AT), native.normed(x, AT))
    ours, theirs = frame.jacobian(x, AT), native.jacobian(x, AT)
    assert_same(ours, theirs)
    target = OutputBasis.of(decoder)(torch.tensor([3, 40]))
    assert_same(closed_form(ours, target), closed_form(theirs, target), 1e-3)


def test_output_basis_rebuilds_the_normed_state(decoder, states):
    normed = decoder.final_norm(states[-1, AT])
    basis = OutputBasis.of(decoder)(torch.arange(decoder.vocabulary))
    rebuilt = decoder.coefficients(states[-1, AT]) @ basis
    assert_same(rebuilt, normed, 1e-4)


def test_uncentred_rows_and_bases_without_ridge_make_the_projection_on_the_row_space():
    generator = torch.Generator().manual_seed(0)
    draw = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)  # noqa: E731
    unembedding, jacobian = draw(40, 6), draw(6, 6)
    jacobian[5] = jacobian[4]  # a null direction
    pinv = torch.linalg.pinv(jacobian, rtol=1e-8)
    basis = (unembedding @ torch.linalg.inv(unembedding.T @ unembedding)) @ pinv.T  # one row per token
    rows = unembedding @ jacobian
    assert torch.allclose(basis.T @ rows, pinv @ jacobian, atol=1e-10)


def test_a_linear_models_readout_is_the_product_of_its_maps_and_order_0_is_exact():
    generator = torch.Generator().manual_seed(0)
    maps = [torch.randn(5, 5, generator=generator, dtype=torch.float64) for _ in range(3)]
    decoder = toy([LinearBlock(matrix) for matrix in maps], 5)
    x = torch.randn(4, 3, 5, generator=generator, dtype=torch.float64)
    for index, matrix in enumerate(maps):
        x[index + 1] = x[index] @ matrix.T
    covector = torch.randn(2, 5, generator=generator, dtype=torch.float64)
    found = native_readouts(decoder, x, torch.tensor([1, 2]), covector)
    for layer in range(4):
        product = torch.eye(5, dtype=torch.float64)
        for matrix in maps[layer:]:
            product = matrix @ product
        assert torch.allclose(found[layer], (covector @ product).expand(2, 2, 5))


def matrices(rows=3, width=20, seed=0):
    generator = torch.Generator().manual_seed(seed)
    jacobian = torch.randn(rows, width, width, generator=generator) / width**0.5
    return jacobian, torch.randn(rows, 4, width, generator=generator)


def product(jacobian):
    return Linearised(lambda cotangent: cotangent @ jacobian, lambda tangent: tangent @ jacobian.mT)


def test_closed_form_solves_the_regularised_least_squares():
    jacobian, target = matrices()
    found = closed_form(jacobian, target)
    for row in range(len(jacobian)):
        for place in range(target.shape[1]):
            j, s = jacobian[row].double().numpy(), target[row, place].double().numpy()
            ridge = 1e-3 * ((j.T @ s) ** 2).sum() / (s @ s)
            stacked = np.vstack([j, ridge**0.5 * np.eye(len(s))])
            solution = np.linalg.lstsq(stacked, np.concatenate([s, 0 * s]), rcond=None)[0]
            assert np.allclose(found[row, place].numpy(), solution, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("steps", [1, 5, 12])
def test_lsmr_takes_the_steps_of_scipys(steps):
    jacobian, target = (part.double() for part in matrices())
    found = lsmr(product(jacobian), target, steps)
    for row in range(len(jacobian)):
        for place in range(target.shape[1]):
            j, s = jacobian[row].numpy(), target[row, place].numpy()
            damp = (1e-3 * ((j.T @ s) ** 2).sum() / (s @ s)) ** 0.5
            theirs = scipy.sparse.linalg.lsmr(j, s, damp=damp, atol=0, btol=0, conlim=0, maxiter=steps)[0]
            assert np.allclose(found[row, place].numpy(), theirs, rtol=1e-8, atol=1e-8)


def test_lsmr_run_to_convergence_is_the_closed_form(decoder, states, fitted):
    frame = frames(decoder, states, 1, [1], fitted)[1]
    x = states[1, AT]
    target = OutputBasis.of(decoder)(torch.tensor([3, 40])).expand(len(AT), -1, -1)
    exact = closed_form(frame.jacobian(x, AT), target)
    found = lsmr(frame.linearise(x, AT), target, steps=200)
    assert ((found - exact).norm(dim=-1) < 1e-3 * exact.norm(dim=-1)).all()
