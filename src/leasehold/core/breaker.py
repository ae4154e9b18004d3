"""The circuit breaker: a task that keeps failing is held back, and probed.

A broken dependency (a mail server that is down) would otherwise burn the attempts of every job that
needs it. The rule travels with each failure, so that the store, which sees the failures of all
workers, can apply it: so many in a row, and the task's jobs in that queue are held back; after the
pause one of them is leased as a probe, and its end decides.
"""

from __future__ import annotations

import msgspec

from leasehold.core.limits import SECONDS_MAX


class Breaker(msgspec.Struct, frozen=True):
    """When to hold a task back, and for how long.

    >>> Breaker(failures=3, pause_seconds=60).opens_at(3)
    True
    """

    failures: int = 5
    """Failed attempts in a row, whichever jobs and workers they belong to."""
    pause_seconds: float = 30.0
    """How long nothing is leased before one job is let through as a probe."""

    def __post_init__(self) -> None:
        if self.failures < 1:
            raise ValueError(f"a breaker opens after 1 failure or more, not {self.failures}")
        if not 0 < self.pause_seconds <= SECONDS_MAX:
            raise ValueError(f"pause_seconds must be above 0, not {self.pause_seconds!r}")

    def opens_at(self, failures_in_row: int) -> bool:
        """Whether so many failures in a row hold the task back."""
        return failures_in_row >= self.failures
