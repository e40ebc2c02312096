"""Parallel passages: the same few sentences in several languages, and the sentence that follows, held back.

Ours are text files, one per language (``workflow/resources/passages``): for each passage a heading ``# 01 bread``,
three sentences and the continuation, a line each, and a blank line. FLORES-200 rows come through the same interface:
three consecutive rows are a passage, the next one is its continuation (Gathered section 1 of the method).
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import lensproof
from lensproof.errors import LensproofError
from lensproof.files import damaged, read_json, write_json

OWN = Path(lensproof.__file__).parents[1] / "resources" / "passages"
"""The project's own passages."""
REFERENCE = "English"
"""What the others are aligned with; names and instructions are in it, so it is never a candidate."""
TRAINING = 24
"""So many of our own passages, the first, are for training adapters; nothing is tested on them."""
SENTENCES = 3
QUESTION_MARKS = "?؟"

FLORES = {
    "Arabic": "arb_Arab", "Czech": "ces_Latn", "Danish": "dan_Latn", "Dutch": "nld_Latn", "Estonian": "est_Latn",
    "Finnish": "fin_Latn", "French": "fra_Latn", "German": "deu_Latn", "Hungarian": "hun_Latn",
    "Indonesian": "ind_Latn", "Italian": "ita_Latn", "Norwegian": "nob_Latn", "Polish": "pol_Latn",
    "Portuguese": "por_Latn", "Romanian": "ron_Latn", "Russian": "rus_Cyrl", "Spanish": "spa_Latn",
    "Swedish": "swe_Latn", "Turkish": "tur_Latn", "Ukrainian": "ukr_Cyrl", "Vietnamese": "vie_Latn",
}  # fmt: skip
"""Language -> its code in FLORES-200. Those that write words apart: the automatic arm's answer is a first word."""


@dataclass(frozen=True)
class Passage:
    """One passage.

    Attributes:
        id: unique among passages; the cluster that its instances are resampled in.
        text: language -> the sentences before the continuation, as one paragraph.
        continuation: language -> the sentence that follows.
        topic: one word or two on what it is about, for people.
        training: whether it is for training adapters rather than for testing.
    """

    id: str
    text: Mapping[str, str]
    continuation: Mapping[str, str]
    topic: str = ""
    training: bool = False

    def question(self, language: str) -> bool:
        """Whether its text has a question mark."""
        return any(mark in self.text[language] for mark in QUESTION_MARKS)


def load(source: str | Path, form: str = "passages", languages: Sequence[str] | None = None) -> list[Passage]:
    """The passages of a folder.

    Args:
        source: the folder.
        form: ``passages`` (a text file per language, named ``spanish.txt``, ``english.txt`` among them) or ``flores``
            (``spa_Latn.devtest``, a row per line, as first released, or ``spa_Latn.jsonl``, as on the hub).
        languages: those to load; all but English if none are named.

    Raises:
        LensproofError: a language that is not there, or files that are not parallel; the line names file and passage.
    """
    if not Path(source).is_dir():
        raise LensproofError(f"{source} is not a folder of passages: correct its path")
    read = {"passages": _own, "flores": _flores}[form]
    found = read(Path(source), languages)
    if not found:
        raise LensproofError(f"{source} holds no passage")
    return found


def named(languages: Iterable[str], passages: Sequence[Passage]) -> list[str]:
    """``languages``, if every passage has them all.

    Raises:
        LensproofError: one has not.
    """
    known = [name for name in passages[0].text if all(name in passage.text for passage in passages)]
    for name in languages:
        if name not in known:
            raise LensproofError(f"there are no passages in {name} (there are in {', '.join(known)})")
    return list(languages)


def _own(folder: Path, languages: Sequence[str] | None) -> list[Passage]:
    files = {path.stem.capitalize(): path for path in sorted(folder.glob("*.txt"))}
    if REFERENCE not in files:
        raise LensproofError(f"{folder} has no {REFERENCE.lower()}.txt, with which the other languages are aligned")
    _all_known(folder, languages, files)
    reference = _blocks(files[REFERENCE])
    chosen = [name for name in languages or files if name != REFERENCE]
    texts = {name: _aligned(files[name], reference) for name in chosen}
    passages = []
    for number, (heading, *_) in enumerate(reference):
        identity, _, topic = heading.removeprefix("# ").partition(" ")
        text = {name: " ".join(blocks[number][1:-1]) for name, blocks in texts.items()}
        continuation = {name: blocks[number][-1] for name, blocks in texts.items()}
        passages.append(Passage(identity, text, continuation, topic, training=number < TRAINING))
    return passages


def _all_known(folder: Path, languages: Sequence[str] | None, files: Mapping[str, Path]) -> None:
    for name in languages or ():
        if name not in files or name == REFERENCE:
            known = ", ".join(known for known in files if known != REFERENCE)
            raise LensproofError(f"{folder} has no passages in {name} (there are in {known})")


def _blocks(path: Path) -> list[list[str]]:
    """Heading, sentences and continuation of each passage."""
    text = _text(path)
    if text != unicodedata.normalize("NFC", text):
        raise LensproofError(f"{path} is not in Unicode's composed form (NFC), in which tokenizers expect text")
    blocks = [block.split("\n") for block in re.split(r"\n{2,}", text.replace("\r\n", "\n").strip("\n"))]
    seen: set[str] = set()
    for heading, *lines in blocks:
        identity = _HEADING.fullmatch(heading)
        if identity is None:
            raise LensproofError(f"{path}: {heading!r} stands where a heading such as `# 01 bread` should")
        if identity[1] in seen:
            raise LensproofError(f"{path}: two passages are numbered {identity[1]}")
        seen.add(identity[1])
        if len(lines) != SENTENCES + 1 or not all(line.strip() for line in lines):
            raise LensproofError(f"{path}, {heading}: {len(lines)} lines, not {SENTENCES} sentences and a continuation")
    return blocks


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise LensproofError(f"{path} is not UTF-8 text ({error.reason} at byte {error.start})") from None


_HEADING = re.compile(r"# (\d+) (\S.*)")


def _aligned(path: Path, reference: Sequence[Sequence[str]]) -> list[list[str]]:
    """The blocks of a language, heading by heading and question by question those of the reference."""
    blocks = _blocks(path)
    if len(blocks) != len(reference):
        raise LensproofError(f"{path} has {len(blocks)} passages, not the {len(reference)} of {REFERENCE}")
    for ours, theirs in zip(blocks, reference, strict=True):
        if ours[0] != theirs[0]:
            raise LensproofError(f"{path}: the heading {ours[0]!r} stands where {REFERENCE} has {theirs[0]!r}")
        for number in range(1, len(theirs)):
            if ("?" in ours[number]) != ("?" in theirs[number]):
                wrong = "lacks the question mark" if "?" in theirs[number] else "has a question mark"
                raise LensproofError(f"{path}, {ours[0]}: sentence {number} {wrong}, unlike {REFERENCE}")
    return blocks


def _flores(folder: Path, languages: Sequence[str] | None) -> list[Passage]:
    """Four rows make a passage and its continuation; the rows of the next begin after them, so none share any."""
    files = {name: path for name, code in FLORES.items() if (path := _rows_of(folder, code)) is not None}
    _all_known(folder, languages, files)
    rows = {name: _rows(files[name]) for name in languages or files}
    lengths = {name: len(lines) for name, lines in rows.items()}
    if len(set(lengths.values())) > 1:
        least, most = min(lengths, key=lengths.get), max(lengths, key=lengths.get)
        raise LensproofError(
            f"{folder}: {lengths[least]} rows in {least}, {lengths[most]} in {most}: they are not parallel"
        )
    step = SENTENCES + 1
    return [
        Passage(
            id=f"{start + 1:04d}",
            text={name: " ".join(lines[start : start + SENTENCES]) for name, lines in rows.items()},
            continuation={name: lines[start + SENTENCES] for name, lines in rows.items()},
        )
        for start in range(0, min(lengths.values(), default=0) - SENTENCES, step)
    ]


def _rows_of(folder: Path, code: str) -> Path | None:
    """The file of a language, in the folder or in its ``devtest``."""
    places = (folder, folder / "devtest")
    return next(
        (p for place in places for end in ("devtest", "jsonl") if (p := place / f"{code}.{end}").is_file()), None
    )


def _rows(path: Path) -> list[str]:
    lines = _text(path).removesuffix("\n").split("\n")
    try:
        rows = [json.loads(line)["text"] for line in lines] if path.suffix == ".jsonl" else lines
    except (ValueError, KeyError, TypeError) as error:
        raise LensproofError(f"{path} does not hold a JSON object with `text` in every line ({error})") from None
    return [unicodedata.normalize("NFC", row.strip()) for row in rows]


def write(path: str | Path, passages: Sequence[Passage], provenance: Mapping[str, Any]) -> None:
    """Write passages as one JSON file, their provenance in it."""
    write_json(path, {"passages": [asdict(passage) for passage in passages], "provenance": dict(provenance)})


def read(path: str | Path) -> list[Passage]:
    """The passages that :func:`write` wrote, or those of a folder of ours.

    Raises:
        LensproofError: another file, or none.
    """
    if Path(path).is_dir():
        return load(path)
    try:
        return [Passage(**passage) for passage in read_json(path, "passages")["passages"]]
    except TypeError as error:
        raise damaged(path, f"it holds no passages: {error}") from None
