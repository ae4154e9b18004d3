"""Text that others wrote, made safe to show.

Job output, names and errors may hold anything: escape sequences that recolour, retitle or rewrite
the terminal, characters that turn the direction of text, lines of a megabyte.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

LENGTH_MAX: Final = 4096

# Control (Cc), format such as bidi overrides (Cf), surrogates (Cs), line and paragraph separators.
_UNSAFE_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
_ASCII_PRINTABLE: Final = re.compile(r"[ -~]*\Z")


def safe(text: str, *, lines: bool = False, limit: int | None = LENGTH_MAX) -> str:
    r"""The text with everything unprintable spelled out, cut after `limit` characters.

    With `lines`, line ends and tabs stay.

    >>> safe("\x1b[31mred\x07 and \u202eback")
    '\\x1b[31mred\\x07 and \\u202eback'
    >>> safe("one\ntwo", lines=True), safe("one\ntwo")
    ('one\ntwo', 'one\\ntwo')
    >>> safe("x" * 20, limit=10)
    'xxxxxxxxx…'
    """
    if limit is not None and len(text) > limit:
        text = text[: limit - 1] + "…"
    if _ASCII_PRINTABLE.match(text):
        return text
    return "".join(_visible(char, lines=lines) for char in text)


def safe_json(text: str) -> str:
    r"""JSON text with everything unprintable escaped: the same document, but harmless to look at.

    >>> safe_json('"\u202eback"')
    '"\\u202eback"'
    """
    if _ASCII_PRINTABLE.match(text):
        return text
    return "".join(
        _json_escape(char) if _is_unsafe(char) and char != "\n" else char for char in text
    )


def _visible(char: str, *, lines: bool) -> str:
    if not _is_unsafe(char) or (lines and char in "\n\t"):
        return char
    return char.encode("unicode_escape").decode()


def _json_escape(char: str) -> str:
    data = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{data[i]:02x}{data[i + 1]:02x}" for i in range(0, len(data), 2))


def _is_unsafe(char: str) -> bool:
    return unicodedata.category(char) in _UNSAFE_CATEGORIES
