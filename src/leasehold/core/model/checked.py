"""Checks of the arguments of public calls; the error names the argument that is wrong.

Each check returns the value as it is stored: text and numbers as the built-in types themselves,
since encoders and databases refuse subclasses such as Markup or numpy.str_.

>>> text("queue", ["mail"])
Traceback (most recent call last):
TypeError: queue must be text, not ['mail']
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final, NoReturn, TypeVar

from leasehold.core.model.numbers import plain_number, whole_number
from leasehold.core.model.text import plain_text, shown

T = TypeVar("T")
Many = TypeVar("Many", bound=Iterable[Any])
M = TypeVar("M", bound=Mapping[str, Any])
F = TypeVar("F", bound=Callable[..., Any])

_WHOLE_MAX: Final = 2**63 - 1
"""The largest integer that a database can store."""


def text(name: str, value: str) -> str:
    """A text."""
    if type(value) is str:
        return value
    return plain_text(value) if isinstance(value, str) else _refuse(name, "text", value)


def text_or_none(name: str, value: str | None) -> str | None:
    """A text, or None."""
    return value if value is None or type(value) is str else text(name, value)


def whole(name: str, value: int) -> int:
    """An integer that a database can store; True and 2.0 are refused.

    >>> whole("limit", 3)
    3
    >>> whole("limit", 10**100)
    Traceback (most recent call last):
    ValueError: limit is too large: at most 9,223,372,036,854,775,807
    """
    number = value if type(value) is int else whole_number(value)
    if number is None:
        _refuse(name, "a whole number", value)
    if number > _WHOLE_MAX:
        raise ValueError(f"{name} is too large: at most {_WHOLE_MAX:,}")
    return number


def whole_or_none(name: str, value: int | None) -> int | None:
    """An integer, or None."""
    return None if value is None else whole(name, value)


def number_or_none(name: str, value: float | None) -> float | None:
    """A number, or None."""
    if value is None or plain_number(value) is not None:
        return value
    return _refuse(name, "a number", value)


def above_zero(name: str, value: float) -> float:
    """A number of seconds above 0, which may be infinite."""
    number = plain_number(value)
    if number is None:
        _refuse(name, "a number of seconds", value)
    if not number > 0:  # Neither is NaN.
        raise ValueError(f"{name} must be above 0, not {shown(value)}")
    return number


def at_least(least: int, name: str, value: int) -> int:
    """An integer of at least `least`."""
    number = whole(name, value)
    if number < least:
        raise ValueError(f"{name} must be {least} or more, not {number}")
    return number


def moment_or_none(name: str, value: datetime | None) -> datetime | None:
    """A moment, or None."""
    if value is None or isinstance(value, datetime):
        return value
    return _refuse(name, "a datetime", value)


def path(name: str, value: str | os.PathLike[str]) -> str | os.PathLike[str]:
    """A path: text, or a pathlib.Path."""
    return value if isinstance(value, str | os.PathLike) else _refuse(name, "a path", value)


def several(name: str, value: Many) -> Many:
    """Several values; a string is one value, not a sequence of letters.

    >>> several("jobs", "job-1")
    Traceback (most recent call last):
    TypeError: jobs must be a list, not 'job-1'
    """
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        _refuse(name, "a list", value)
    return value


def several_or_none(name: str, value: Many | None) -> Many | None:
    """Several values, or None."""
    return None if value is None else several(name, value)


def each(name: str, values: Iterable[T], kind: type[T]) -> list[T]:
    """Several values of a class."""
    return [instance(f"each of {name}", value, kind) for value in several(name, values)]


def texts(name: str, value: str | Iterable[str]) -> str | tuple[str, ...]:
    """One text, or several."""
    if isinstance(value, str):
        return text(name, value)
    return tuple(text(f"each of {name}", one) for one in several(name, value))


def texts_or_none(name: str, value: str | Iterable[str] | None) -> str | tuple[str, ...] | None:
    """One text, several, or None."""
    return None if value is None else texts(name, value)


def mapping_or_none(name: str, value: M | None) -> M | None:
    """Values by name, or None."""
    if value is None or isinstance(value, Mapping):
        return value
    return _refuse(name, "a mapping, such as a dict,", value)


def flag(name: str, value: bool) -> bool:
    """True or False: a text such as "no" would count as true.

    >>> flag("force", "no")
    Traceback (most recent call last):
    TypeError: force must be True or False, not 'no'
    """
    return value if isinstance(value, bool) else _refuse(name, "True or False", value)


def flag_or_none(name: str, value: bool | None) -> bool | None:
    """True, False or None."""
    return None if value is None else flag(name, value)


def function_or_none(name: str, value: F | None) -> F | None:
    """A function, or None."""
    return value if value is None or callable(value) else _refuse(name, "a function", value)


def instance(name: str, value: T, kind: type[T]) -> T:
    """An object of a class.

    >>> instance("limit", None, int)
    Traceback (most recent call last):
    TypeError: limit must be an int, not None
    """
    if isinstance(value, kind):
        return value
    article = "an" if kind.__name__[0] in "AEIOUaeiou" else "a"
    return _refuse(name, f"{article} {kind.__name__}", value)


def instance_or_none(name: str, value: T | None, kind: type[T]) -> T | None:
    """An object of a class, or None."""
    return None if value is None else instance(name, value, kind)


def _refuse(name: str, wanted: str, value: object) -> NoReturn:
    raise TypeError(f"{name} must be {wanted}, not {shown(value)}")
