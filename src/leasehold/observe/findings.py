"""A finding: one thing that was checked, its state, what that means and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec


class Level(StrEnum):
    """How urgent a finding is."""

    OK = "ok"
    UNKNOWN = "unknown"
    """There is no figure to judge."""
    WARNING = "warning"
    """It works, but somebody should look at it."""
    CRITICAL = "critical"
    """Jobs are not run, or may be lost."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one check."""

    check: str
    """The name of the check; it stays the same."""
    level: Level
    found: str
    """The state, in a few words."""
    meaning: str = ""
    advice: str = ""
    """What to do; empty if nothing is to be done."""
    queue: str | None = None
    """The queue concerned, if any."""


def worst(findings: Iterable[Finding]) -> Level:
    """The most urgent level among them.

    >>> worst([Finding(check="disk", level=Level.WARNING, found="little room")]).value
    'warning'
    """
    order = list(Level)
    return max((finding.level for finding in findings), key=order.index, default=Level.OK)


def verdict(findings: Iterable[Finding]) -> str:
    """All of them in one sentence, the most urgent first.

    >>> verdict([Finding(check="disk", level=Level.OK, found="20 GiB free")])
    'All is well.'
    >>> verdict([Finding(check="no_worker", level=Level.CRITICAL, found="3 pending and no worker",
    ...                  queue="mail"),
    ...          Finding(check="dead_letters", level=Level.WARNING, found="7")])
    'Jobs are held up: queue mail, no worker: 3 pending and no worker; 1 more needs attention.'
    """
    order = (Level.CRITICAL, Level.WARNING)
    urgent = sorted(
        (each for each in findings if each.level in order),
        key=lambda each: order.index(each.level),
    )
    if not urgent:
        return "All is well."
    first, others = urgent[0], len(urgent) - 1
    begin = "Jobs are held up" if first.level is Level.CRITICAL else "It works, but needs attention"
    about = "" if first.queue is None else f"queue {first.queue}, "
    more = f"; {others} more {'needs' if others == 1 else 'need'} attention" if others else ""
    return f"{begin}: {about}{first.check.replace('_', ' ')}: {first.found}{more}."
