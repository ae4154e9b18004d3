"""Rates: jobs per second, with a burst of two seconds' worth.

A token bucket is one number: the time at which the bucket would be full again. Each job moves that
time one interval later, and is admitted while the time is no further ahead than the burst. Times
are whole nanoseconds, so that rounding never admits a job too many, and a full bucket need not be
stored at all.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec

from leasehold.errors import InvalidQueueError

RATE_MIN: Final = 1 / (366 * 24 * 3600)
RATE_MAX: Final = 1_000_000.0
NANOS: Final = 1_000_000_000


class Rate(msgspec.Struct, frozen=True):
    """How fast jobs may arrive.

    >>> rate = Rate(2)
    >>> rate.burst
    4
    >>> rate.wait_nanos(0, jobs=5, now=0)
    500000000
    >>> rate.remaining(rate.take(0, jobs=3, now=0), now=0)
    1
    """

    per_second: float

    def __post_init__(self) -> None:
        if not RATE_MIN <= self.per_second <= RATE_MAX:
            raise InvalidQueueError(
                "a rate must be from one job a year to a million a second, "
                f"not {self.per_second!r} a second"
            )

    @property
    def burst(self) -> int:
        """How many jobs may arrive at once after a pause: two seconds' worth, and at least one."""
        return max(1, math.floor(2 * self.per_second))

    @property
    def interval_nanos(self) -> int:
        """The time that one job uses up; rounded up, so that the rate is never exceeded."""
        return math.ceil(NANOS / self.per_second)

    def remaining(self, full_at: int, *, now: int) -> int:
        """How many jobs may arrive at once now."""
        return max(0, self.burst + -max(0, full_at - now) // self.interval_nanos)

    def take(self, full_at: int, *, jobs: int, now: int) -> int:
        """When the bucket is full again after this many more jobs; both in nanoseconds."""
        return max(full_at, now) + jobs * self.interval_nanos

    def wait_nanos(self, full_at: int, *, jobs: int, now: int) -> int:
        """How long this many jobs must wait until all may arrive at once; 0 for not at all."""
        ahead = self.take(full_at, jobs=jobs, now=now) - now
        return max(0, ahead - self.burst * self.interval_nanos)
