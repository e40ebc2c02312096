"""The parts that anatomy names, put together again, are the model (known answers 8 and 9)."""

from __future__ import annotations

import pytest
import torch
from models import ARCHITECTURES, assert_same, tiny, tokens

from lensproof.checkpoints.anatomy import known, take_apart
from lensproof.errors import LensproofError
from lensproof.streams.trace import residuals


@pytest.fixture(params=ARCHITECTURES)
def decoder(request):
    return tiny(request.param)


def test_head_of_last_state_is_the_models_logits(decoder):
    ids = tokens(2, 40)
    ours = decoder.logits(residuals(decoder, ids)[-1])
    assert_same(ours, decoder.model(ids).logits)


def test_residual_states_are_the_inputs_of_the_models_own_blocks(decoder):
    ids, seen = tokens(1, 40), []
    hooks = [
        layer.register_forward_pre_hook(lambda module, given: seen.append(given[0]))
        for layer in decoder.model.model.layers
    ]
    decoder.model(ids)
    for hook in hooks:
        hook.remove()
    for ours, theirs in zip(residuals(decoder, ids), seen, strict=False):
        assert_same(ours, theirs)


def test_writes_add_up_to_the_next_state_and_are_what_the_model_adds(decoder):
    x = residuals(decoder, tokens(1, 40))
    for index, block in enumerate(decoder.blocks):
        a = block.attention(block.attention_input(x[index]))
        writes = block.write(x[index], a)
        assert_same(x[index] + writes.attention + writes.mlp, x[index + 1])
        layer = decoder.model.model.layers[index]
        post = layer.post_attention_layernorm if hasattr(layer, "pre_feedforward_layernorm") else torch.nn.Identity()
        assert_same(writes.attention, post(a))


def test_running_the_rest_against_a_memory_is_running_the_whole(decoder):
    """The window (16) is shorter than the sequence, so the memory's far end must be hidden again."""
    x = residuals(decoder, tokens(2, 40))
    for index, block in enumerate(decoder.blocks):
        tail = block.run(x[index][:, 25:], block.remember(x[index][:, :25]))
        assert_same(tail, x[index + 1][:, 25:])


def test_backward_maps_are_those_of_autograd(decoder):
    x = residuals(decoder, tokens(1, 30))[:, 0]
    generator = torch.Generator().manual_seed(1)
    for block, state in zip(decoder.blocks, x, strict=False):
        memory = block.remember(state[None, :6])
        variable = state[6:].clone().requires_grad_()
        output = block.run(variable[None], memory)[0]
        cotangents = torch.randn(24, 3, decoder.width, generator=generator)
        ours = block.linearise(state[6:], memory)(cotangents)
        for index in range(3):
            (theirs,) = torch.autograd.grad(output, variable, cotangents[:, index], retain_graph=True)
            assert_same(ours[:, index], theirs)


def test_an_unknown_architecture_is_refused_by_name():
    class MysteryForCausalLM(torch.nn.Module):
        pass

    with pytest.raises(LensproofError, match=r"MysteryForCausalLM is not known \(known: .*LlamaForCausalLM"):
        take_apart(MysteryForCausalLM())


def test_every_architecture_here_has_a_tiny_model():
    assert {tiny(name).architecture for name in ARCHITECTURES} == set(known())


def test_nothing_outside_anatomy_names_an_architecture(root):
    package = root / "workflow" / "lensproof"
    for path in package.rglob("*.py"):
        if not {"anatomy", "gguf"} & set(path.parts):  # the file format names architectures too
            assert not any(name in path.read_text() for name in known()), path
