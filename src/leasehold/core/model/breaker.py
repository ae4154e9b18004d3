"""The circuit breaker: a task that keeps failing is held back, and probed.

A broken dependency (a mail server that is down) would otherwise burn the attempts of every job that
needs it. The rule travels with each failure, so that the store, which sees the failures of all
workers, can apply it: after a number of failures in a row, the task's jobs in that queue are held
back. After the pause one of them is leased as a probe, and its end decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from leasehold.core.model.durations import Seconds, plain_seconds
from leasehold.core.model.limits import SECONDS_MAX
from leasehold.core.model.text import make_plain


class Breaker(msgspec.Struct, frozen=True):
    """When to hold a task back, and for how long.

    >>> Breaker(failures=3, pause_seconds=60).opens_at(3)
    True
    """

    failures: int = 5
    """The number of consecutive failed attempts, of any jobs and workers."""
    pause_seconds: float = 30.0
    """How long nothing is leased before one job is let through as a probe."""

    if TYPE_CHECKING:

        def __init__(self, failures: int = 5, pause_seconds: Seconds = 30.0) -> None: ...

    def __post_init__(self) -> None:
        make_plain(self)
        if self.failures < 1:
            raise ValueError(f"a breaker opens after 1 failure or more, not {self.failures}")
        seconds = plain_seconds(self.pause_seconds)
        if seconds is None or not 0 < seconds <= SECONDS_MAX:
            raise ValueError(f"pause_seconds must be above 0, not {self.pause_seconds!r}")
        msgspec.structs.force_setattr(self, "pause_seconds", seconds)

    def opens_at(self, failures_in_row: int) -> bool:
        """Whether this many failures in a row hold the task back."""
        return failures_in_row >= self.failures


class BreakerState(NamedTuple):
    """The breaker of one task in one queue; a new one is closed. Times are in microseconds.

    A store loads and saves it; the methods are its transitions. A completed job resets it.
    """

    failures_in_row: int = 0
    held_until: int | None = None
    """No job is leased before this time, and one job after it; None while the breaker is closed."""
    pause_micros: int | None = None

    def failed(self, rule: Breaker, now: int) -> BreakerState:
        """One more attempt has failed.

        >>> BreakerState().failed(Breaker(failures=1, pause_seconds=5), now=0).held_until
        5000000
        """
        failures = self.failures_in_row + 1
        if not rule.opens_at(failures):
            return self._replace(failures_in_row=failures)
        pause = round(rule.pause_seconds * 1e6)
        return BreakerState(failures, now + pause, pause)

    def probed(self, now: int) -> BreakerState:
        """The state after a probe was leased: the task waits for its end, or for another pause."""
        return self._replace(held_until=now + (self.pause_micros or 0))

    @property
    def is_closed(self) -> bool:
        """Whether any number of jobs may be leased; otherwise one at a time."""
        return self.held_until is None

    def next_probe_at(self, now: int) -> int | None:
        """When a job may be let through; None if it may be now."""
        held_until = self.held_until
        return None if held_until is None or held_until <= now else held_until
