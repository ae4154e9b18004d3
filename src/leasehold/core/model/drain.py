"""How fast a queue drains, measured cheaply by an occasional look at its total.

Two samples are kept; the older one is half a minute to a minute old while jobs keep coming. They
tell a submit that is refused because the queue is full when to try again.
"""

from __future__ import annotations

from typing import Final

import msgspec

SAMPLE_MICROS: Final = 30_000_000
"""The time between two samples."""
RETRY_SECONDS_MIN: Final = 0.1
RETRY_SECONDS_MAX: Final = 60.0
RETRY_SECONDS_UNKNOWN: Final = 1.0
"""The delay for a queue that has not been watched for long enough."""


class Drain(msgspec.Struct, frozen=True):
    """Two samples of how many jobs of a queue have ended so far, and when they were taken."""

    older_at: int
    older_ended: int
    newer_at: int
    newer_ended: int

    @classmethod
    def begin(cls, now: int, ended: int) -> Drain:
        """The first look at a queue."""
        return cls(now, ended, now, ended)

    def observed(self, now: int, ended: int) -> Drain:
        """The samples after another look; unchanged if it is too early for a new one."""
        if now - self.newer_at < SAMPLE_MICROS:
            return self
        return Drain(self.newer_at, self.newer_ended, now, ended)

    def seconds_for(self, jobs: int, *, now: int, ended: int) -> float:
        """How long it will take, at the measured rate, until this many more jobs have ended."""
        elapsed = (now - self.older_at) / 1e6
        gone = ended - self.older_ended
        if elapsed < RETRY_SECONDS_UNKNOWN:
            seconds = RETRY_SECONDS_UNKNOWN
        elif gone <= 0:
            # No job has ended since the older sample: assume as long again.
            seconds = elapsed
        else:
            seconds = jobs * elapsed / gone
        return min(max(seconds, RETRY_SECONDS_MIN), RETRY_SECONDS_MAX)
