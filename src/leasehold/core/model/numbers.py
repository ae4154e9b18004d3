"""Numbers as they are kept: an `int` or a `float` and nothing that only looks like one.

A stored value must be read again unchanged. True is no number here, a Decimal is none, and a number
of a class of its own (numpy's, an enum's) is kept as the plain number that it is.
"""

from __future__ import annotations


def plain_number(value: object) -> int | float | None:
    """The plain number; None if it is none.

    >>> plain_number(2), plain_number(0.5), plain_number(True), plain_number("2")
    (2, 0.5, None, None)
    """
    if type(value) is int or type(value) is float:
        return value
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return int(value)
    return float(value) if isinstance(value, float) else None


def whole_number(value: object) -> int | None:
    """The plain whole number; None if it is none.

    >>> whole_number(2), whole_number(2.0), whole_number(True)
    (2, None, None)
    """
    number = plain_number(value)
    return number if isinstance(number, int) else None
