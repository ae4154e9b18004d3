"""The definition of text, anything that can be written as UTF-8, and how it is searched."""

from __future__ import annotations


def is_text(value: str) -> bool:
    r"""Whether it can be stored at all.

    Bytes of a file name or an argument that are not UTF-8 come to Python as lone surrogates, which
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


def mentions(text: str, part: str) -> bool:
    """Whether a text holds a part, in any case.

    >>> mentions("nach MÜNCHEN, Hauptstraße", "münchen"), mentions("Straße", "STRASSE")
    (True, True)
    """
    return part.casefold() in text.casefold()
