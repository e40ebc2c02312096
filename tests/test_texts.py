"""Corpora: every format to documents, none twice, none lost; and wiki markup to running text."""

from __future__ import annotations

import bz2
import hashlib
import json
import os
import subprocess
import sys

import pandas as pd
import pytest

from lensproof.corpora.texts import documents
from lensproof.corpora.wiki import plain
from lensproof.errors import LensproofError
from lensproof.files import read_parquet, read_provenance


def texts(table):
    return table["text"].tolist()


def test_one_document_a_line_and_none_twice(tmp_path):
    (tmp_path / "a.cor").write_text("one\ntwo \n\n  \none\nthree\u2028still three\ntwo", encoding="utf-8")
    table = documents(tmp_path / "a.cor", "lines")
    assert texts(table) == ["one", "two", "three\u2028still three"]
    assert table["document"].tolist() == [0, 1, 2]
    assert table["document"].dtype == "int32"
    assert set(table["part"]) == {"all"}
    assert list(table.columns) == ["document", "part", "text"]


def test_paragraphs_are_apart_by_empty_lines(tmp_path):
    (tmp_path / "a.txt").write_text("\n\none\nmore of one\n \t\ntwo\n\n\n\nthree\r\n\r\nfour\n", encoding="utf-8")
    assert texts(documents(tmp_path / "a.txt", "paragraphs")) == ["one\nmore of one", "two", "three", "four"]


def test_the_files_of_a_folder_are_parts(tmp_path):
    for name, text in {"train": "one\ntwo", "test": "three\none"}.items():
        (tmp_path / f"{name}.txt").write_text(text)
    (tmp_path / "README.md").write_text("not a text")
    table = documents(tmp_path, "lines")
    # In the order of the names; what stands in two parts stays in the first.
    assert list(zip(table["part"], table["text"], strict=True)) == [
        ("test", "three"), ("test", "one"), ("train", "two"),
    ]  # fmt: skip


ROWS = [
    "",
    " = First = \n",
    "",
    " Of the first . \n",
    "",
    " = = A section = = \n",
    "",
    " a = b = c \n",
    " = not a title = \n",  # not alone
    " More . \n",
    "",
    " = Second = of two = \n",
    "",
    " Of the second . \n",
]


def test_articles_of_wikitext_begin_at_titles(tmp_path):
    folder = tmp_path / "raw"
    folder.mkdir()
    # The second file of a part goes on where the first ends, in the middle of an article.
    pd.DataFrame({"text": ROWS[:5]}).to_parquet(folder / "train-00000-of-00002.parquet")
    pd.DataFrame({"text": ROWS[5:]}).to_parquet(folder / "train-00001-of-00002.parquet")
    pd.DataFrame({"text": ["", " = Third = \n", "", " Of the third . \n"]}).to_parquet(
        folder / "test-00000-of-00001.parquet"
    )
    table = documents(tmp_path, "wikitext")
    assert table["part"].tolist() == ["test", "train", "train"]
    assert texts(table) == [
        "= Third = \n Of the third .",
        "= First = \n Of the first . \n = = A section = = \n a = b = c \n = not a title = \n More .",
        "= Second = of two = \n Of the second .",
    ]


PAGE = "<page><title>{title}</title><ns>{space}</ns>{redirect}<revision><text>{text}</text></revision></page>"


def dump(*pages):
    body = "".join(
        PAGE.format(title=title, space=space, redirect='<redirect title="x"/>' if redirect else "", text=text)
        for title, space, redirect, text in pages
    )
    return f'<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.10/">{body}</mediawiki>'.encode()


@pytest.mark.parametrize("name", ["a.xml", "a.xml.bz2"])
def test_articles_of_a_dump(tmp_path, name):
    content = dump(
        ("One", 0, False, "'''One''' is a [[number]]."),
        ("Moved", 0, True, "#REDIRECT [[One]]"),
        ("Talk", 1, False, "Talk of one."),
        ("Empty", 0, False, ""),
        ("Notes", 0, False, "{{stub}} [[Category:Numbers]]"),
        ("Two", 0, False, "Two &amp; two &lt;ref&gt;Somebody&lt;/ref&gt;"),
    )
    (tmp_path / name).write_bytes(bz2.compress(content) if name.endswith("bz2") else content)
    assert texts(documents(tmp_path / name, "mediawiki")) == ["One is a number.", "Two & two"]


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("''A'' [[b|c]] [[d]] [http://e.f g] &ndash; '''''h'''''", "A c d g – h"),
        ("A<ref name=x>{{cite|b}}</ref> c<ref name=x/>.", "A c."),
        ("{{Infobox|a={{b|c}}}}\nText.<!-- unseen -->", "Text."),
        ("A [[File:x.jpg|thumb|B [[c]]]] d [[Category:E]][[:Category:F|g]]", "A d g"),
        ("A\n{| class=x\n! b\n|-\n| c\n|}\nD", "A\nD"),
        ("* a\n** b\n# c\n: d\n; e", "a\nb\nc\nd\ne"),
        ("A <math>x^2</math> b<br>c <nowiki>d*</nowiki>", "A b\nc d*"),
        ("({{IPA|x}}; from [[Greek]]) a ({{b}}) c ({{d}})", "(from Greek) a c"),
        ("About {{convert|3|km|mi}} of {{lang|fr|la route}} {{unknown|x}}.", "About 3 km of la route."),
        ("Lead\n== A ==\nB\n=== C ===\n\n== References ==\nD\n=== E ===\nF\n== G ==\nH", "Lead\n\nA\nB\n\nG\nH"),
        ("Lead\n== ''A'' [[b|c]] ==\nD", "Lead\n\nA c\nD"),
        ("__NOTOC__ A\n\n\n\nB   c\u00a0d", "A\nB c d"),
        ("A\n{{broken [[ \nB", "A\nB"),
        ("#redirect", "redirect"),
        ("", ""),
    ],
)
def test_markup_becomes_running_text(markup, text):
    assert plain(markup) == text


def write_wrong_bytes(path):
    path.write_bytes(b"\xff\xfe\x00broken")


@pytest.mark.parametrize(
    ("name", "form", "make", "message"),
    [
        ("none.txt", "lines", lambda path: None, "does not exist"),
        ("a.txt", "lines", lambda path: path.write_text("\n \n"), "holds no document in the format lines"),
        ("a.txt", "lines", write_wrong_bytes, "cannot be read"),
        ("a.txt", "paragraphs", write_wrong_bytes, "cannot be read"),
        ("a.xml", "mediawiki", write_wrong_bytes, "cannot be read"),
        ("a.bz2", "mediawiki", write_wrong_bytes, "cannot be read"),
        ("a.bz2", "mediawiki", lambda path: path.write_bytes(bz2.compress(dump())[:-9]), "cannot be read"),
        ("a.xml", "mediawiki", lambda path: path.write_bytes(dump()[:-9]), "cannot be read"),
        ("a.parquet", "wikitext", write_wrong_bytes, "cannot be read"),
        ("a.parquet", "wikitext", lambda path: pd.DataFrame({"x": ["y"]}).to_parquet(path), "cannot be read"),
        ("folder", "wikitext", lambda path: path.mkdir(), "holds no file that ends in .parquet"),
    ],
)
def test_a_file_that_is_no_corpus_is_refused(tmp_path, name, form, make, message):
    make(tmp_path / name)
    with pytest.raises(LensproofError) as raised:
        documents(tmp_path / name, form)
    assert message in str(raised.value)
    assert str(tmp_path / name) in str(raised.value)
    assert "\n" not in str(raised.value)


# The command -----------------------------------------------------------------------------------------------------


def corpus(source, *arguments, form="lines"):
    split = {"calibration": 0.5, "lens": 0.2, "test": 0.3}
    entry = {"title": "Some", "licence": "CC0-1.0", "format": form, "split": split, "source": source}
    return subprocess.run(
        [sys.executable, "-m", "lensproof", "corpus", "some", "--spec", json.dumps(entry), *map(str, arguments)],
        capture_output=True,
        text=True,
        env=os.environ,
        timeout=120,
    )


def wheel_source(content):
    return {
        "kind": "wheel",
        "packages": ["carrier==1.0"],
        "members": ["a.cor"],
        "filename": "a.cor",
        "sha256": hashlib.sha256(content).hexdigest(),
    }


def test_the_command_writes_documents_with_provenance(tmp_path):
    content, out = b"one\ntwo\n", tmp_path / "results" / "some.parquet"
    (tmp_path / "a.cor").write_bytes(content)
    result = corpus(wheel_source(content), "--file", tmp_path / "a.cor", "--out", out)
    assert result.returncode == 0
    assert result.stdout == ""
    assert texts(read_parquet(out)) == ["one", "two"]
    settings = read_provenance(out)["settings"]
    assert (settings["name"], settings["licence"]) == ("some", "CC0-1.0")
    assert settings["files"] == {"a.cor": hashlib.sha256(content).hexdigest()}
    assert [path.name for path in out.parent.iterdir()] == ["some.parquet"]


def test_the_command_reads_a_file_on_this_machine(tmp_path):
    (tmp_path / "a.txt").write_text("one\n\ntwo")
    result = corpus(
        {"kind": "path", "path": str(tmp_path / "a.txt")}, "--out", tmp_path / "out.parquet", form="paragraphs"
    )
    assert result.returncode == 0
    assert texts(read_parquet(tmp_path / "out.parquet")) == ["one", "two"]


@pytest.mark.parametrize(
    ("source", "file", "message"),
    [
        (wheel_source(b"one"), "a.cor", "has the sha256"),
        (wheel_source(b"one"), "none.cor", "cannot read"),
        (wheel_source(b"one"), None, "give the file from `lensproof fetch` as --file"),
        ({"kind": "path", "path": "nowhere.txt"}, None, "nowhere.txt does not exist"),
        ({"kind": "path", "path": "nowhere.txt", "sha256": "0" * 64}, None, "cannot read nowhere.txt"),
        ({"kind": "random", "architecture": "llama"}, None, "--spec: source"),
    ],
)
def test_the_command_says_what_is_wrong_in_one_line(tmp_path, source, file, message):
    (tmp_path / "a.cor").write_text("two")
    out = tmp_path / "results" / "out.parquet"
    result = corpus(source, *(["--file", tmp_path / file] if file else []), "--out", out)
    assert result.returncode == 2
    assert [line for line in result.stderr.splitlines() if line.startswith("lensproof: ") and message in line]
    assert "Traceback" not in result.stderr
    assert not out.exists()
    assert not out.parent.exists() or not list(out.parent.iterdir())
