"""A small made-up world for tests of the benchmark: passages in six languages, and tokenizers that know their words."""

from __future__ import annotations

import json
from pathlib import Path

from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from lensproof.checkpoints.manifest import MANIFEST, joint
from lensproof.corpora.benchmark import tracking
from lensproof.corpora.benchmark.passages import OWN, Passage, load
from lensproof.corpora.benchmark.wording import LANGUAGE, SYMBOLS, TRACKING, VERDICTS
from lensproof.files import write_json

WORDS = {
    "Spanish": "pan agua casa perro", "German": "Brot Wasser Haus Hund", "French": "pain eau maison chien",
    "Italian": "pane acqua casetta cane", "Polish": "chleb woda dom pies", "Dutch": "brood water huis hond",
}  # fmt: skip
"""Language -> a few of its words; the last begins continuations."""
LANGUAGES = tuple(WORDS)
BOS, UNKNOWN = "<s>", "<unk>"
WORD = r" ?[\p{L}\p{N}'-]+|"
APART, JOINED = WORD + r" ?[^\s\p{L}\p{N}]|\n", WORD + r" ?[^\s\p{L}\p{N}]\n*|\n"
"""Marks alone, or with the line ends after them, as many tokenizers have it."""


def passage(number: int, asks: bool, **changes: str) -> Passage:
    """Passage ``number``; ``changes`` are texts in place of its own."""
    text, continuation = {}, {}
    for language, words in WORDS.items():
        one, two, three, four = words.split()
        sentences = [f"{one} {two}.", f"{two} {three}{'?' if asks else '.'}", f"{three} {number:02d}."]
        text[language], continuation[language] = " ".join(sentences), f"«{four}», {one}."
    return Passage(f"{number:02d}", text | changes, continuation)


def passages(count: int = 8) -> list[Passage]:
    """Every other one asks something."""
    return [passage(number, asks=number % 2 == 0) for number in range(1, count + 1)]


def folder(path: Path, count: int = 28) -> Path:
    """The same as files in ``path``, English beside them."""
    path.mkdir(parents=True, exist_ok=True)
    for language in ("English", *LANGUAGES):
        blocks = []
        for item in passages(count):
            lines = item.text.get(language, item.text["Dutch"]).replace("? ", "?\n").replace(". ", ".\n")
            blocks.append(f"# {item.id} topic\n{lines}\n{item.continuation.get(language, 'And so on.')}\n")
        (path / f"{language.lower()}.txt").write_text("\n".join(blocks), encoding="utf-8")
    return path


def tokenizer(
    pieces: str = APART, bos: bool = False, unknown: tuple[str, ...] = (), more: str = ""
) -> PreTrainedTokenizerFast:
    """One token for each word and mark, those of ``more`` among them, but for the words that are ``unknown``; BOS in
    front where asked for."""
    said = [
        *(" ".join(words.split()) for words in WORDS.values()), *WORDS, *SYMBOLS, *VERDICTS, *tracking.PEOPLE,
        *tracking.EDIBLE, *tracking.INEDIBLE, tracking.HAS, tracking.SWAP, *(f"{number:02d}" for number in range(100)),
        *(part for family in (LANGUAGE, TRACKING) for w in family.values()
          for part in (w.body, w.legend, w.cue, *w.instructions.values())),
        more,
    ]  # fmt: skip
    split = pre_tokenizers.Split(Regex(pieces), "isolated")
    words = {piece.strip() for piece, _ in split.pre_tokenize_str("\n".join(said))} - {""}
    known = [space + word for word in sorted(words - set(unknown)) for space in ("", " ")]
    marks = ["\n", ".", "?", ",", "=", " =", ":", "«", " «", "»", ".\n", ".\n\n", "?\n", ":\n"]
    ids = {token: number for number, token in enumerate(dict.fromkeys([UNKNOWN, BOS, *marks, *known]))}
    made = Tokenizer(models.WordLevel(ids, unk_token=UNKNOWN))
    made.pre_tokenizer = split
    if bos:
        made.post_processor = processors.TemplateProcessing(single=f"{BOS} $A", special_tokens=[(BOS, ids[BOS])])
    return PreTrainedTokenizerFast(tokenizer_object=made, bos_token=BOS, unk_token=UNKNOWN)


def said() -> str:
    """All words of our own held-out passages."""
    held_out = [passage for passage in load(OWN) if not passage.training]
    return " ".join(
        text for item in held_out for text in (*item.text, *item.text.values(), *item.continuation.values())
    )


def checkpoint(path: Path, **options) -> Path:
    """A folder with a tokenizer and a manifest, as far as records need a checkpoint."""
    tokenizer(**options).save_pretrained(path)
    (path / "config.json").write_text(json.dumps({"model_type": "llama"}))
    weights = {"model.safetensors": "0" * 64}
    made = {"name": path.name, "title": "Words", "licence": "CC0-1.0", "architecture": "LlamaForCausalLM", "tied": True}
    sizes = dict.fromkeys(("layers", "width", "vocabulary"), 1)
    write_json(path / MANIFEST, {**made, **sizes, "weights": weights, "sha256": joint(weights), "provenance": {}})
    return path
