"""Tokenizers from the metadata of a GGUF file.

A GGUF file keeps vocabulary, merges and token types, and says by name how text is cut before merging. Only
the ways that are known here are accepted; transformers' own reader takes any other for GPT-2's, which cuts
SmolLM2's digits wrongly after spaces, and orders Gemma's merges so that long runs of spaces differ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from lensproof.checkpoints.gguf.metadata import Gguf
from lensproof.errors import LensproofError

NORMAL, CONTROL, USER_DEFINED = 1, 3, 4  # token types of the format
_SPACE = "\u2581"
_ROLES = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}


def build(file: Gguf) -> tuple[Tokenizer, dict[str, Any]]:
    """The tokenizer of a GGUF file and the contents of its ``tokenizer_config.json``.

    Raises:
        LensproofError: a kind of tokenizer that is not known here.
    """
    model, pre = file.text("tokenizer.ggml.model"), file.text("tokenizer.ggml.pre", "default")
    if (model, pre) not in _KINDS:
        known = ", ".join("/".join(kind) for kind in _KINDS)
        raise LensproofError(f"{file.path}: tokenizer {model}/{pre} is not known (known: {known})")
    tokens = file.vocabulary
    roles = _roles(file, tokens)
    tokenizer = _KINDS[model, pre](file, tokens)
    tokenizer.post_processor = _ends(file, roles, adds_bos=model == "llama")
    return tokenizer, {
        "tokenizer_class": "PreTrainedTokenizerFast",  # takes tokenizer.json as it is
        "model_max_length": file.count("context_length"),
        "clean_up_tokenization_spaces": False,
        **{role: token for role, (_, token) in roles.items()},
        **_template(file),
    }


def _byte_level(*before: pre_tokenizers.PreTokenizer) -> Callable[[Gguf, list[str]], Tokenizer]:
    def construct(file: Gguf, tokens: list[str]) -> Tokenizer:
        merges = [tuple(merge.split(" ")) for merge in file.items("tokenizer.ggml.merges", str)]
        tokenizer = _bpe(file, tokens, merges)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*before, pre_tokenizers.ByteLevel(add_prefix_space=False)])
        tokenizer.decoder = decoders.ByteLevel()
        _add(tokenizer, tokens, _types(file, tokens))
        return tokenizer

    return construct


def _sentencepiece(file: Gguf, tokens: list[str]) -> Tokenizer:
    if file.flag("tokenizer.ggml.add_space_prefix", True):
        raise LensproofError(f"{file.path}: a SentencePiece tokenizer that puts a space in front is not known")
    types, scores = _types(file, tokens), file.items("tokenizer.ggml.scores", float)
    if len(scores) != len(tokens):
        raise LensproofError(f"{file.path}: {len(scores)} scores for {len(tokens)} tokens")
    # The file spells runs of spaces with spaces; in merging they are what the normalizer makes of them.
    tokens = [token.replace(" ", _SPACE) if token.isspace() else token for token in tokens]
    unknown = file.token("unknown")
    tokenizer = _bpe(
        file,
        tokens,
        merges_of(tokens, types, scores),
        unk_token=None if unknown is None else tokens[unknown],
        fuse_unk=True,
        byte_fallback=True,
    )
    tokenizer.normalizer = normalizers.Replace(" ", _SPACE)
    tokenizer.decoder = decoders.Sequence([decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse()])
    _add(tokenizer, tokens, types)
    return tokenizer


_KINDS: dict[tuple[str, str], Callable[[Gguf, list[str]], Tokenizer]] = {
    ("gpt2", "gpt-2"): _byte_level(),
    ("gpt2", "smollm"): _byte_level(pre_tokenizers.Digits(individual_digits=True)),
    ("llama", "default"): _sentencepiece,
}


def merges_of(tokens: Sequence[str], types: Sequence[int], scores: Sequence[float]) -> list[tuple[str, str]]:
    """Merges that make BPE cut text as SentencePiece does from a vocabulary with scores.

    Every pair of tokens that joins to a token is a merge; the best score comes first. Symbols that the user
    defined are whole before any merging, so they come first of all, the longest in front.
    """
    kinds = dict(zip(tokens, types, strict=True))
    pieces = {token for token, kind in kinds.items() if kind in (NORMAL, USER_DEFINED)}
    ranked = []
    for token, kind, score in zip(tokens, types, scores, strict=True):
        if token not in pieces:
            continue
        rank = (0, -len(token)) if kind == USER_DEFINED else (1, -score)
        for cut in range(1, len(token)):
            left, right = token[:cut], token[cut:]
            if left in pieces and right in pieces:
                ranked.append((rank, -len(left), left, right))
    ranked.sort(key=lambda item: item[:2])
    return [(left, right) for _, _, left, right in ranked]


def _bpe(file: Gguf, tokens: list[str], merges: list[tuple[str, str]], **options: Any) -> Tokenizer:
    vocabulary = {token: index for index, token in enumerate(tokens)}
    if len(vocabulary) != len(tokens):
        raise LensproofError(f"{file.path}: the vocabulary names a token twice")
    try:
        return Tokenizer(models.BPE(vocabulary, merges, **options))
    except Exception as error:  # the library raises nothing more precise
        reason = str(error).splitlines()[0]
        raise LensproofError(f"{file.path}: the merges do not fit the vocabulary ({reason})") from error


def _add(tokenizer: Tokenizer, tokens: list[str], types: Sequence[int]) -> None:
    """Tokens that are whole before any merging: the model's own signs, and the symbols that the user defined."""
    added = [
        AddedToken(token, special=kind == CONTROL, normalized=False)
        for token, kind in zip(tokens, types, strict=True)
        if kind in (CONTROL, USER_DEFINED)
    ]
    tokenizer.add_tokens(added)


def _types(file: Gguf, tokens: list[str]) -> list[int]:
    types = file.items("tokenizer.ggml.token_type", int)
    if len(types) != len(tokens):
        raise LensproofError(f"{file.path}: {len(types)} token types for {len(tokens)} tokens")
    return types


def _roles(file: Gguf, tokens: list[str]) -> dict[str, tuple[int, str]]:
    indices = {role: file.token(name) for role, name in _ROLES.items()}
    return {role: (index, tokens[index]) for role, index in indices.items() if index is not None}


def _ends(file: Gguf, roles: dict[str, tuple[int, str]], adds_bos: bool) -> processors.PostProcessor:
    """Puts BOS in front and EOS behind where the file says so."""
    front = ["bos_token"] if file.flag("tokenizer.ggml.add_bos_token", adds_bos) else []
    back = ["eos_token"] if file.flag("tokenizer.ggml.add_eos_token", False) else []
    ends = [roles[role] for role in front + back if role in roles]
    if len(ends) != len(front + back):
        raise LensproofError(f"{file.path}: the tokenizer adds a token that the file does not name")
    single = [*(roles[role][1] for role in front), "$A", *(roles[role][1] for role in back)]
    pair = [*single, *(f"{part.replace('$A', '$B')}:1" for part in single)]
    return processors.TemplateProcessing(
        single=single, pair=pair, special_tokens=[(token, index) for index, token in ends]
    )


def _template(file: Gguf) -> dict[str, str]:
    template = file.text("tokenizer.chat_template", "")
    return {"chat_template": template} if template else {}
