"""Running a model reads it and leaves nothing behind; rows of a batch know nothing of one another (known answers 12
and 13)."""

from __future__ import annotations

import copy

import pytest
import torch
from models import ARCHITECTURES, layers, tiny, tokens

from lensproof.checkpoints.anatomy import take_apart
from lensproof.streams.replay import remember, replay
from lensproof.streams.trace import residuals

IDS = tokens(2, 24)


@pytest.fixture(params=ARCHITECTURES)
def decoder(request):
    return tiny(request.param, window=9)


def with_blocks_that_return_tuples(decoder):
    """The same model, each of its blocks returning its states in a tuple, as older ones do."""
    model = copy.deepcopy(decoder.model)
    for layer in model.get_decoder().layers:
        layer.forward = lambda *given, inner=layer.forward, **named: (inner(*given, **named),)
    return take_apart(model)


@pytest.mark.parametrize("returns", ["tensors", "tuples"])
def test_a_change_of_row_1_leaves_row_0_as_it_is(decoder, returns):
    decoder = with_blocks_that_return_tuples(decoder) if returns == "tuples" else decoder
    other = IDS.clone()
    other[1, 5] = (other[1, 5] + 1) % 300
    before, after = residuals(decoder, IDS), residuals(decoder, other)
    assert torch.equal(after[:, 0], before[:, 0])
    assert not torch.equal(after[-1, 1], before[-1, 1])


@pytest.mark.parametrize("returns", ["tensors", "tuples"])
def test_a_change_of_one_replayed_row_leaves_the_other_as_it_is(decoder, returns):
    decoder = (with_blocks_that_return_tuples(decoder) if returns == "tuples" else decoder).on(IDS[0])
    states = residuals(decoder, IDS[:1])[:, 0]
    memories, at = remember(decoder, states), torch.tensor([20, 20])
    x = states[1, at]
    other = torch.stack((x[0], x[1] + 1))
    before, after = (replay(decoder, memories, states, rows, at, 1) for rows in (x, other))
    assert torch.equal(after[0], before[0])
    assert not torch.equal(after[1], before[1])


def test_a_run_of_another_model_in_between_changes_nothing(decoder):
    first = residuals(decoder, IDS)
    for architecture in ARCHITECTURES:
        residuals(tiny(architecture, seed=1), IDS)
    assert torch.equal(residuals(decoder, IDS), first)


def hooks(decoder):
    return [
        hook
        for module in decoder.model.modules()
        for kind in (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks)
        for hook in kind.values()
    ]


def test_nothing_stays_hooked_or_changed_after_an_exception_in_a_run(decoder, monkeypatch):
    first, logits, hooked = residuals(decoder, IDS), decoder.model(IDS).logits, hooks(decoder)
    with pytest.raises(IndexError):
        residuals(decoder, IDS + 300)
    with monkeypatch.context() as broken:
        broken.setattr(type(decoder.blocks[2]), "run", half_way)
        with pytest.raises(RuntimeError, match="half way"):
            residuals(decoder, IDS)
    assert hooks(decoder) == hooked
    assert torch.equal(residuals(decoder, IDS), first)
    assert torch.equal(decoder.model(IDS).logits, logits)
    assert len(layers(decoder)) == decoder.depth


def half_way(block, x, memory=None):
    raise RuntimeError("half way")
