"""Deploy marks beside figures: where they stand on a chart, and which version a moment was in."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from leasehold.core.model.failure import Failure
from leasehold.core.model.pins import Pin


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


def since(failure: Failure, mark: Pin) -> str:
    """What a deploy did to a failure: brought it, left it, or ended it."""
    if failure.first_at >= mark.at:
        return "new"
    return "still there" if failure.last_at >= mark.at else "gone"
