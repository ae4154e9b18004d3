"""Start rates: how fast jobs start, for services that accept a limited number of calls per second.

`starts_per_second` is a rule of a queue, `key_starts_per_second` one for each `limit_key` in it. A
lease is a start: from the moment it is granted its holder may run the job. So starts are counted in
the write that leases, by the store's clock, and a killed holder has used up the starts it had.

**The rule.** Starts are spaced evenly: two of them are never closer than 1/N of a second. Above
forty per second that would mean a write for each job, so they come in small bursts of at most a
twentieth of a second's worth. Either way no more than N jobs (rounded up) start in any second,
wherever that second begins. A bucket with a burst of b that fills at N per second would let N + b
start in the worst second; this one fills at N - b + 1 per second. So up to forty per second the
full rate can be sustained, and above that at least 95 % of it.

Why not N at once and then a pause? That obeys the same limit, but a service that counts calls as
they arrive sees two such bursts run into each other when the network is slow for one of them; and a
thousand schedules that fall due together should be spread, not sent in volleys.

Clauses of the store contract:

- STA-1  In any second, wherever it begins, at most `starts_per_second` jobs of the queue are
         leased, rounded up, however many processes lease and whichever of them die; up to forty
         per second no two are closer than 1/N second, above that at most a twentieth of N are
         leased at once. Jobs of other queues are leased meanwhile.
- STA-2  The same holds for `key_starts_per_second` and the jobs of each key. Jobs without a key use
         up nothing, and no key waits for another one.
- STA-3  Every lease uses up a start, however it ends: a retry is another start, and a job that is
         handed back or taken back from a lost holder has used up its start.
- STA-4  If only these rules keep jobs from running, the best of them is leased as soon as they
         allow it. An answer with fewer leases than requested says in `next_due_at` when the next
         may start.
- STA-5  Beyond the `free_slots` of a request no job with a start rate is leased, and none that is
         served after it: it would not start when it is leased.
- STA-6  A change of a rate applies from the next lease; None removes it. No job waits longer than
         the new rate requires; in the second of the change, starts at the old rate may come on top.
- STA-7  `queue_info` and `key_info` say when the next job may start, if not at once.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec

from leasehold.core.model.rate import NANOS, RATE_MAX, RATE_MIN
from leasehold.errors import InvalidQueueError

BURSTS_PER_SECOND: Final = 20
"""A burst is the rate's allowance for this part of a second, and at least one job."""


class StartRate(msgspec.Struct, frozen=True):
    """How fast jobs may start. `full_at` is when the bucket is full again, in nanoseconds.

    >>> rate = StartRate(5)
    >>> rate.free(0, now=0), rate.next_at(0, now=0)
    (1, None)
    >>> full_at = rate.take(0, jobs=1, now=0)
    >>> rate.free(full_at, now=199_999), rate.next_at(full_at, now=199_999)
    (0, 200000)
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
        """How many jobs may start at once."""
        return max(1, math.floor(self.per_second / BURSTS_PER_SECOND))

    @property
    def interval_nanos(self) -> int:
        """The time that one start takes up; rounded up, so that the rate is never exceeded."""
        return math.ceil(NANOS / (self.per_second + (1 - self.burst)))

    def free(self, full_at: int, *, now: int) -> int:
        """How many jobs may start at `now`, in microseconds."""
        return self.burst + -self._ahead(full_at, now) // self.interval_nanos

    def take(self, full_at: int, *, jobs: int, now: int) -> int:
        """When the bucket is full again after this many more starts."""
        return now * 1000 + self._ahead(full_at, now) + jobs * self.interval_nanos

    def next_at(self, full_at: int, *, now: int) -> int | None:
        """When the next job may start, in microseconds; None if one may now."""
        wait = self._ahead(full_at, now) - (self.burst - 1) * self.interval_nanos
        return now - -wait // 1000 if wait > 0 else None

    def _ahead(self, full_at: int, now: int) -> int:
        """How long until the bucket is full.

        If that is longer than an empty bucket takes, it was written under another rate, or the
        store's clock was set back since: then it counts as full, as jobs might otherwise wait for
        years.
        """
        ahead = max(0, full_at - now * 1000)
        return ahead if ahead <= self.burst * self.interval_nanos else 0
