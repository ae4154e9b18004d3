"""The clock of the testing kit."""

from __future__ import annotations

from leasehold import env
from leasehold.core.model.durations import Seconds, given_seconds


class ManualClock(env.ManualClock):
    """A clock that stands still until it is turned. Waits end when it is turned past their end.

    >>> clock = ManualClock()
    >>> before = clock.now()
    >>> clock.advance("1h30m")
    >>> (clock.now() - before).total_seconds()
    5400.0
    """

    def advance(self, seconds: Seconds) -> None:
        """Let time pass, and wake every wait that it ends."""
        super().advance(given_seconds("seconds", seconds))

    def step_wall_clock(self, seconds: Seconds) -> None:
        """Set the wall clock forward or back, as an administrator or NTP would."""
        super().step_wall_clock(given_seconds("seconds", seconds))

    def suspend(self, seconds: Seconds) -> None:
        """Let the machine sleep: the wall clock goes on, and nothing that runs has felt it."""
        super().suspend(given_seconds("seconds", seconds))
