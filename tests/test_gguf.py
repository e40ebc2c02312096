"""GGUF files to checkpoints: values by hand, models that must compute the same, tokenizers, and files to refuse."""

from __future__ import annotations

import json
import struct

import gguf
import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from tokenizers.pre_tokenizers import ByteLevel
from transformers import AutoModelForCausalLM, AutoTokenizer

from lensproof.checkpoints.gguf import convert
from lensproof.checkpoints.gguf.tokenizer import merges_of
from lensproof.config import RandomSource
from lensproof.errors import LensproofError
from lensproof.files import read_parquet
from lensproof.specimens.tiny import random_model

Packing = gguf.GGMLQuantizationType
ROWS = 600  # of the embedding: more than any vocabulary below
COMMON = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
OWN = {
    "llama": {"ffn_norm": "post_attention_layernorm"},
    "gemma3": {
        "attn_q_norm": "self_attn.q_norm",
        "attn_k_norm": "self_attn.k_norm",
        "post_attention_norm": "post_attention_layernorm",
        "ffn_norm": "pre_feedforward_layernorm",
        "post_ffw_norm": "post_feedforward_layernorm",
    },
}


def byte_level_vocabulary():
    """Metadata of a tokenizer with every byte, a few merges and two signs."""
    merges = ["Ġ Ġ", "Ġ 1", "1 2", "Ġ a", "ĠĠ ĠĠ", "a b"]
    tokens = ["<end>", "<start>", *sorted(ByteLevel.alphabet()), *("".join(merge.split(" ")) for merge in merges)]
    return {
        "model": "gpt2",
        "pre": "smollm",
        "tokens": tokens,
        "token_type": [3, 3] + [1] * (len(tokens) - 2),
        "merges": merges,
        "bos_token_id": 1,
        "eos_token_id": 0,
        "add_bos_token": False,
    }


def sentencepiece_vocabulary():
    """Metadata of a tokenizer with byte fallback, runs of spaces that the user defined, and a few scored pieces."""
    signs = ["<pad>", "<eos>", "<bos>", "<unk>"]
    runs = [" " * length for length in range(2, 6)]
    pieces = ["▁a", "ab", "▁ab", *"ab12▁"]
    tokens = signs + ["\n", "\n\n"] + runs + [f"<0x{byte:02X}>" for byte in range(256)] + pieces
    defined = len(runs) + 2
    return {
        "model": "llama",
        "pre": "default",
        "tokens": tokens,
        "token_type": [3] * len(signs) + [4] * defined + [6] * 256 + [1] * len(pieces),
        "scores": [-1000.0] * (len(signs) + defined) + [0.0] * 256 + [-float(rank) for rank in range(len(pieces))],
        "bos_token_id": 2,
        "eos_token_id": 1,
        "unknown_token_id": 3,
        "padding_token_id": 0,
        "add_bos_token": True,
        "add_space_prefix": False,
    }


VOCABULARIES = {"llama": byte_level_vocabulary, "gemma3": sentencepiece_vocabulary}


def shapes(blocks=1, width=32, heads=2, kv=1, hidden=64):
    """Metadata that sizes a model."""
    return {
        "context_length": 128,
        "embedding_length": width,
        "block_count": blocks,
        "feed_forward_length": hidden,
        "attention.head_count": heads,
        "attention.head_count_kv": kv,
        "attention.key_length": width // heads,
        "attention.layer_norm_rms_epsilon": 1e-5,
        "rope.freq_base": 10000.0,
    }


def write(path, architecture, tensors, own=None, tokenizer=None, extra=None):
    """A GGUF file; a tensor is an array, or a pair of packed bytes and packing."""
    writer = gguf.GGUFWriter(path, architecture)
    own = {**shapes(), **({"attention.sliding_window": 16} if architecture == "gemma3" else {}), **(own or {})}
    metadata = {f"{architecture}.{key}": value for key, value in own.items()}
    tokenizer = tokenizer or VOCABULARIES[architecture]()
    metadata |= {f"tokenizer.ggml.{key}": value for key, value in tokenizer.items()}
    for key, value in {**metadata, **(extra or {})}.items():
        if value is None:
            continue
        match value:
            case bool():
                writer.add_bool(key, value)
            case int():
                writer.add_uint32(key, value)
            case float():
                writer.add_float32(key, value)
            case str():
                writer.add_string(key, value)
            case _:
                writer.add_array(key, value)
    for name, tensor in tensors.items():
        if isinstance(tensor, tuple):
            writer.add_tensor(name, tensor[0], raw_dtype=tensor[1])
        else:
            writer.add_tensor(name, np.ascontiguousarray(tensor, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def pairs_side_by_side(weight, heads):
    """llama.cpp's order of rows: of every head, row i of the first half, row i of the second half, and so on."""
    half = len(weight) // heads // 2
    order = [2 * half * head + half * which + row for head in range(heads) for row in range(half) for which in (0, 1)]
    return weight[order]


def packed_away(model, architecture):
    """The weights of a model of transformers as llama.cpp names, orders and offsets them."""
    config, names = model.config, {**COMMON, **OWN[architecture]}
    tensors = {}
    for name, parameter in model.named_parameters():
        values = parameter.detach().numpy()
        if architecture == "llama" and "q_proj" in name:
            values = pairs_side_by_side(values, config.num_attention_heads)
        if architecture == "llama" and "k_proj" in name:
            values = pairs_side_by_side(values, config.num_key_value_heads)
        if architecture == "gemma3" and "norm" in name:
            values = values + np.float32(1)
        for short, long in names.items():
            if name == long:
                tensors[short] = values
            elif name.startswith("model.layers.") and name.endswith(f".{long}.weight"):
                tensors[f"blk.{name.split('.')[2]}.{short}.weight"] = values
    assert len(tensors) == len(list(model.named_parameters()))
    return tensors


def sizes(model):
    """What a model's config says, as metadata."""
    config = model.config
    own = shapes(
        config.num_hidden_layers,
        config.hidden_size,
        config.num_attention_heads,
        config.num_key_value_heads,
        config.intermediate_size,
    )
    return {**own, "attention.layer_norm_rms_epsilon": config.rms_norm_eps}


def tiny_llama(tied=True, layers=2):
    return random_model(
        RandomSource(kind="random", architecture="llama", layers=layers, vocabulary=ROWS, tied=tied, seed=3)
    )


def tiny_tensors():
    """Tensors of a llama file that is sound."""
    return packed_away(tiny_llama(), "llama")


def tiny_file(path, tensors=None, **changes):
    return write(
        path, "llama", tiny_tensors() if tensors is None else tensors, **{"own": sizes(tiny_llama()), **changes}
    )


# Values ----------------------------------------------------------------------------------------------------------


def q8_0(scale, numbers):
    return np.frombuffer(struct.pack("<e32b", scale, *numbers), dtype=np.uint8)


def q4_1(scale, least, low, high):
    nibbles = [first | second << 4 for first, second in zip(low, high, strict=True)]
    return np.frombuffer(struct.pack("<ee16B", scale, least, *nibbles), dtype=np.uint8)


def test_values_are_unpacked_as_by_hand(tmp_path):
    tensors = tiny_tensors()
    numbers = np.arange(-16, 16)
    rows = np.stack([q8_0(0.5 * (row % 4 + 1), numbers) for row in range(ROWS)])
    tensors["token_embd.weight"] = rows, Packing.Q8_0
    low, high = np.arange(16), np.arange(16)[::-1]
    tensors["blk.0.attn_v.weight"] = np.stack([q4_1(0.25, -float(row), low, high) for row in range(16)]), Packing.Q4_1
    convert(tiny_file(tmp_path / "a.gguf", tensors), tmp_path / "out")

    found = load_file(tmp_path / "out" / "model.safetensors")
    scales = 0.5 * (np.arange(ROWS) % 4 + 1)
    assert np.array_equal(found["model.embed_tokens.weight"], np.outer(scales, numbers))
    by_hand = 0.25 * np.concatenate([low, high])[None, :] - np.arange(16)[:, None]
    assert np.array_equal(found["model.layers.0.self_attn.v_proj.weight"], by_hand)
    assert {values.dtype for values in found.values()} == {np.dtype("float32")}


def test_packings_of_the_desk_checkpoints_are_exact(tmp_path):
    """Q4_K and Q6_K, whose blocks are 256 wide, and Q5_0, against the gguf package's own unpacking."""
    model = random_model(RandomSource(kind="random", architecture="llama", layers=3, width=256, vocabulary=ROWS))
    tensors, generator = packed_away(model, "llama"), np.random.default_rng(0)
    expected = {}
    for block, packing in enumerate((Packing.Q4_K, Packing.Q6_K, Packing.Q5_0)):
        elements, size = gguf.GGML_QUANT_SIZES[packing]
        raw = generator.integers(0, 60, (256, 256 // elements * size), dtype=np.uint8)  # small bytes: finite scales
        tensors[f"blk.{block}.attn_output.weight"] = raw, packing
        expected[f"model.layers.{block}.self_attn.o_proj.weight"] = gguf.dequantize(raw, packing)
    convert(tiny_file(tmp_path / "a.gguf", tensors, own=sizes(model)), tmp_path / "out")
    found = load_file(tmp_path / "out" / "model.safetensors")
    for name, values in expected.items():
        assert np.isfinite(values).all()
        assert np.ptp(values) > 0
        assert np.array_equal(found[name], values)


# Models ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tied", [True, False])
def test_llama_computes_the_same(tmp_path, tied):
    model = tiny_llama(tied=tied)
    convert(tiny_file(tmp_path / "a.gguf", packed_away(model, "llama"), own=sizes(model)), tmp_path / "out")
    _same_logits(model, tmp_path / "out")
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["tie_word_embeddings"] is tied
    assert config["rms_norm_eps"] == model.config.rms_norm_eps


def test_gemma3_computes_the_same(tmp_path):
    """Twelve blocks: the file does not say which attend to all positions, llama.cpp takes every sixth."""
    source = RandomSource(kind="random", architecture="gemma3_text", layers=12, vocabulary=ROWS, window=16, seed=4)
    model = random_model(source)
    kinds = ["full_attention" if (block + 1) % 6 == 0 else "sliding_attention" for block in range(12)]
    model.config.layer_types = kinds
    model.config.query_pre_attn_scalar = model.config.head_dim
    model = type(model)(model.config).eval()
    for name, parameter in model.named_parameters():
        if "norm" in name:
            torch.nn.init.normal_(parameter, std=0.3)
    own = {**sizes(model), "rope.freq_base": 1000000.0, "attention.sliding_window": 16}
    tensors = packed_away(model, "gemma3")
    convert(write(tmp_path / "a.gguf", "gemma3", tensors, own=own), tmp_path / "out")
    loaded = _same_logits(model, tmp_path / "out", 1e-6)
    assert loaded.config.layer_types == kinds
    assert loaded.config.sliding_window == 16
    assert loaded.config.rope_parameters["full_attention"]["rope_theta"] == 1000000.0
    assert loaded.config.rope_parameters["sliding_attention"]["rope_theta"] == 10000.0
    # The gain of a norm is kept as llama.cpp had it, to the last bit.
    gains = load_file(tmp_path / "out" / "model.safetensors")["model.norm.weight"] + np.float32(1)
    assert np.array_equal(gains, tensors["output_norm.weight"])


def _same_logits(model, folder, tolerance=0.0):
    loaded, notes = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    assert not notes["missing_keys"]
    assert not notes["unexpected_keys"]
    ids = torch.randint(0, ROWS, (2, 40), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        ours, theirs = loaded.eval()(ids).logits, model(ids).logits
    assert theirs.std() > 0
    assert (ours - theirs).abs().max() <= tolerance * theirs.abs().max()
    return loaded


def test_linear_rope_scaling_is_kept(tmp_path):
    own = {**sizes(tiny_llama()), "rope.scaling.type": "linear", "rope.scaling.factor": 4.0}
    convert(tiny_file(tmp_path / "a.gguf", own=own), tmp_path / "out")
    config = AutoModelForCausalLM.from_pretrained(tmp_path / "out").config
    assert (config.rope_parameters["rope_type"], config.rope_parameters["factor"]) == ("linear", 4.0)


def test_the_same_file_gives_the_same_bytes(tmp_path):
    path = tiny_file(tmp_path / "a.gguf")
    for out in ("one", "two"):
        convert(path, tmp_path / out)
    for file in (tmp_path / "one").iterdir():
        assert file.read_bytes() == (tmp_path / "two" / file.name).read_bytes()


# Tokenizers ------------------------------------------------------------------------------------------------------

TEXTS = [
    "a ab  12 1 2\n\n  b", "Ünïcode — 日本語 😀 \u0301\u200b", "", " ", "\n", "a" + " " * 9 + "b",
    "\tdef f(x):\r\n    return x",
    "\x00\x7f", "don't", "½ Ⅷ ٣٤ ²",
]  # fmt: skip


def tokenizer_of(tmp_path, architecture, tokenizer=None, **changes):
    if architecture == "llama":
        path = tiny_file(tmp_path / "a.gguf", tokenizer=tokenizer, **changes)
    else:
        source = RandomSource(kind="random", architecture="gemma3_text", layers=1, vocabulary=ROWS)
        model = random_model(source)
        path = write(
            tmp_path / "a.gguf", "gemma3", packed_away(model, "gemma3"), sizes(model), tokenizer, changes.get("extra")
        )
    convert(path, tmp_path / "out")
    return AutoTokenizer.from_pretrained(tmp_path / "out")


@pytest.mark.parametrize("architecture", ["llama", "gemma3"])
def test_decoding_undoes_encoding(tmp_path, architecture):
    tokenizer = tokenizer_of(tmp_path, architecture)
    for text in TEXTS:
        ids = tokenizer(text)["input_ids"]
        assert ids.count(tokenizer.bos_token_id) == (architecture == "gemma3")
        assert tokenizer.decode(ids, skip_special_tokens=True) == text


def test_digits_stand_alone_in_smollm(tmp_path):
    """A merge of a space or a digit with a digit exists, but the cut before merging does not let it happen."""
    tokenizer = tokenizer_of(tmp_path, "llama")
    assert tokenizer.tokenize("a  12 1") == ["a", "ĠĠ", "1", "2", "Ġ", "1"]


def test_gpt2_keeps_digits_together(tmp_path):
    tokenizer = tokenizer_of(tmp_path, "llama", {**byte_level_vocabulary(), "pre": "gpt-2"})
    assert tokenizer.tokenize("a  12 1") == ["a", "Ġ", "Ġ1", "2", "Ġ1"]


def test_signs_are_whole_and_known(tmp_path):
    tokenizer = tokenizer_of(tmp_path, "llama", extra={"tokenizer.chat_template": "{{ messages[0].content }}!"})
    assert tokenizer("<start>a<end>")["input_ids"] == [1, tokenizer.convert_tokens_to_ids("a"), 0]
    assert (tokenizer.bos_token, tokenizer.eos_token) == ("<start>", "<end>")
    assert tokenizer.apply_chat_template([{"role": "user", "content": "Hi"}], tokenize=False) == "Hi!"


def test_runs_of_spaces_are_cut_as_sentencepiece_cuts_them(tmp_path):
    """Symbols that the user defined are taken longest first, from the left, and never merge on."""
    tokenizer = tokenizer_of(tmp_path, "gemma3")
    for length, cut in {2: [2], 3: [3], 5: [5], 6: [5, 1], 7: [5, 2], 11: [5, 5, 1], 13: [5, 5, 3]}.items():
        assert tokenizer.tokenize("1" + " " * length + "2") == ["1", *("▁" * run for run in cut), "2"]
    assert tokenizer.tokenize("1  ab") == ["1", "▁▁", "ab"]
    assert tokenizer.tokenize("\n\n\n") == ["\n\n", "\n"]


def test_bytes_stand_in_for_what_is_not_in_the_vocabulary(tmp_path):
    tokenizer = tokenizer_of(tmp_path, "gemma3")
    assert tokenizer.tokenize("é") == ["<0xC3>", "<0xA9>"]


def test_gemma_has_one_bos_and_its_signs(tmp_path):
    tokenizer = tokenizer_of(tmp_path, "gemma3")
    assert tokenizer("ab")["input_ids"] == [2, tokenizer.convert_tokens_to_ids("ab")]
    assert (tokenizer.pad_token, tokenizer.unk_token) == ("<pad>", "<unk>")


def test_eos_is_added_where_the_file_says_so(tmp_path):
    tokenizer = tokenizer_of(tmp_path, "gemma3", {**sentencepiece_vocabulary(), "add_eos_token": True})
    assert tokenizer("ab")["input_ids"] == [2, tokenizer.convert_tokens_to_ids("ab"), 1]


def test_merges_come_best_score_first():
    tokens, types, scores = ["a", "b", "ab", "ba", "aba", "<x>"], [1, 1, 1, 1, 1, 3], [-3.0, -4.0, -1.0, 0.0, -2.0, 0.0]
    assert merges_of(tokens, types, scores) == [("b", "a"), ("a", "b"), ("ab", "a"), ("a", "ba")]


# Files to refuse -------------------------------------------------------------------------------------------------


def without(tensors, name):
    return {key: value for key, value in tensors.items() if key != name}


REFUSED = {
    "architecture falcon is not known (known: llama, gemma3)": lambda path: write(
        path, "falcon", {}, tokenizer=byte_level_vocabulary()
    ),
    "tokenizer gpt2/tekken is not known": lambda path: tiny_file(
        path, tokenizer={**byte_level_vocabulary(), "pre": "tekken"}
    ),
    "a SentencePiece tokenizer that puts a space in front": lambda path: tiny_file(
        path, tokenizer={**sentencepiece_vocabulary(), "add_space_prefix": True}
    ),
    "tensor rope_freqs.weight is not known in llama": lambda path: tiny_file(
        path, {**tiny_tensors(), "rope_freqs.weight": np.ones(8)}
    ),
    "tensor blk.0.attn_q.bias is not known in llama": lambda path: tiny_file(
        path, {**tiny_tensors(), "blk.0.attn_q.bias": np.ones(32)}
    ),
    "model.layers.1.mlp.up_proj.weight is missing": lambda path: tiny_file(
        path, without(tiny_tensors(), "blk.1.ffn_up.weight")
    ),
    "model.layers.2.self_attn.v_proj.weight is missing": lambda path: tiny_file(
        path, own={**sizes(tiny_llama()), "block_count": 3}, tensors=without(
            packed_away(tiny_llama(layers=3), "llama"), "blk.2.attn_v.weight"
        )
    ),
    "but its metadata asks for": lambda path: tiny_file(path, own={**sizes(tiny_llama()), "feed_forward_length": 32}),
    "rope scaling yarn is not known": lambda path: tiny_file(
        path, own={**sizes(tiny_llama()), "rope.scaling.type": "yarn"}
    ),
    "lacks the metadata key llama.block_count": lambda path: tiny_file(
        path, own={**sizes(tiny_llama()), "block_count": None}
    ),
    "lacks the metadata key tokenizer.ggml.merges": lambda path: tiny_file(
        path, tokenizer={**byte_level_vocabulary(), "merges": None}
    ),
    "the merges do not fit the vocabulary": lambda path: tiny_file(
        path, tokenizer={**byte_level_vocabulary(), "merges": ["no such"]}
    ),
    "the vocabulary names a token twice": lambda path: tiny_file(
        path, tokenizer={**byte_level_vocabulary(), "tokens": ["a", "a"], "token_type": [1, 1], "merges": ["a a"]}
    ),
    "adds a token that the file does not name": lambda path: tiny_file(
        path, tokenizer={**byte_level_vocabulary(), "add_bos_token": True, "bos_token_id": None}
    ),
}  # fmt: skip


@pytest.mark.parametrize("message", REFUSED)
def test_what_is_not_known_is_refused_by_name(tmp_path, message):
    _refused(REFUSED[message](tmp_path / "a.gguf"), tmp_path / "out", message)


def test_a_packing_that_is_not_known_is_refused(tmp_path):
    path = tiny_file(
        tmp_path / "a.gguf", {**tiny_tensors(), "blk.0.attn_v.weight": (np.zeros((16, 32), np.int8), Packing.I8)}
    )
    _refused(path, tmp_path / "out", "packing I8 is not known")


@pytest.mark.parametrize("kept", [0, 3, 20, 100, 5000, -4000, -1])
def test_a_file_that_is_cut_off_is_refused(tmp_path, kept):
    path = tiny_file(tmp_path / "a.gguf")
    path.write_bytes(path.read_bytes()[:kept])
    _refused(path, tmp_path / "out", "is not a whole GGUF file")


def test_other_files_are_refused(tmp_path):
    (tmp_path / "a.gguf").write_bytes(b"PK\x03\x04" * 100)
    _refused(tmp_path / "a.gguf", tmp_path / "out", "is not a whole GGUF file")
    _refused(tmp_path / "none.gguf", tmp_path / "out", "none.gguf does not exist")


def _refused(path, out, message):
    with pytest.raises(LensproofError) as raised:
        convert(path, out)
    assert message in str(raised.value)
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)
    assert not out.exists()


# The desk's checkpoints -------------------------------------------------------------------------------------------

# Token ids as llama.cpp cuts the same files, and twice the perplexity found on a little news.
DESK = {
    "smollm2-135m": ([504, 3575, 282, 4649, 314, 216, 34, 32, 33, 256, 36], 64),
    "gemma3-270m": ([2, 818, 5279, 529, 7001, 563, 236743, 236778, 236771, 236770, 138, 236812], 40),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", DESK)
def test_a_desk_checkpoint_cuts_text_and_reads_english(root, name):
    """Wrongly converted weights give perplexities in the hundreds and more."""
    folder, corpus = root / "results" / "checkpoints" / name, root / "results" / "corpora" / "lee.parquet"
    assert (folder / "checkpoint.json").is_file(), "run `make reproduce` first"
    ids, most = DESK[name]
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder).eval()
    assert tokenizer("The capital of France is 201  4")["input_ids"] == ids
    losses = []
    for text in read_parquet(corpus)["text"][:8]:
        rows = tokenizer(text, return_tensors="pt")["input_ids"][:, :128]
        with torch.no_grad():
            losses.append(model(rows, labels=rows).loss.item())
    assert 8 < np.exp(np.mean(losses)) < most
