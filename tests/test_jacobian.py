"""The Jacobian lens on cases worked out by hand (known answers 1 to 7), against autograd, and on disk."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from models import ARCHITECTURES, SumBlock, last_states, rounding, tiny, tokens, toy

from lensproof.checkpoints.anatomy import take_apart
from lensproof.config import RandomSource
from lensproof.errors import LensproofError
from lensproof.files import write_safetensors
from lensproof.lenses import jacobian
from lensproof.specimens.tiny import random_model
from lensproof.streams.trace import residuals

ONE = torch.ones(1, 1, dtype=torch.float64)


def test_one_block_two_dimensions():
    shift = torch.tensor([[0.0, 1.0], [0.0, 0.0]], dtype=torch.float64)
    lens = jacobian.fit(toy([SumBlock(shift)], 2), torch.arange(6)[None], skip=2)
    assert lens.matrices[0].tolist() == [[1, 2], [0, 1]]


def test_two_blocks_do_not_multiply_per_block_averages():
    lens = jacobian.fit(toy([SumBlock(ONE), SumBlock(ONE)], 1), torch.arange(6)[None], skip=2)
    assert lens.matrices[0].item() == pytest.approx(25 / 3)


def test_prompts_weigh_equally_whatever_their_length():
    decoder = toy([SumBlock(ONE)], 1)
    lenses = [jacobian.fit_prompt(decoder, torch.arange(length), skip=2) for length in (4, 6)]
    assert jacobian.combine(lenses).matrices[0].item() == pytest.approx(2.5)


def test_a_prompt_too_short_is_left_out_and_not_counted():
    decoder = toy([SumBlock(ONE)], 1)
    lenses = [jacobian.fit_prompt(decoder, torch.arange(length), skip=2) for length in (3, 6)]
    assert [lens.prompts for lens in lenses] == [0, 1]
    assert jacobian.combine(lenses).prompts == 1
    with pytest.raises(LensproofError, match="longer prompts or a smaller skip"):
        jacobian.fit(decoder, torch.arange(3)[None], skip=2)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_agrees_with_autograd_through_transformers_own_model(architecture):
    decoder, ids = tiny(architecture), tokens(1, 30)
    lens = jacobian.fit(decoder, ids, skip=5, cotangents=7)
    states = residuals(decoder, ids)

    def summed(state, layer):
        return last_states(decoder, ids, layer, state)[0, 5:29].sum(0)

    for layer in range(decoder.depth + 1):
        full = torch.autograd.functional.jacobian(lambda state, layer=layer: summed(state, layer), states[layer])
        expected = full[:, 0, 5:29].mean(1)
        assert (lens.matrices[layer] - expected).norm() < rounding(decoder) * expected.norm()


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_does_not_depend_on_how_many_cotangents_run_at_once(architecture):
    lenses = [jacobian.fit(tiny(architecture), tokens(1, 24), skip=4, cotangents=count) for count in (1, 5, 32)]
    for lens in lenses[1:]:
        for layer, matrix in lens.matrices.items():
            torch.testing.assert_close(matrix, lenses[0].matrices[layer], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("blocks", ["hand-written", "autograd"])
def test_threads_change_nothing(blocks):
    decoder = tiny("llama") if blocks == "hand-written" else toy([SumBlock(ONE), SumBlock(ONE)], 1)
    before = torch.get_num_threads()
    lenses = []
    for threads in (1, 4):
        torch.set_num_threads(threads)
        lenses.append(jacobian.fit(decoder, tokens(1, 24), skip=4, cotangents=3))
        assert torch.get_num_threads() == threads
    torch.set_num_threads(before)
    for layer, matrix in lenses[0].matrices.items():
        assert torch.equal(matrix, lenses[1].matrices[layer])


def test_a_band_of_layers_is_part_of_all_layers():
    band, whole = (jacobian.fit(tiny("llama"), tokens(1, 24), skip=4, lowest=lowest) for lowest in (2, 0))
    assert sorted(band.matrices) == [2, 3, 4]
    for layer, matrix in band.matrices.items():
        assert torch.equal(matrix, whole.matrices[layer])


def test_a_band_can_be_saved_and_says_from_where_on_it_is_whole(tmp_path):
    band = jacobian.fit(tiny("llama"), tokens(1, 24), skip=4, lowest=2)
    path = tmp_path / "lens.safetensors"
    jacobian.save(path, band, {"weights": "a" * 64, "lowest": 2})
    assert sorted(jacobian.load(path, tiny("llama"), "a" * 64).matrices) == [2, 3, 4]
    jacobian.save(path, band, {"weights": "a" * 64})
    with pytest.raises(LensproofError, match="covers layers 2 to 4, this model has layers 0 to 4"):
        jacobian.load(path, tiny("llama"))
    jacobian.save(path, dataclasses.replace(band, matrices={2: band.matrices[2], 4: band.matrices[4]}), {"lowest": 2})
    with pytest.raises(LensproofError, match="a lens from layer 2 on has layers 2 to 4"):
        jacobian.load(path, tiny("llama"))
    with pytest.raises(LensproofError, match="layer 5 is out of range: the model has layers 0 to 4"):
        jacobian.fit(tiny("llama"), tokens(1, 24), skip=4, lowest=5)


def test_training_mode_with_dropout_is_refused():
    decoder = tiny("llama", seed=5)
    dropout = torch.nn.Dropout(0.1)
    decoder.model.model.layers[1].mlp.add_module("dropout", dropout)
    with pytest.raises(LensproofError, match=r"layers\.1\.mlp\.dropout is in training mode with dropout"):
        jacobian.fit(decoder, tokens(1, 24), skip=4)
    dropout.eval()
    jacobian.fit(decoder, tokens(1, 24), skip=4)
    decoder.model.model.layers[0].self_attn.attention_dropout = 0.2
    decoder.model.model.layers[0].self_attn.train()
    with pytest.raises(LensproofError, match=r"layers\.0\.self_attn is in training mode"):
        jacobian.fit(decoder, tokens(1, 24), skip=4)


@pytest.mark.parametrize("architecture", [name for name in ARCHITECTURES if "/" not in name])
def test_training_mode_with_dropout_is_refused_in_every_architecture(architecture):
    model = random_model(RandomSource(kind="random", architecture=architecture), attention_dropout=0.1)
    decoder = take_apart(model.train())
    with pytest.raises(LensproofError, match=r"layers\.\d\.\w+ is in training mode with dropout"):
        jacobian.fit(decoder, tokens(1, 24), skip=4)
    model.eval()
    jacobian.fit(decoder, tokens(1, 24), skip=4)


@pytest.fixture
def lens():
    return jacobian.fit(tiny("llama"), tokens(2, 24), skip=4)


@pytest.mark.parametrize("name", ["lens.safetensors", "lens.pt"])
def test_large_entries_survive_saving(tmp_path, lens, name):
    lens.matrices[2][0, 0] = 7e4
    save = jacobian.save_reference if name.endswith(".pt") else lambda path, lens: jacobian.save(path, lens, {})
    save(tmp_path / name, lens)
    assert jacobian.load(tmp_path / name).matrices[2][0, 0].item() == 7e4


def test_entries_that_are_not_finite_are_refused_naming_the_layer(tmp_path, lens):
    lens.matrices[3][1, 1] = torch.inf
    for save in (jacobian.save_reference, lambda path, lens: jacobian.save(path, lens, {})):
        with pytest.raises(LensproofError, match="layer 3 .* not finite"):
            save(tmp_path / "lens", lens)
    assert not list(tmp_path.iterdir())
    halved = {layer - 1: matrix.half() for layer, matrix in lens.matrices.items() if layer}
    content = {"J": halved, "n_prompts": 2, "source_layers": list(halved), "d_model": 32}
    torch.save(content, tmp_path / "half.pt")
    with pytest.raises(LensproofError, match="layer 3 .* not finite"):
        jacobian.load(tmp_path / "half.pt")


def test_reference_format_and_back(tmp_path, lens):
    jacobian.save_reference(tmp_path / "lens.pt", lens)
    content = torch.load(tmp_path / "lens.pt", weights_only=True)
    assert (content["n_prompts"], content["source_layers"], content["d_model"]) == (2, [0, 1, 2, 3], 32)
    again = jacobian.load(tmp_path / "lens.pt", tiny("llama"))
    assert again.prompts == lens.prompts
    assert sorted(again.matrices) == [1, 2, 3, 4]
    for layer, matrix in again.matrices.items():
        assert torch.equal(matrix, lens.matrices[layer])


def test_a_stacked_reference_file_is_read_too(tmp_path, lens):
    stacked = torch.stack([lens.matrices[layer] for layer in (2, 4)])
    torch.save({"J": stacked, "n_prompts": 2, "source_layers": [1, 3], "d_model": 32}, tmp_path / "lens.pt")
    again = jacobian.load(tmp_path / "lens.pt")
    assert torch.equal(again.matrices[2], lens.matrices[2])
    assert torch.equal(again.matrices[4], lens.matrices[4])


def test_a_pickle_is_not_executed(tmp_path):
    class Trap:
        def __reduce__(self):
            return (open, (str(tmp_path / "sprung"), "w"))

    torch.save({"J": Trap()}, tmp_path / "lens.pt")
    with pytest.raises(LensproofError, match="not a Jacobian lens in the reference format"):
        jacobian.load(tmp_path / "lens.pt")
    assert not (tmp_path / "sprung").exists()


def test_another_models_lens_is_refused(tmp_path, lens):
    jacobian.save(tmp_path / "lens.safetensors", lens, {"weights": "a" * 64})
    path = tmp_path / "lens.safetensors"
    jacobian.load(path, tiny("llama"), "a" * 64)
    with pytest.raises(LensproofError, match="fitted on a model of width 32, this one has 48"):
        jacobian.load(path, tiny("llama", width=48))
    with pytest.raises(LensproofError, match="has a layer 4, this model ends at layer 3"):
        jacobian.load(path, tiny("llama", layers=3))
    with pytest.raises(LensproofError, match="covers layers 0 to 4, this model has layers 0 to 6"):
        jacobian.load(path, tiny("llama", layers=6))
    with pytest.raises(LensproofError, match="fitted on other weights"):
        jacobian.load(path, tiny("llama"), "b" * 64)


def test_how_many_prompts_a_lens_saw_stands_among_its_tensors(lens, tmp_path):
    """Merging weighs by it, and nothing is computed from provenance; files that only say it there are still read."""
    path = tmp_path / "lens.safetensors"
    jacobian.save(path, lens, {"jacobian_lens": {"prompts": 77}})
    assert jacobian.load(path).prompts == lens.prompts
    matrices = {f"layer_{layer:03d}": matrix for layer, matrix in lens.matrices.items()}
    write_safetensors(path, matrices, {"jacobian_lens": {"prompts": 7, "width": lens.width}})
    old = jacobian.load(path)
    assert (old.prompts, list(old.matrices)) == (7, list(lens.matrices))
    write_safetensors(path, matrices, {})
    with pytest.raises(LensproofError, match="does not say how many prompts"):
        jacobian.load(path)


def test_shards_combine_to_the_lens_of_all_prompts(lens):
    ids = tokens(3, 24, seed=3)
    whole = jacobian.fit(tiny("llama"), ids, skip=4)
    parts = jacobian.combine([jacobian.fit(tiny("llama"), part, skip=4) for part in (ids[:2], ids[2:])])
    for layer, matrix in whole.matrices.items():
        torch.testing.assert_close(parts.matrices[layer], matrix, rtol=1e-6, atol=1e-7)


def test_transport_is_a_product_with_the_transposed_matrix(lens):
    x = torch.randn(3, 32, generator=torch.Generator().manual_seed(0))
    expected = torch.stack([lens.matrices[2] @ row for row in x])
    torch.testing.assert_close(lens.transport(x, 2), expected)
    lacking = dataclasses.replace(lens, matrices={1: lens.matrices[1]})
    with pytest.raises(LensproofError, match="no layer 2"):
        lacking.transport(x, 2)
