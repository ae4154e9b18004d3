"""A finding: one thing that was looked at, how it is, what that means and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec


class Level(StrEnum):
    """How urgent a finding is."""

    OK = "ok"
    UNKNOWN = "unknown"
    """There is no figure to judge by."""
    WARNING = "warning"
    """It works, but somebody should look at it."""
    CRITICAL = "critical"
    """Jobs are not run, or may be lost."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What one check says."""

    check: str
    """The name of the check; it stays the same."""
    level: Level
    found: str
    """How it is, in a few words."""
    meaning: str = ""
    advice: str = ""
    """What to do; empty where nothing is to be done."""
    queue: str | None = None
    """Which queue it is about, if it is about one."""


def worst(findings: Iterable[Finding]) -> Level:
    """The most urgent level among them.

    >>> worst([Finding(check="disk", level=Level.WARNING, found="little room")]).value
    'warning'
    """
    order = list(Level)
    return max((finding.level for finding in findings), key=order.index, default=Level.OK)
