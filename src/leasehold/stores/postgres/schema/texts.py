"""Text that PostgreSQL cannot hold: it does not allow NUL characters."""

from __future__ import annotations

from typing import Final, TypeVar

OptionalText = TypeVar("OptionalText", str, None, str | None)
_IN_NO_NAME: Final = "\ufffe"
"""Names are printable, and this is not a character."""


def storable(text: OptionalText) -> OptionalText:
    r"""A message as it can be stored: a NUL character in it becomes the replacement character.

    >>> storable("a\x00b")
    'a�b'
    """
    return text.replace("\x00", "�") if text is not None and "\x00" in text else text


def sendable(text: str) -> str:
    r"""A text that the server accepts: one with a NUL becomes a name that nothing has.

    So a search for such a name finds nothing, as in the other stores. Messages to be stored are
    made `storable` first.

    >>> sendable("a\x00b").isprintable()
    False
    """
    return text.replace("\x00", _IN_NO_NAME) if "\x00" in text else text
