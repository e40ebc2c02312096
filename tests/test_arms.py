"""Records run: which instances, and their states at the query position."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import pytest
import torch
from models import tiny
from records_world import ARMS, instances, record

from lensproof.checkpoints.load import encode
from lensproof.config import RandomSource
from lensproof.corpora.benchmark.record import Record
from lensproof.errors import LensproofError
from lensproof.experiments import arms
from lensproof.specimens.tiny import random_tokenizer
from lensproof.streams.trace import residuals


@pytest.fixture(scope="module", params=["llama", "gemma3_text", "qwen3_5_text"])
def model(request):
    return tiny(request.param), random_tokenizer(RandomSource(kind="random", architecture=request.param))


def test_states_at_the_query_position_are_those_of_the_prompt_run_alone(model):
    decoder, tokenizer = model
    records = instances(2)
    found = arms.query_states(decoder, tokenizer, records)
    assert found.shape == (len(records), decoder.depth + 1, decoder.width)
    for record_, states in zip(records, found, strict=True):
        alone = residuals(decoder, torch.tensor(encode(tokenizer, record_.prompt))[None])[:, 0, -1]
        torch.testing.assert_close(states, alone, rtol=1e-4, atol=1e-4)


def test_a_query_position_can_be_any_one_after_the_context(model):
    decoder, tokenizer = model
    last = record(0, "report")
    earlier = dataclasses.replace(last, query_position=-3)
    ids = encode(tokenizer, last.prompt)
    counted = dataclasses.replace(last, query_position=len(ids) - 3)
    alone = residuals(decoder, torch.tensor(ids)[None])[:, 0, -3]
    for case in (earlier, counted):
        torch.testing.assert_close(arms.query_states(decoder, tokenizer, [case])[0], alone, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("changes", "says"), [
    ({"query_position": 2}, "inside the context"),
    ({"query_position": 10_000}, "outside the prompt"),
    ({"context": "a", "query_position": -1, "instruction": "b"}, "below position 16"),
    ({"instruction": "word " * 600}, "longer than 512"),
])  # fmt: skip
def test_what_cannot_be_read_is_refused_by_name(model, changes, says):
    decoder, tokenizer = model
    with pytest.raises(LensproofError, match=f"i000-report.*{says}"):
        arms.query_states(decoder, tokenizer, [record(0, "report", **changes)])


def test_a_context_that_merges_with_the_instruction_is_refused_by_name(model):
    """Known answer 14."""
    decoder, tokenizer = model

    class Merged(Record):
        prompt = "the water had covered the stones"

    with pytest.raises(LensproofError, match="i000-report: the context's tokens are not the first"):
        arms.query_states(decoder, tokenizer, [Merged(**vars(record(0, "report", context="the wax")))])


def test_instances_are_the_first_complete_ones_by_sorted_id():
    records = [item for item in instances(4) if item.id != "i001-automatic"]
    assert arms.complete(records[::-1], ARMS) == ["i000", "i002", "i003"]
    assert arms.complete(records, ("report", "control")) == ["i000", "i001", "i002", "i003"]
    taken = arms.chosen(records[::-1], ("report", "control"), first=1, count=2)
    assert [item.id for item in taken] == ["i001-report", "i001-control", "i002-report", "i002-control"]


def test_too_few_complete_instances_are_an_error_that_counts_them():
    with pytest.raises(LensproofError, match="5 instances complete in .* are needed, the records have 4"):
        arms.chosen(instances(4), ARMS, first=2, count=3)
    with pytest.raises(LensproofError, match="no instance has all of the arms"):
        arms.complete(instances(2, arms=("report",)), ARMS)


def test_saved_states_come_back_with_their_records_and_only_for_their_weights(tmp_path):
    records = instances(3)
    states = torch.randn(len(records), 3, 4)
    made = {"weights": "w", "inputs": {"records": {"sha256": "r"}}}
    arms.save(tmp_path / "a.safetensors", states[:10], records[:10], made)
    arms.save(tmp_path / "b.safetensors", states[10:], records[10:], made)
    paths = [tmp_path / "a.safetensors", tmp_path / "b.safetensors"]
    decoder = SimpleNamespace(depth=2, width=4)
    found, back = arms.load(paths, records[::-1], decoder, "w", "r")
    assert found == records
    assert torch.equal(back, states)
    with pytest.raises(LensproofError, match="other weights"):
        arms.load(paths, records, decoder, "v", "r")
    with pytest.raises(LensproofError, match="other records than these, or of these before they changed"):
        arms.load(paths, records, decoder, "w", "s")
    with pytest.raises(LensproofError, match="not among the records"):
        arms.load(paths, records[:5], decoder, "w", "r")
    with pytest.raises(LensproofError, match="its states are not those of 3 blocks of width 4"):
        arms.load(paths, records, SimpleNamespace(depth=3, width=4), "w", "r")
