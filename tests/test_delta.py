"""The gated delta rule against its recurrence in float64 and against transformers' own module."""

from __future__ import annotations

import pytest
import torch
from models import assert_same, layers, tiny

LENGTH = 150  # transformers works in pieces of 64
DECODER = tiny("qwen3_5_text")
LINEAR = [index for index, layer in enumerate(layers(DECODER)) if layer.block_type == "linear_attention"]


def inputs(rows=2, length=LENGTH, seed=0):
    return torch.randn(rows, length, DECODER.width, generator=torch.Generator().manual_seed(seed))


def recurrence(part, y):
    """States before every position ``[B, T + 1, H, k, v]`` and outputs ``[B, T, d]``, step by step in float64."""
    own = part.own(y, torch.arange(y.shape[1]))
    padded = torch.nn.functional.pad(own.mixed, (0, 0, part.taps.shape[1] - 1, 0))
    convolved = (padded.unfold(1, part.taps.shape[1], 1) * part.taps).sum(-1)
    query, key, value = (x.double() for x in part.split(convolved))
    query, key = (x.repeat_interleave(part.heads // part.key_heads, 2) for x in (query, key))
    states, outputs = [torch.zeros(*key.shape[:1], *key.shape[2:], value.shape[-1]).double()], []
    for t in range(y.shape[1]):
        state = states[-1] * own.decay[:, t, :, None, None].double().exp()
        held = torch.einsum("bhkv,bhk->bhv", state, key[:, t])
        correction = own.strength[:, t, :, None] * (value[:, t] - held)
        states.append(state + torch.einsum("bhk,bhv->bhkv", key[:, t], correction))
        outputs.append(torch.einsum("bhkv,bhk->bhv", states[-1], query[:, t]))
    return torch.stack(states, 1), part.merge(y, torch.stack(outputs, 1).float())


@pytest.mark.parametrize("index", LINEAR)
def test_it_is_the_recurrence_and_transformers_own_module(index):
    y, part = inputs(), DECODER.blocks[index].attention
    found = part(y)
    assert_same(found, recurrence(part, y)[1])
    with torch.no_grad():
        assert_same(found, layers(DECODER)[index].linear_attn(y), 1e-4)


def test_positions_are_remembered_from_afar():
    """Or the tests of memory would say nothing."""
    part, y = DECODER.blocks[0].attention, inputs(1)
    other = y.clone()
    other[:, 20] += 1
    before, after = part(y), part(other)
    assert torch.equal(before[:, :20], after[:, :20])
    far = (after - before)[:, 60:80].norm() / before[:, 60:80].norm()
    assert far > 1e-3


def test_the_memory_holds_the_state_before_every_position():
    part, y = DECODER.blocks[0].attention, inputs()
    memory = part.collect(part.own(y, torch.arange(LENGTH)))
    states = recurrence(part, y)[0]
    keys = memory.key.repeat_interleave(part.heads // part.key_heads, 2)
    for t in (1, 3, 64, 149):
        fade = (memory.decay[:, t - 1, None] - memory.decay[:, :t]).exp().float()
        state = torch.einsum("bsh,bshk,bshv->bhkv", fade, keys[:, :t], memory.correction[:, :t])
        assert_same(state.double(), states[:, t])


@pytest.mark.parametrize("start", [1, 2, 70])
def test_going_on_from_a_memory_is_running_the_whole(start):
    part, y = DECODER.blocks[1].attention, inputs()
    memory = part.collect(part.own(y[:, :start], torch.arange(start)))
    assert_same(part(y[:, start:], memory), part(y)[:, start:])


def test_a_rows_step_reads_nothing_at_or_after_its_position():
    part, y, at = DECODER.blocks[1].attention, inputs(1), torch.tensor([0, 1, 2, 70])
    own = part.own(y, torch.arange(LENGTH))
    other = y.clone()
    other[:, 70:] += 1
    memories = [part.collect(part.own(x, torch.arange(LENGTH))) for x in (y, other)]
    rows = type(own)(*(x[:, at] for x in own))
    first, second = (part.attend(y[:, at], at, memory, rows) for memory in memories)
    assert torch.equal(first, second)
    assert_same(first, part(y)[:, at])
