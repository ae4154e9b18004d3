"""Text that PostgreSQL cannot hold: it knows no NUL character."""

from __future__ import annotations

from typing import Final, TypeVar

OptionalText = TypeVar("OptionalText", str, None, str | None)
_IN_NO_NAME: Final = "\ufffe"
"""Names are printable, and this is no character."""


def storable(text: OptionalText) -> OptionalText:
    r"""A message as it can be stored: a NUL character in it becomes the replacement character.

    >>> storable("a\x00b")
    'a�b'
    """
    return text.replace("\x00", "�") if text is not None and "\x00" in text else text


def sendable(text: str) -> str:
    r"""A text as the server takes it: one with a NUL becomes one that nothing is named.

    So what is looked for under such a name is not there, as in the other stores. A message that is
    to be kept is made `storable` before.

    >>> sendable("a\x00b").isprintable()
    False
    """
    return text.replace("\x00", _IN_NO_NAME) if "\x00" in text else text
