"""Documents from the files that corpora come in.

Whatever its format, a corpus becomes a table with one row per document. Exact repetitions are dropped, the first
stays: documents are the clusters of every bootstrap, and a repeated one would stand on both sides of a split.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from lensproof.errors import LensproofError
from lensproof.files import damaged
from lensproof.progress import bar

if TYPE_CHECKING:
    import pandas as pd

WHOLE = "all"
"""Name of the only part of a corpus that is a single file."""


def documents(source: str | Path, form: str) -> pd.DataFrame:
    """The documents of a corpus.

    Args:
        source: a file, or a folder of them; in a folder each file, or each set of numbered files
            (``train-00000-of-00002.parquet``), is a part of the corpus.
        form: ``lines``, ``paragraphs``, ``mediawiki`` (an XML dump, plain or bz2) or ``wikitext`` (Parquet rows).

    Returns:
        Columns document (int32, running number), part (the file's name without what follows the part,
        :data:`WHOLE` for a single file) and text.

    Raises:
        LensproofError: a file that is missing, empty or not in that format.
    """
    import pandas as pd

    rows: list[tuple[str, str]] = []
    seen: set[str] = set()
    for part, paths in parts(source, form).items():
        for text in _checked(_FORMS[form][1], paths):
            if text and text not in seen:
                seen.add(text)
                rows.append((part, text))
    if not rows:
        raise LensproofError(f"{source} holds no document in the format {form}")
    table = pd.DataFrame(rows, columns=["part", "text"])
    table.insert(0, "document", range(len(table)))
    return table.astype({"document": "int32"})


def parts(source: str | Path, form: str) -> dict[str, list[Path]]:
    """Part of a corpus -> its files, both in the order of their names."""
    source = Path(source)
    if source.is_file():
        return {WHOLE: [source]}
    if not source.is_dir():
        raise LensproofError(f"{source} does not exist: get it with `lensproof fetch`, or correct its path")
    suffixes = _FORMS[form][0]
    files = sorted(path for path in source.rglob("*") if path.is_file() and path.suffix in suffixes)
    if not files:
        raise LensproofError(f"{source} holds no file that ends in {' or '.join(suffixes)}, as {form} asks for")
    found: dict[str, list[Path]] = {}
    for path in files:
        found.setdefault(_NUMBERED.sub("", path.stem), []).append(path)
    return found


_NUMBERED = re.compile(r"-\d+-of-\d+$")


def _checked(read: Callable[[list[Path]], Iterator[str]], paths: list[Path]) -> Iterator[str]:
    """Texts without space around them; trouble with a file becomes one line."""
    try:
        for text in read(paths):
            yield text.strip()
    except (OSError, EOFError, ValueError, KeyError, SyntaxError) as error:
        raise damaged(", ".join(map(str, paths)), f"it cannot be read: {error}", paths[0]) from error


def _lines(paths: list[Path]) -> Iterator[str]:
    for path in paths:
        yield from path.read_text(encoding="utf-8").split("\n")


def _paragraphs(paths: list[Path]) -> Iterator[str]:
    for path in paths:
        yield from re.split(r"\n[^\S\n]*\n", path.read_text(encoding="utf-8"))


def _wikitext(paths: list[Path]) -> Iterator[str]:
    """Articles of WikiText: rows are lines, and a title is a row `` = Title = `` between two empty rows."""
    rows = _rows(paths)
    article: list[str] = []
    for index, row in enumerate(rows):
        alone = not "".join(rows[max(index - 1, 0) : index] + rows[index + 1 : index + 2]).strip()
        if alone and _TITLE.match(row):
            yield "".join(article)
            article = []
        article.append(row)
    yield "".join(article)


_TITLE = re.compile(r"^ = (?!= ).*(?<! =) = \n?$")


def _rows(paths: list[Path]) -> list[str]:
    import pyarrow.parquet as pq

    return [row for path in paths for row in pq.read_table(path, columns=["text"])["text"].to_pylist()]


def _mediawiki(paths: list[Path]) -> Iterator[str]:
    from lensproof.corpora.wiki import articles, plain

    for markup in bar((page for path in paths for page in articles(path)), "strip markup", unit="page"):
        yield plain(markup)


_FORMS: dict[str, tuple[tuple[str, ...], Callable[[list[Path]], Iterator[str]]]] = {
    "lines": ((".txt", ".cor"), _lines),
    "paragraphs": ((".txt", ".cor"), _paragraphs),
    "mediawiki": ((".xml", ".bz2"), _mediawiki),
    "wikitext": ((".parquet",), _wikitext),
}
"""Format -> how its files end, for a corpus that is a folder; its reader."""
