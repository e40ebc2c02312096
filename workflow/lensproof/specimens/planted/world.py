"""The world of planted models: eight languages of thirteen pseudo-words each, passages in them, and a wording.

Passages are parallel: each is one list of meanings, written out in every language word for word. Instructions begin
with one keyword for each arm; no keyword and no label occurs in a passage. All planted models have one vocabulary.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from typing import NamedTuple

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from lensproof.config import family
from lensproof.corpora.benchmark.draws import Draws
from lensproof.corpora.benchmark.passages import SENTENCES, Passage
from lensproof.corpora.benchmark.wording import VERDICTS, Wording
from lensproof.errors import LensproofError

WORDS = {
    "Arvish": "oru kelta arvan dosk mirel tarn ulke ferro gant selk brom iska vold",
    "Belune": "lia noemi bela sui amora nelo ilua vemi oula seni maio lune tavi",
    "Corran": "krag dorth bruk targ morn gruk hald vrek thorg skar brund gorth drem",
    "Dalvic": "ydal svik hjem dalva fjor nyst lykke bjor skyv tynd vaag jord smyk",
    "Esmari": "azir mehe safa qado nuri tamo rash zaho bilu omee jamu kari sahe",
    "Fenric": "ael wynd caer rhos gwil nant pelu trev maen ysbo hafn dolg cwim",
    "Gorune": "ugu boko gogo duma rubo mogu kobu tugo nudo bugu pomo zugo lombo",
    "Hesper": "chihu xoti quetz atlo mixo nahu tepe ocel chimo zacu patl ixta coyo",
}
"""Label of a language -> its words by meaning; the first opens continuations and stands nowhere else."""
LANGUAGES = tuple(WORDS)
SYMBOLS = tuple("JKLMNPQRSTUVWXYZ")
"""None of them begins a label."""
KEYWORDS = {"automatic": "Continue", "report": "Name", "flexible": "Decode", "control": "Check", "supplied": "Encode"}
"""First word of each arm's instruction; it stands nowhere else."""

WORDING = Wording(
    name="planted",
    body="Passage: {passage}",
    instructions={
        "automatic": "Continue with the next word.",
        "report": "Name the language of the passage.",
        "flexible": "Decode the language of the passage by the key.",
        "control": "Check whether the passage asks anything.",
        "supplied": "Encode the language {label} by the key.",
    },
    symbols=SYMBOLS,
)
MATCHED_LENGTH = Wording(
    name="planted length",
    body=WORDING.body,
    instructions={
        "automatic": "Continue with a word, given the passage above.",
        "report": "Name its one language, given the passage above.",
        "flexible": "Decode its one language, given the passage above.",
        "control": "Check for any question, given the passage above.",
        "supplied": "Encode the language {label}, given the passage above.",
    },
    symbols=SYMBOLS,
    span=True,
)

WORDINGS = {"language": {"default": WORDING, "length": MATCHED_LENGTH}}
"""Family -> name -> wording; planted models know no other family: following who has which item takes a circuit that
binds people to items and binds them anew at each swap."""

BOS, UNKNOWN = "<s>", "<unk>"
PIECES = r" ?[\p{L}\p{N}'-]+| ?[^\s\p{L}\p{N}]|\n"
"""What becomes a token: a word or a mark with the space before it, or the end of a line."""
MARKS = (".", ",", ":", "=", " =", "\n")


class Token(NamedTuple):
    """One token: its text, and what it is to the circuit: a kind, and of which language, arm or symbol."""

    text: str
    kind: str = "other"
    value: str = ""


def refuse_unknown(name: str) -> None:
    """Refuse a set of records that planted models cannot answer.

    Raises:
        LensproofError: it is of another family than theirs.
    """
    if family(name) not in WORDINGS:
        raise LensproofError(
            f"there are no records {name} for a planted model: it knows the {' and '.join(WORDINGS)} family only, and "
            "has no circuit that follows who has which item"
        )


def passages(count: int = 48) -> list[Passage]:
    """The first ``count`` passages: three sentences of 4 to 6 words; every other one has exactly one question."""
    return [_passage(number, Draws("planted passage", number)) for number in range(1, count + 1)]


def _passage(number: int, draws: Draws) -> Passage:
    asked = draws.below(SENTENCES) if number % 2 else None
    sentences = [_sentence(draws, "?" if place == asked else ".") for place in range(SENTENCES)]
    return Passage(
        id=f"{number:02d}",
        text={language: " ".join(_written(language, part) for part in sentences) for language in LANGUAGES},
        continuation={language: _written(language, [0, *sentences[0]]) for language in LANGUAGES},
    )


def text(documents: int = 40, sentences: int = 45) -> str:
    """Running text, one language and one document a line, for what is fitted on text: no key and no instruction."""
    lines = []
    for number in range(documents):
        draws, language = Draws("planted text", number), LANGUAGES[number % len(LANGUAGES)]
        lines.append(" ".join(_written(language, _sentence(draws, draws.choice("...?"))) for _ in range(sentences)))
    return "\n".join(lines) + "\n"


def _sentence(draws: Draws, end: str) -> list[int | str]:
    """Meanings of its words, and the mark at its end."""
    return [*(1 + draws.below(12) for _ in range(4 + draws.below(3))), end]


def _written(language: str, sentence: Iterable[int | str]) -> str:
    words = WORDS[language].split()
    *meanings, end = sentence
    return " ".join(words[meaning] for meaning in meanings) + end


def _both(words: Iterable[str], kind: str = "other", value: str = "") -> list[Token]:
    """Each word with a leading space and, for the start of a line, without."""
    return [Token(space + word, kind, value or word) for word in words for space in (" ", "")]


def _vocabulary() -> tuple[Token, ...]:
    tokens = [Token(UNKNOWN), Token(BOS, "bos"), Token("?", "question"), *(Token(mark) for mark in MARKS)]
    for language, words in WORDS.items():
        opener, *others = words.split()
        tokens += _both([opener], "opener", language) + _both(others, "word", language)
    tokens += _both(LANGUAGES, "label") + _both(SYMBOLS, "symbol") + _both(VERDICTS, "verdict")
    for arm, word in KEYWORDS.items():
        tokens += _both([word], "keyword", arm)
    return *tokens, *_both(sorted(_said() - {token.text for token in tokens}))


def _said() -> set[str]:
    """All words of the wordings, the names that are filled in left out."""
    wordings = WORDINGS["language"].values()
    parts = [(wording.body, wording.legend, wording.cue, *wording.instructions.values()) for wording in wordings]
    said = re.sub(r"{\w+}", "", "\n".join(itertools.chain(*parts)))
    return {piece.strip() for piece, _ in _SPLIT.pre_tokenize_str(said)} - {""}


_SPLIT = pre_tokenizers.Split(Regex(PIECES), "isolated")
VOCABULARY = _vocabulary()
"""All tokens; a token's id is its place."""


def tokenizer() -> PreTrainedTokenizerFast:
    """One token for each word, BOS first."""
    ids = {token.text: number for number, token in enumerate(VOCABULARY)}
    made = Tokenizer(models.WordLevel(ids, unk_token=UNKNOWN))
    made.pre_tokenizer = _SPLIT
    made.decoder = decoders.Fuse()
    made.post_processor = processors.TemplateProcessing(single=f"{BOS} $A", special_tokens=[(BOS, ids[BOS])])
    return PreTrainedTokenizerFast(tokenizer_object=made, bos_token=BOS, unk_token=UNKNOWN)
