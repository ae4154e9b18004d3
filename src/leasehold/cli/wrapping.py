"""Sentences broken at the width of the terminal, between words."""

from __future__ import annotations

import os
import textwrap
from typing import IO, Any, Final

WIDTH_MIN: Final = 40
"""Sentences are not squeezed into less: a narrower terminal breaks their lines itself."""


def wrapped(text: str, stream: IO[Any], *, indent: int = 0) -> str:
    """A text in lines that fit the terminal, each but the first indented.

    Into a pipe a sentence stays one line. Indented lines stay as they are: they are code, or a
    traceback.
    """
    width = _width(stream)
    if width is None:
        return text
    return "\n".join(_broken(line, max(WIDTH_MIN, width), indent) for line in text.split("\n"))


def _broken(line: str, width: int, indent: int) -> str:
    if indent + len(line) <= width or line.startswith((" ", "\t")):
        return line
    blanks = " " * indent
    lines = textwrap.wrap(
        line,
        width,
        initial_indent=blanks,
        subsequent_indent=blanks,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(lines).removeprefix(blanks)


def _width(stream: IO[Any]) -> int | None:
    """The columns of a terminal; None where there is none."""
    if not stream.isatty():
        return None
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given):
        return int(given)
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except OSError:
        return None
