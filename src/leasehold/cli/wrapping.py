"""Wrapping sentences at the width of the terminal, between words."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import IO, Any, Final
from unicodedata import combining, east_asian_width

WIDTH_MIN: Final = 40
"""The narrowest width for wrapping: a narrower terminal breaks lines itself."""


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
    if indent + _cells(line) <= width or line.startswith((" ", "\t")):
        return line
    lines = [""]
    for word in _words(line, width - indent):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if indent + _cells(longer) <= width or not lines[-1]:
            lines[-1] = longer
        else:
            lines.append(word)
    return ("\n" + " " * indent).join(lines)


def _words(line: str, width: int) -> Iterator[str]:
    """The words; text of wide characters, which has no blanks, in parts that fit."""
    for word in line.split():
        part = ""
        for character in word if _cells(word) > max(len(word), width) else ():
            if _cells(part + character) > width:
                yield part
                part = ""
            part += character
        yield part or word


def _cells(text: str) -> int:
    """How many columns a text takes: those of East Asian scripts take two for a character."""
    if text.isascii():
        return len(text)
    return sum(2 if east_asian_width(each) in "WF" else not combining(each) for each in text)


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
