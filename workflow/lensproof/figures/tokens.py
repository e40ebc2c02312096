"""How tokens are shown, the same everywhere: on one line, with the spaces at their ends, and no box for a character."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

SPACE = "·"
CLIPPED = "…"
ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
PLAIN = ("normal", "normal", 400, "normal")
"""Style, variant, weight and stretch of a font that text is set in."""
OTHERWISE = ("Last Resort", "cm", "STIXNonUnicode", "STIXSize")
"""Fonts that come with matplotlib and have other things in the places of characters: boxes, parts of formulas."""


def visible(token: str) -> str:
    """A token on one line: ``·`` for each space at its ends, and escapes or code points for what cannot be printed."""
    body = token.strip(" ")
    if not body:
        return SPACE * len(token)
    left, right = (len(token) - len(side) for side in (token.lstrip(" "), token.rstrip(" ")))
    printed = (ESCAPES.get(one, one if one.isprintable() else code_point(one)) for one in body)
    return SPACE * left + "".join(printed) + SPACE * right


def clip(text: str, width: int) -> str:
    """Text of at most ``width`` characters, the last an ellipsis where there were more."""
    return text if len(text) <= width else text[: width - 1] + CLIPPED


def code_point(character: str) -> str:
    """``中`` as ``U+4E2D``."""
    return f"U+{ord(character):04X}"


def spelled(text: str, missing: Collection[str]) -> str:
    """Text with code points in place of the characters ``missing``: ``中文.`` as ``U+4E2D U+6587.``."""
    if not missing:
        return text
    run = f"[{re.escape(''.join(sorted(missing)))}]+"
    return re.sub(run, lambda found: " ".join(map(code_point, found[0])), text)


def fonts_for(texts: Iterable[str], first: str, *, others: bool = True) -> tuple[list[str], set[str]]:
    """Fonts of this machine for texts in any script.

    Args:
        texts: what is to be drawn.
        first: the font to draw with where it can.
        others: whether to look into others too; without them every machine draws the same.

    Returns:
        Families that matplotlib is to look into, in this order, and the characters that none of them has.
    """
    from matplotlib.font_manager import FontProperties, fontManager, get_font

    plain = {
        font.name for font in fontManager.ttflist
        if (font.style, font.variant, font.weight, font.stretch) == PLAIN and not font.name.startswith(OTHERWISE)
    }  # fmt: skip
    missing, families = set().union(*texts), []
    for name in (first, *(sorted(plain - {first}) if others else ())):
        font = get_font(fontManager.findfont(FontProperties(family=[name]), fallback_to_default=False))
        glyphs = font.get_charmap() if font.scalable else {}
        has = {character for character in missing if ord(character) in glyphs}
        if has or name == first:
            families.append(name)
            missing -= has
        if not missing:
            break
    return families, missing
