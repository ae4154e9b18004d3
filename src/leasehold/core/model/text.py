"""What counts as text (anything that can be encoded as UTF-8), and how it is searched."""

from __future__ import annotations

import reprlib
from typing import overload

import msgspec


def is_text(value: str) -> bool:
    r"""Whether a string can be stored at all.

    Bytes of a file name or an argument that are not UTF-8 reach Python as lone surrogates, which
    neither a database nor JSON can hold.

    >>> is_text("Zoë"), is_text("Zo\udceb")
    (True, False)
    """
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def plain(value: object) -> object:
    """Text and numbers of the built-in types themselves; any other value as it is.

    Encoders refuse subclasses (numpy.float64, Markup, an IntEnum), though to users they are numbers
    and strings.

    >>> from enum import IntEnum, StrEnum
    >>> Size, Team = IntEnum("Size", "SMALL"), StrEnum("Team", "RED")
    >>> plain(Size.SMALL), plain(Team.RED), plain(True), plain(None)
    (1, 'red', True, None)
    """
    if isinstance(value, str):
        return plain_text(value)
    if isinstance(value, int):
        return value if isinstance(value, bool) else int.__int__(value)
    return float.__float__(value) if isinstance(value, float) else value


@overload
def plain_text(value: str) -> str: ...
@overload
def plain_text(value: None) -> None: ...
@overload
def plain_text(value: str | None) -> str | None: ...
def plain_text(value: str | None) -> str | None:
    """The same for a value that should be text."""
    return value if type(value) is str or not isinstance(value, str) else str.__str__(value)


def make_plain(struct: msgspec.Struct) -> None:
    """Apply `plain` to every field of a struct that is being created."""
    for name in struct.__struct_fields__:
        given = getattr(struct, name)
        value = plain(given)
        if value is not given:
            msgspec.structs.force_setattr(struct, name, value)


def shown(value: object) -> str:
    """A refused value as a message shows it: short, however large, deep or odd it is.

    >>> shown([1, 2]), shown(10**5000), len(shown("long" * 100)) < 40
    ('[1, 2]', 'an int', True)
    """
    try:
        return reprlib.repr(value)
    except Exception:  # noqa: BLE001  # a value's own repr may do anything
        return with_article(type(value).__name__)


def with_article(noun: str) -> str:
    """A noun (often a class name) with its article.

    >>> with_article("int"), with_article("Order"), with_article("UUID")
    ('an int', 'an Order', 'a UUID')
    """
    return f"{'an' if noun[:1] in tuple('aeiouAEIO') else 'a'} {noun}"


def mentions(text: str, part: str) -> bool:
    """Whether a text contains a part, ignoring case.

    >>> mentions("nach MÜNCHEN, Hauptstraße", "münchen"), mentions("Straße", "STRASSE")
    (True, True)
    """
    return part.casefold() in text.casefold()
