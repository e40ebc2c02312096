"""Our own passages: parallel, in the languages that their files say, and with nothing in them that names those."""

from __future__ import annotations

import re
import unicodedata

import py3langid
import pytest
from babel import Locale

from lensproof.corpora.benchmark.passages import OWN, REFERENCE, SENTENCES, TRAINING, Passage, load

CODES = {
    "Czech": "cs", "Danish": "da", "Dutch": "nl", "Finnish": "fi", "French": "fr", "German": "de", "Hungarian": "hu",
    "Italian": "it", "Norwegian": "no", "Polish": "pl", "Portuguese": "pt", "Romanian": "ro", "Russian": "ru",
    "Spanish": "es", "Swedish": "sv", "Turkish": "tr", "Ukrainian": "uk",
}  # fmt: skip
CYRILLIC = ("Russian", "Ukrainian")
NEIGHBOURS = ("Danish", "Norwegian", "Swedish")
"""Languages that a single short sentence may not tell apart."""
PASSAGES = load(OWN)  # which refuses files that are not aligned, sentence by sentence and question by question

each_language = pytest.mark.parametrize("language", CODES)


def whole(passage: Passage, language: str) -> str:
    """Its text with the continuation."""
    return f"{passage.text[language]} {passage.continuation[language]}"


def test_there_are_as_many_as_are_said():
    assert len(PASSAGES) == 56
    assert [passage.training for passage in PASSAGES] == [True] * TRAINING + [False] * 32
    assert all(set(passage.text) == set(passage.continuation) == set(CODES) for passage in PASSAGES)
    assert len({passage.topic for passage in PASSAGES}) == 56


def test_half_of_both_parts_ask_one_thing_the_same_in_every_language():
    for part in (PASSAGES[:TRAINING], PASSAGES[TRAINING:]):
        assert sum(passage.question("Spanish") for passage in part) == len(part) / 2
    for passage in PASSAGES:
        assert {text.count("?") for text in passage.text.values()} == {int(passage.question("Spanish"))}
        assert not any("?" in text for text in passage.continuation.values())


@each_language
def test_a_language_identifier_agrees_on_every_passage(language):
    """With the choice of all the languages that it knows."""
    for passage in PASSAGES:
        assert known_as(passage.text[language]) == CODES[language], passage.id
        assert known_as(whole(passage, language)) == CODES[language], passage.id
        alike = NEIGHBOURS if language in NEIGHBOURS else (language,)
        assert known_as(passage.continuation[language]) in {CODES[name] for name in alike}, passage.id


def known_as(text: str) -> str:
    code = py3langid.classify(text)[0]
    return "no" if code in ("nb", "nn") else code


@each_language
def test_sentences_are_whole_and_in_one_script(language):
    for passage in PASSAGES:
        text = whole(passage, language)
        assert len(re.findall(r"[.?!](?= |$)", text)) == SENTENCES + 1, passage.id
        assert not re.search(r"[\d\"«»„“”:;()\[\]]", text), passage.id
        scripts = {unicodedata.name(letter).split()[0] for letter in text if letter.isalpha()}
        assert scripts == {"CYRILLIC" if language in CYRILLIC else "LATIN"}, passage.id


@each_language
def test_no_language_and_no_country_is_named(language):
    """Neither in English, as candidates and instructions have it, nor in the passage's own language."""
    own = Locale.parse(CODES[language])
    languages = {own.languages[code] for code in (*CODES.values(), "en")} | {*CODES, REFERENCE}
    countries = {name for code, name in own.territories.items() if len(code) == 2}
    for passage in PASSAGES:
        words = " ".join(["", *re.findall(r"\w+", whole(passage, language)), ""])
        named = [name for name in languages if f" {name.lower()} " in words.lower()]
        assert not named + [name for name in countries if f" {name} " in words], passage.id
