"""Articles of a MediaWiki dump, as plain text."""

from __future__ import annotations

import bz2
import html
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

if TYPE_CHECKING:
    from mwparserfromhell.nodes import Node
    from mwparserfromhell.wikicode import Wikicode

# Parts that are not running text.
_TAGS = {
    "ref", "references", "table", "math", "chem", "ce", "gallery", "timeline", "imagemap", "graph", "score", "hiero",
    "source", "syntaxhighlight", "pre",
}  # fmt: skip
_LINKS = {"file", "image", "media", "category"}
_BACK_MATTER = {
    "see also", "references", "external links", "further reading", "notes", "footnotes", "bibliography", "sources",
    "notes and references", "works cited", "citations", "gallery",
}  # fmt: skip

# Templates whose numbered values are running text.
_SPOKEN = {
    "angbr": ("1",), "convert": ("1", "2"), "lang": ("2",), "nihongo": ("1",), "nowrap": ("1",), "quote": ("1",),
    "smaller": ("1",), "transl": ("2",), "vanchor": ("1",),
}  # fmt: skip

# What a part that is dropped leaves behind: (; from Greek), ( ), a space before a comma.
_SCARS = (
    (re.compile(r"__[A-Z]+__|'{2,}"), ""),
    (re.compile(r"[^\S\n]+"), " "),
    (re.compile(r"\((?: ?[;,])* ?"), "("),
    (re.compile(r" ?\( ?\)"), ""),
    (re.compile(r" (?=[,.;:)](?:\s|$))"), ""),
)

_BROKEN = re.compile(r"^[|!]|^\{\||\[\[|\]\]|\{\{|\}\}|</?ref\b")
"""Markup that the parser could not make sense of; the line goes."""


def articles(path: Path) -> Iterator[str]:
    """Markup of the articles of a dump (XML, plain or bz2), redirects left out, one page in memory at a time."""
    with bz2.open(path) if path.suffix == ".bz2" else path.open("rb") as stream:
        for _, element in ElementTree.iterparse(stream):
            if not element.tag.endswith("}page"):
                continue
            space = element.tag.removesuffix("page")
            if element.findtext(f"{space}ns") == "0" and element.find(f"{space}redirect") is None:
                yield element.findtext(f"{space}revision/{space}text") or ""
            element.clear()


def plain(markup: str) -> str:
    """Wiki markup as plain text.

    Running text stays, one paragraph or list item a line, sections one empty line apart under their headings.
    Templates (but for a few that are read aloud), tables, references, formulas, pictures and category links go,
    and so do sections of references and links, and headings with no text of their own.
    """
    import mwparserfromhell

    sections, skipped = [], 7
    for section in mwparserfromhell.parse(markup).get_sections(flat=True, include_lead=True):
        heading = next(iter(section.ifilter_headings(recursive=False)), None)
        title, level = (_clean(_spoken(heading.title)), heading.level) if heading else ("", 1)
        if level <= skipped:
            skipped = level if title.lower() in _BACK_MATTER else 7
        if level >= skipped:
            continue
        body = _clean("".join(_node(node) for node in section.nodes if node is not heading))
        if body:
            sections.append(f"{title}\n{body}" if title else body)
    return "\n\n".join(sections)


def _spoken(code: Wikicode | None) -> str:
    return "" if code is None else "".join(_node(node) for node in code.nodes)


def _node(node: Node) -> str:
    """What of a node is read aloud."""
    from mwparserfromhell import nodes

    match node:
        case nodes.Text():
            return str(node.value)
        case nodes.HTMLEntity():
            return str(node)
        case nodes.Wikilink():
            return _wikilink(node)
        case nodes.ExternalLink():
            return _spoken(node.title)
        case nodes.Tag():
            return _tag(node)
        case nodes.Template():
            values = (node.get(key).value for key in _SPOKEN.get(_name(node.name), ()) if node.has(key))
            return " ".join(_spoken(value).strip() for value in values)
        case nodes.Heading():
            return f"\n{_spoken(node.title)}\n"
        case _:  # comments, arguments of templates
            return ""


def _wikilink(node: Node) -> str:
    title = str(node.title)
    if title.partition(":")[0].strip().lower() in _LINKS:
        return ""
    return _spoken(node.text) if node.text is not None else title.lstrip(":").partition("#")[0]


def _tag(node: Node) -> str:
    name = _name(node.tag)
    if name in _TAGS:
        return ""
    if name in ("br", "hr"):
        return "\n"
    return _spoken(node.contents)


def _name(code: Wikicode) -> str:
    return str(code).strip().lower()


def _clean(text: str) -> str:
    """One paragraph a line, without empty ones."""
    text = html.unescape(text)
    for scar, repair in _SCARS:
        text = scar.sub(repair, text)
    lines = (line.strip() for line in text.split("\n"))
    return "\n".join(line for line in lines if line and not _BROKEN.search(line))
