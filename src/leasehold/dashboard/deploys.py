"""Deploy marks beside figures: where they stand on a chart, which version a moment was in, and what
a deploy did to a failure.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from leasehold.core.model.failure import Failure
from leasehold.core.model.pins import Pin

GROWN: Final = 2.0
"""A failure grows if it happens this many times as often as before."""
GROWN_ATTEMPTS_MIN: Final = 5
"""Fewer attempts prove nothing."""


def version_at(marks: Sequence[Pin], moment: datetime) -> str | None:
    """The version that was deployed last before a moment; marks come with the oldest first."""
    return next((mark.name for mark in reversed(marks) if mark.at <= moment), None)


def places(marks: Sequence[Pin], at: Sequence[datetime]) -> list[tuple[float, Pin]]:
    """The marks that fall into the steps of a chart, each with its place in steps."""
    if len(at) < 2:
        return []
    step = (at[1] - at[0]).total_seconds()
    found = ((round((mark.at - at[0]).total_seconds() / step, 2), mark) for mark in marks)
    return [(place, mark) for place, mark in found if 0 <= place <= len(at)]


def since(failure: Failure, mark: Pin, now: datetime) -> str:
    """The effect of a deploy on a failure: brought it, let it grow, left it, or ended it."""
    if failure.first_at >= mark.at:
        return "new"
    if failure.last_at < mark.at:
        return "gone"
    return "growing" if is_growing(failure, mark.at, now) else "still there"


def is_growing(failure: Failure, begin: datetime, now: datetime) -> bool:
    """Whether a failure happens at least twice as often since a moment as it did before.

    Whole hours are counted; the hour of the deploy belongs to the time since.
    """
    hours = failure.hours_at(now)
    passed = int((_hour(now) - _hour(begin)) / timedelta(hours=1)) + 1
    lately, before = hours[:passed], hours[passed:]
    known = int((_hour(begin) - _hour(failure.first_at)) / timedelta(hours=1))
    compared = min(len(hours) - passed, known)
    if sum(lately) < GROWN_ATTEMPTS_MIN or compared <= 0:
        return False
    return sum(lately) / len(lately) >= GROWN * sum(before[:compared]) / compared


def _hour(moment: datetime) -> datetime:
    return moment.replace(minute=0, second=0, microsecond=0)
