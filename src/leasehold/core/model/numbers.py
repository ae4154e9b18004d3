"""Numbers as they are stored: plain `int` and `float`, not types that only resemble them.

A stored value must be read back unchanged. True and Decimals are not numbers here; a number of
another class (numpy's, an enum's) is stored as the plain number that it equals.
"""

from __future__ import annotations


def plain_number(value: object) -> int | float | None:
    """The value as a plain number; None if it is not a number.

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
    """The value as a plain integer; None if it is not an integer.

    >>> whole_number(2), whole_number(2.0), whole_number(True)
    (2, None, None)
    """
    number = plain_number(value)
    return number if isinstance(number, int) else None
