"""Limits per key: one tenant's jobs cannot take every slot of a queue.

A job may name a `limit_key`. In a queue with `key_concurrency`, at most that many jobs of one key
run at once (`core.model.start_rate` limits how fast they start). So that leases need not skip over
the rest, a store shows them only jobs that may run: for each key, task and tier of the order of
service (`core.model.priority`), the best jobs, as many as the key has free slots. The others are
*parked*: pending to everybody except leases. Within one tier the order never changes, so the jobs
that are shown always remain the best ones.

Clauses of the store contract; they hold for every method that makes a job pending, leases or ends
it:

- KEY-1  At most `key_concurrency` jobs of one key run at once in a queue, however many processes
         lease. Jobs of other keys, without a key, and of other queues are leased meanwhile.
- KEY-2  The slot of a job that is settled, in any way, or taken back from a lost holder is freed in
         the same write.
- KEY-3  Of the jobs that their key lets run, the best is leased, in the order of SCO-1; this also
         holds when the lease is narrowed by task or by group. If more than PARKED_KEYS_AT_ONCE keys
         have parked jobs in a group, a lease compares that many keys, and the next lease the next
         ones.
- KEY-4  A job that waits for its key is pending like any other: it is counted and found, has its
         position, and is cancelled, purged, moved or ended by its time to live like any other.
- KEY-5  A change of `key_concurrency` applies from the next lease, to the jobs pending and running
         then. None removes the limit; running jobs continue, even if they exceed the new limit.
- KEY-6  Listeners hear `on_ready` when a job may be leased because another job of its key ended.
- KEY-7  Jobs of one key that come faster than `key_rate_per_second`, beyond a burst of two seconds'
         worth, raise RateLimitedError as LIM-3 says. Jobs without a key use up nothing.
- KEY-8  `limit_key` is kept with the job. An invalid name raises InvalidJobError.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, NamedTuple

import msgspec

from leasehold.core.model.limits import UNLIMITED
from leasehold.core.model.start_rate import StartRate

Rank = tuple[int, int]
"""A job's turn and number: its rank within its tier; the lowest is served first."""


def free_slots(limit: int, running: int) -> int:
    """How many more jobs of a key may run; 0 if more are running than a lowered limit allows."""
    return max(0, limit - running)


class KeyLimits(NamedTuple):
    """A queue's limits for each key: jobs that run at once, and starts per second.

    >>> limits = KeyLimits(concurrency=3, rate=StartRate(5))
    >>> limits.free(running=1, full_at=0, now=0), limits.free(running=3, full_at=0, now=0)
    (1, 0)
    """

    concurrency: int | None
    rate: StartRate | None

    def free(self, running: int, full_at: int, now: int) -> int:
        """How many more jobs may be leased while `running` jobs run; `full_at` is the bucket's."""
        slots = self._slots(running)
        return slots if self.rate is None else min(slots, self.rate.free(full_at, now=now))

    def to_show(self, running: int, full_at: int, now: int) -> int:
        """How many jobs are shown to leases: no fewer than may be leased before the next write.

        The bucket refills over time, so while any job may start, as many are shown as could ever
        start at once.
        """
        free = self.free(running, full_at, now)
        if not free or self.rate is None:
            return free
        return min(self._slots(running), self.rate.burst)

    def next_at(self, running: int, full_at: int, now: int) -> int | None:
        """When the next job may start, if only the start rate delays it."""
        if self.rate is None or not self._slots(running):
            return None
        return self.rate.next_at(full_at, now=now)

    def _slots(self, running: int) -> int:
        return UNLIMITED if self.concurrency is None else free_slots(self.concurrency, running)


class KeyInfo(msgspec.Struct, frozen=True):
    """A key of a queue as it was at one moment."""

    running: int = 0
    """How many of its jobs run, whether the queue limits that or not."""
    next_start_at: datetime | None = None
    """When the next of its jobs may start by `key_starts_per_second`, if not at once."""


NO_KEY: Final = KeyInfo()
"""The state of a key without jobs, and of a job without a key."""


def is_shown(own: tuple[Any, ...], last_shown: tuple[Any, ...] | None, free: int) -> bool:
    """Whether a job is among the best `free` ones of its key, task and tier.

    Both begin with a `Rank`. `last_shown` is the last of the first `free` that are shown; None if
    there are fewer.

    >>> is_shown((5, 1), last_shown=None, free=2)
    True
    >>> is_shown((5, 1), last_shown=(4, 9), free=2)
    False
    """
    return free > 0 and (last_shown is None or own < last_shown)
