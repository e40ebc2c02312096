"""The parts that anatomy names, put together again, are the model (known answers 8 and 9)."""

from __future__ import annotations

import pytest
import torch
from models import ARCHITECTURES, RELEASED, assert_same, configured, layers, memory, released, tiny, tokens

from lensproof.checkpoints.anatomy import known, take_apart
from lensproof.checkpoints.anatomy.decoder import ParallelBlock
from lensproof.checkpoints.load import load
from lensproof.config import RandomSource
from lensproof.errors import LensproofError
from lensproof.specimens.tiny import random_model
from lensproof.streams.trace import residuals

LLAMA = {
    "model_type": "llama", "vocab_size": 300, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 4, "max_position_embeddings": 512,
}  # fmt: skip
PHI = {**RELEASED["phi-4"], "original_max_position_embeddings": 16, "max_position_embeddings": 64}


@pytest.fixture(params=[*ARCHITECTURES, *RELEASED])
def decoder(request):
    return released(request.param) if request.param in RELEASED else tiny(request.param)


def test_head_of_last_state_is_the_models_logits(decoder):
    ids = tokens(2, 40)
    ours = decoder.logits(residuals(decoder, ids)[-1])
    assert_same(ours, decoder.model(ids).logits)


def test_residual_states_are_the_inputs_of_the_models_own_blocks(decoder):
    ids, seen = tokens(1, 40), []
    hooks = [layer.register_forward_pre_hook(lambda module, given: seen.append(given[0])) for layer in layers(decoder)]
    decoder.model(ids)
    for hook in hooks:
        hook.remove()
    for ours, theirs in zip(residuals(decoder, ids), seen, strict=False):
        assert_same(ours, theirs)


def given_the_state_after_attention(layer):
    """The module of one of transformers' blocks that is given the residual between the two writes."""
    if hasattr(layer, "pre_feedforward_layernorm"):
        return layer.pre_feedforward_layernorm
    return layer.mlp if hasattr(layer, "post_feedforward_layernorm") else layer.post_attention_layernorm


def test_writes_are_what_the_models_own_blocks_add(decoder):
    """Residual after attention minus residual before, and after the MLP minus before, by hooks on transformers'
    modules; where both writes are of one state, their sum."""
    ids, starts, middles, ends = tokens(1, 40), [], [], []
    hooks = [layer.register_forward_hook(lambda module, given, out: ends.append(out)) for layer in layers(decoder)]
    for place, seen in ((lambda layer: layer, starts), (given_the_state_after_attention, middles)):
        hooks += [
            place(layer).register_forward_pre_hook(lambda module, given, seen=seen: seen.append(given[0].clone()))
            for layer in layers(decoder)
        ]
    decoder.model(ids)
    for hook in hooks:
        hook.remove()
    decoder = decoder.on(ids)
    for index, (block, x, middle, end) in enumerate(zip(decoder.blocks, starts, middles, ends, strict=True)):
        writes = block.write(x, block.attention(block.attention_input(x), memory(decoder, starts, index)))
        assert_same(writes.output, end)
        extra = 0 if writes.extra is None else writes.extra
        assert_same(writes.scale * (x + writes.attention + writes.mlp + extra), end)
        if not isinstance(block, ParallelBlock):
            assert_same(writes.attention, middle - x)
            assert_same(writes.mlp + extra, end / writes.scale - middle)


def test_what_a_block_keeps_and_its_rows_see_is_what_a_span_sees(decoder):
    """Row by row against what the rows before left, as in replay; and the span itself."""
    ids, at = tokens(1, 40), torch.arange(40)
    decoder = decoder.on(ids)
    x = residuals(decoder, ids)
    for index, block in enumerate(decoder.blocks):
        source = index if block.shares is None else block.shares
        keeper = decoder.blocks[source]
        own = keeper.own(keeper.attention_input(x[source]), at)
        y = block.attention_input(x[index])
        assert_same(block.attend(y, at, keeper.collect(own), own), block.attention(y, memory(decoder, x, index)))


def test_running_the_rest_against_a_memory_is_running_the_whole(decoder):
    """Windows (16) are shorter than the sequence, so the memory's far end must be hidden again."""
    decoder = decoder.on(tokens(2, 40))
    x = residuals(decoder, tokens(2, 40))
    for index, block in enumerate(decoder.blocks):
        tail = block.run(x[index][:, 25:], memory(decoder, x, index, 25))
        assert_same(tail, x[index + 1][:, 25:])


def test_backward_maps_are_those_of_autograd(decoder):
    decoder = decoder.on(tokens(1, 30))
    x = residuals(decoder, tokens(1, 30))
    generator = torch.Generator().manual_seed(1)
    for index, block in enumerate(decoder.blocks):
        before = memory(decoder, x, index, 6)
        variable = x[index, 0, 6:].clone().requires_grad_()
        output = block.run(variable[None], before)[0]
        cotangents = torch.randn(24, 3, decoder.width, generator=generator)
        ours = block.linearise(variable.detach(), before)(cotangents)
        for place in range(3):
            (theirs,) = torch.autograd.grad(output, variable, cotangents[:, place], retain_graph=True)
            assert_same(ours[:, place], theirs)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_backward_maps_in_half_precision_differ_by_its_rounding(architecture):
    ids, found = tokens(1, 30), []
    x = residuals(tiny(architecture), ids)
    cotangents = torch.randn(24, 3, x.shape[-1], generator=torch.Generator().manual_seed(1))
    for precision in (torch.float32, torch.bfloat16):
        decoder, states = tiny(architecture, precision=precision).on(ids), x.to(precision)
        maps = [b.linearise(states[i, 0, 6:], memory(decoder, states, i, 6)) for i, b in enumerate(decoder.blocks)]
        found.append([back(cotangents.to(precision)) for back in maps])
    for exact, rough in zip(*found, strict=True):
        assert rough.dtype == torch.bfloat16
        assert_same(rough.float(), exact, 0.15)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_saved_as_a_checkpoint_and_loaded_it_is_the_same_model(tmp_path, architecture):
    tiny(architecture).model.save_pretrained(tmp_path)
    ids = tokens(1, 40)
    again = residuals(load(tmp_path), ids)
    assert torch.equal(again, residuals(tiny(architecture), ids))


def test_the_tiny_models_have_what_their_families_are_known_for():
    kinds = {(block.attention.rotary is None, block.attention.window) for block in tiny("smollm3").blocks}
    assert kinds == {(False, 16), (True, None), (True, 16), (False, None)}
    windowed, full = (block.attention.rotary.table(torch.tensor([0]))[0] for block in tiny("olmo3").blocks[:2])
    assert windowed.unique().item() == 1
    assert full.unique().item() == pytest.approx(1.2079, abs=1e-4)
    assert tiny("phi3").blocks[0].attention.window == 16
    for name in ("phi3", "gpt_neox"):
        assert tiny(name).blocks[0].attention.rotary.table(torch.tensor([3]))[0].shape == (1, 4)
    assert all(isinstance(block, ParallelBlock) for block in tiny("gpt_neox").blocks)
    for decoder in (tiny("gpt_neox/sequential"), released("japanese-gpt-neox-3.6b")):
        assert not any(isinstance(block, ParallelBlock) for block in decoder.blocks)


def test_an_unknown_architecture_is_refused_by_name():
    class MysteryForCausalLM(torch.nn.Module):
        pass

    with pytest.raises(LensproofError, match=r"MysteryForCausalLM is not known \(known: .*LlamaForCausalLM"):
        take_apart(MysteryForCausalLM())


@pytest.mark.parametrize(
    "keys",
    [
        {**LLAMA, "rope_scaling": {"rope_type": "dynamic", "factor": 2.0}},
        {**PHI, "rope_scaling": {"type": "longrope", "short_factor": [1.0] * 8, "long_factor": [2.0] * 8}},
    ],
    ids=["dynamic", "longrope"],
)
def test_rotary_scaling_that_depends_on_the_length_is_refused(keys):
    with pytest.raises(LensproofError, match="scaling '(dynamic|longrope)' is not supported") as caught:
        configured(keys)
    assert "\n" not in str(caught.value)


def test_longrope_that_is_the_same_at_every_length_is_not_refused():
    factors = [1.0, 1.2, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0]
    decoder = configured({**PHI, "rope_scaling": {"type": "longrope", "short_factor": factors, "long_factor": factors}})
    for length in (10, 40):  # 16 is where transformers changes from one to the other
        ids = tokens(1, length)
        assert_same(decoder.logits(residuals(decoder, ids)[-1]), decoder.model(ids).logits)


def test_capped_attention_scores_are_refused():
    model = random_model(RandomSource(kind="random", architecture="gemma3_text"))
    for layer in model.model.layers:
        layer.self_attn.attn_logit_softcapping = 50.0
    with pytest.raises(LensproofError, match="capped attention scores"):
        take_apart(model)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"enable_moe_block": True, "num_experts": 2, "top_k_experts": 1, "moe_intermediate_size": 8}, "experts"),
        ({"use_bidirectional_attention": "all"}, "both directions"),
        ({"num_kv_shared_layers": 4}, "another model's"),
    ],
)
def test_variants_of_gemma_4_whose_blocks_are_others_are_refused(settings, words):
    spec = RandomSource(kind="random", architecture="gemma4_text")
    with pytest.raises(LensproofError, match=words):
        take_apart(random_model(spec, **settings))


def test_gemma_4_shares_writes_and_scales():
    small, large = tiny("gemma4_text").blocks, tiny("gemma4_text/large").blocks
    assert [block.shares for block in small] == [None, None, 0, 1]
    assert [block.shares for block in large] == [None] * 4
    assert [block.attention.value is None for block in large] == [False, True, False, True]
    assert all(block.extra for block in small)
    assert not any(block.extra for block in large)
    assert all((block.scale - 1).abs() > 0.01 for block in (*small, *large))


def test_blocks_that_take_an_input_of_the_token_ask_for_the_sequence():
    decoder, ids = tiny("gemma4_text"), tokens(2, 20)
    x = residuals(decoder, ids)
    with pytest.raises(LensproofError, match=r"bind the decoder to the sequence \(Decoder\.on\)"):
        decoder.blocks[0].run(x[0])
    bound = decoder.on(ids)
    assert_same(bound.blocks[0].run(x[0]), x[1])
    again = bound.on(ids[1])
    assert_same(again.blocks[0].run(x[0, 1:]), x[1, 1:])
    at = torch.tensor([7, 3])
    a = again.blocks[0].attention(again.blocks[0].attention_input(x[0, 1:]))
    assert_same(again.blocks[0].finish(x[0, 1:, at], a[:, at], at), x[1, 1:, at])


def test_every_architecture_here_has_a_tiny_model():
    assert {tiny(name).architecture for name in ARCHITECTURES} == set(known())


def test_nothing_outside_anatomy_names_an_architecture(root):
    package = root / "workflow" / "lensproof"
    for path in package.rglob("*.py"):
        # The file format names architectures too, and a planted model is one that is written in one of them.
        if not {"anatomy", "gguf", "planted"} & set(path.parts):
            assert not any(name in path.read_text() for name in known()), path
