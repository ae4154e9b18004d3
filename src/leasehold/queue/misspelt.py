"""Options of a submit that are misspelt, where nothing else can tell them from arguments.

A task that is submitted by its name alone may take any argument. So only what is a slip of the
keyboard is refused, and no name that may be a word of its own, as `delays` or `relay` is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from leasehold.errors import InvalidJobError
from leasehold.queue.options import TASK_OPTION_NAMES

LONG_CHARS: Final = 8
"""An option of this length that lacks a letter is no other word."""


def check_not_misspelt(task: str, arguments: Iterable[str]) -> None:
    """Raise InvalidJobError for a keyword argument that is an option, but for one slip.

    >>> check_not_misspelt("mail", ["delays", "relay", "clients", "max_tries"])
    >>> check_not_misspelt("mail", ["max_retires"])
    Traceback (most recent call last):
    leasehold.errors.InvalidJobError: unknown option 'max_retires': did you mean 'max_retries'? \
If it is an argument of the task 'mail', submit NewJob('mail', kwargs={'max_retires': ...})
    """
    for name in arguments:
        for option in TASK_OPTION_NAMES:
            if _is_slip(name, option):
                raise InvalidJobError(
                    f"unknown option {name!r}: did you mean {option!r}? If it is an argument of "
                    f"the task {task!r}, submit NewJob({task!r}, kwargs={{{name!r}: ...}})"
                )


def _is_slip(name: str, option: str) -> bool:
    """Whether two neighbours are swapped, a letter is doubled, or a long name lacks one.

    A wrong letter is not enough: `headline` and `patent_id` are no options.

    >>> [_is_slip(name, "delay") for name in ("dealy", "dellay", "delayy", "ddelay")]
    [True, True, True, True]
    >>> [_is_slip(name, "delay") for name in ("relay", "delays", "ydelay")]
    [False, False, False]
    >>> [_is_slip(name, "deadline") for name in ("dedline", "deadlin", "headline", "deadlines")]
    [True, True, False, False]
    """
    start = _common(name, option)
    end = min(_common(name[::-1], option[::-1]), len(name) - start, len(option) - start)
    ours, theirs = name[start : len(name) - end], option[start : len(option) - end]
    if len(ours) == len(theirs) == 2:
        return ours == theirs[::-1]
    if len(ours) == 1 and not theirs:
        return start > 0 and ours == option[start - 1]
    return not ours and len(theirs) == 1 and len(option) >= LONG_CHARS


def _common(one: str, other: str) -> int:
    """How many characters both begin with."""
    pairs = zip(one, other, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
