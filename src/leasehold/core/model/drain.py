"""How fast a queue drains, measured cheaply: a look at its total every now and then.

Two samples are kept, the older one half a minute to a minute old while jobs keep coming. A submit
that is refused because the queue is full is told by it when to try again.
"""

from __future__ import annotations

from typing import Final

import msgspec

SAMPLE_MICROS: Final = 30_000_000
"""The time between two samples."""
RETRY_SECONDS_MIN: Final = 0.1
RETRY_SECONDS_MAX: Final = 60.0
RETRY_SECONDS_UNKNOWN: Final = 1.0
"""For a queue that was not watched for long enough."""


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
        """The samples after another look; the very same ones, if it is too early for a new one."""
        if now - self.newer_at < SAMPLE_MICROS:
            return self
        return Drain(self.newer_at, self.newer_ended, now, ended)

    def seconds_for(self, jobs: int, *, now: int, ended: int) -> float:
        """How long it will take, at the rate measured, until so many jobs more have ended."""
        elapsed = (now - self.older_at) / 1e6
        gone = ended - self.older_ended
        if elapsed < RETRY_SECONDS_UNKNOWN:
            seconds = RETRY_SECONDS_UNKNOWN
        elif gone <= 0:
            # Nothing ended as long as we know: it may take as long again.
            seconds = elapsed
        else:
            seconds = jobs * elapsed / gone
        return min(max(seconds, RETRY_SECONDS_MIN), RETRY_SECONDS_MAX)
