"""Checkpoints on disk: the language model of one that takes images too, and one that lacks weights."""

from __future__ import annotations

import pytest
import torch
from models import assert_same, tiny, tokens
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForImageTextToText

from lensproof.checkpoints.build import build
from lensproof.checkpoints.load import load
from lensproof.config import Checkpoint, RandomSource
from lensproof.errors import LensproofError
from lensproof.specimens.tiny import draw, random_tokenizer
from lensproof.streams.trace import residuals

SMALL = {"hidden_size": 16, "intermediate_size": 16}
HEADS = {"num_hidden_layers": 1, "num_attention_heads": 2}
WRAPPERS = {
    "gemma3": {"vision_config": {**SMALL, **HEADS, "image_size": 32, "patch_size": 8}, "mm_tokens_per_image": 4},
    "gemma4": {"vision_config": {**SMALL, **HEADS, "num_key_value_heads": 2, "head_dim": 8}, "audio_config": None},
    "qwen3_5": {
        "vision_config": {**SMALL, "depth": 1, "num_heads": 2, "out_hidden_size": 32, "num_position_embeddings": 16}
    },
}
"""Models that take images too, by the ``model_type`` of their configuration."""


def wrapper(kind: str, tied: bool) -> torch.nn.Module:
    """A tiny random model that takes images too."""
    text = {**tiny(f"{kind}_text").model.config.to_dict(), "pad_token_id": 0}
    del text["tie_word_embeddings"]
    config = AutoConfig.for_model(kind, text_config=text, tie_word_embeddings=tied, **WRAPPERS[kind])
    model = AutoModelForImageTextToText.from_config(config).eval()
    draw(model, 0)
    return model


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("kind", WRAPPERS)
def test_the_language_model_of_one_that_takes_images_too(tmp_path, kind, tied):
    whole, ids = wrapper(kind, tied), tokens(1, 40, 290) + 2
    whole.save_pretrained(tmp_path)
    decoder = load(tmp_path)
    assert decoder.architecture == tiny(f"{kind}_text").architecture
    assert decoder.tied == tied
    assert not any("vision" in name for name, _ in decoder.model.named_parameters())
    types = {"token_type_ids": torch.zeros_like(ids)} if kind == "gemma3" else {}
    with torch.no_grad():
        assert_same(decoder.logits(residuals(decoder, ids)[-1]), whole(input_ids=ids, **types).logits)


@pytest.mark.parametrize("kind", WRAPPERS)
def test_its_manifest_is_of_the_language_model(tmp_path, kind):
    wrapper(kind, True).save_pretrained(tmp_path / "source")
    random_tokenizer(RandomSource(kind="random", architecture=f"{kind}_text")).save_pretrained(tmp_path / "source")
    source = {"kind": "path", "path": str(tmp_path / "source")}
    entry = Checkpoint(title="With pictures", licence="none", layers=4, tied=True, source=source)
    manifest = build("toy", entry, tmp_path / "out")
    assert (manifest["layers"], manifest["width"], manifest["vocabulary"], manifest["tied"]) == (4, 32, 300, True)
    assert load(tmp_path / "out").depth == 4


def test_missing_weights_are_refused_by_name(tmp_path):
    tiny("llama").model.save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"], weights["model.layers.2.mlp.up_proj.weight"]
    save_file(weights, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(LensproofError, match=r"lack model\.layers\.1\.mlp\.up_proj\.weight and 1 more"):
        load(tmp_path)
