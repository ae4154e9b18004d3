"""Durations as people give them: seconds, a timedelta, or text such as "90s", "5m" and "2h30m"."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from itertools import pairwise
from typing import Any, Final

from leasehold.core.model.numbers import plain_number
from leasehold.core.model.text import shown

Seconds = float | timedelta | str
"""A duration may be seconds, a timedelta, or text with units: "5m", "2h30m", "7d"."""

_UNITS: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_SHOWN: Final = (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1), ("s", 1))
_PLAIN: Final = re.compile(r"\d+(?:\.\d+)?")
_DURATION: Final = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|[smhdw]))+", re.IGNORECASE)
_ENDLESS: Final = 1e18
"""In seconds; longer than anything lasts."""
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])", re.IGNORECASE)


def plain_seconds(value: object) -> int | float | None:
    """A duration in seconds; None if the value is not a duration.

    >>> plain_seconds("2h30m"), plain_seconds(timedelta(minutes=5)), plain_seconds(1.5)
    (9000, 300.0, 1.5)
    >>> plain_seconds("soon"), plain_seconds(True)
    (None, None)
    >>> plain_seconds(10**400), plain_seconds("9" * 400 + "s")
    (inf, inf)
    """
    if isinstance(value, timedelta):
        return value.total_seconds()
    if not isinstance(value, str):
        number = plain_number(value)
        # An int may be too large for a float.
        return math.inf if number is not None and number > _ENDLESS else number
    text = value.strip()
    if _PLAIN.fullmatch(text):
        return float(text)
    # Match the whole text first: in a long text without units, `findall` would search for one again
    # after every digit.
    if not _DURATION.fullmatch(text):
        return None
    parts = _PART.findall(text)
    seconds = sum(float(number) * _UNITS[unit.lower()] for number, unit in parts)
    return int(seconds) if seconds < _ENDLESS and seconds == int(seconds) else seconds


def duration_text(seconds: float) -> str:
    """A duration for people, reasonably exact, in the form that options accept.

    >>> [duration_text(seconds) for seconds in (0.042, 1.25, 59.7, 90, 27_565, 200_000)]
    ['42ms', '1.2s', '1m', '1m30s', '7h39m', '2d8h']
    """
    if seconds < 0.9995:
        return f"{max(0.0, seconds) * 1000:.0f}ms"
    if seconds < 9.95:
        return f"{seconds:.1f}".removesuffix(".0") + "s"
    left = round(seconds)
    parts: list[str] = []
    for (unit, size), (_, smaller) in pairwise(_SHOWN):
        if left >= size and not parts:
            left = round(seconds / smaller) * smaller  # Two units are enough.
        count, left = divmod(left, size)
        parts += [f"{count}{unit}"] if count else []
    return "".join(parts[:2])


def seconds_or_none(name: str, value: Seconds | None) -> float | None:
    """`given_seconds`, where None means that there is no such duration."""
    return None if value is None else given_seconds(name, value)


def read_seconds(value: Any) -> Any:
    """A timedelta, or text with units, as seconds; any other value is left unchanged, to be
    checked as a number.

    >>> read_seconds("5m"), read_seconds("soon"), read_seconds(None)
    (300, 'soon', None)
    """
    if isinstance(value, str | timedelta):
        seconds = plain_seconds(value)
        return value if seconds is None else seconds
    return value


def given_seconds(name: str, value: Seconds) -> float:
    """A duration in seconds; raises a ValueError that names the argument if it is none."""
    seconds = plain_seconds(value)
    if seconds is None or math.isnan(seconds):
        raise ValueError(
            f'{name} must be seconds, a timedelta or text such as "5m", not {shown(value)}'
        )
    return seconds
