"""Text that PostgreSQL cannot hold: it knows no NUL character."""

from __future__ import annotations

from typing import TypeVar

OptionalText = TypeVar("OptionalText", str, None, str | None)


def storable(text: OptionalText) -> OptionalText:
    r"""A message as it can be stored: a NUL character in it becomes the replacement character.

    >>> storable("a\x00b")
    'a�b'
    """
    return text.replace("\x00", "�") if text is not None and "\x00" in text else text
