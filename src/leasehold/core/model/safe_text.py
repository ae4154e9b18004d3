"""Untrusted text, made safe to show.

Job output, names and errors may hold anything: escape sequences that recolour, retitle or rewrite
the terminal, characters that reverse the direction of text, lines of a megabyte.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

LENGTH_MAX: Final = 4096

# Control (Cc), format such as bidi overrides (Cf), surrogates (Cs), line and paragraph separators.
_UNSAFE_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
ASCII_PRINTABLE: Final = re.compile(r"[ -~]*\Z")


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
    if ASCII_PRINTABLE.match(text):
        return text
    return "".join(_visible(char, lines=lines) for char in text)


def is_unsafe(char: str) -> bool:
    """Whether a terminal may do anything with a character other than show it."""
    return unicodedata.category(char) in _UNSAFE_CATEGORIES


def _visible(char: str, *, lines: bool) -> str:
    if not is_unsafe(char) or (lines and char in "\n\t"):
        return char
    return char.encode("unicode_escape").decode()
