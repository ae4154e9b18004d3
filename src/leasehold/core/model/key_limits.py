"""Limits per key: one tenant's jobs cannot take every slot of a queue.

A job may name a `limit_key`. In a queue with `key_concurrency`, so many jobs of one key run at once
and no more (`core.model.start_rate` is about how fast they start). So that no lease reads past the
rest, a store shows leases only jobs that may run: of one key, one task and one tier of the order of
service (`core.model.priority`), the best ones, as many as the key has free slots. The others are
*parked*: pending to everybody but to leases. Within one tier the order never changes, so the jobs
that are shown stay the best ones at any time.

Clauses of the store contract, which hold whichever method makes a job pending, leases or ends it:

- KEY-1  At most `key_concurrency` jobs of one key run at once in a queue, however many processes
         lease. Jobs of other keys, without a key, and of other queues are leased meanwhile.
- KEY-2  The slot of a job that is settled, in any way, or taken back from a lost holder is free in
         the same write.
- KEY-3  Of the jobs that their key lets run, the best is leased, in the order of SCO-1; so too when
         the lease is narrowed by task or by group. Of a group in which more keys have parked jobs
         than PARKED_KEYS_AT_ONCE, a lease compares so many keys, and the next lease the next ones.
- KEY-4  A job that waits for its key is pending like any other: it is counted and found, has its
         position, and is cancelled, purged, moved or ended by its time to live like any other.
- KEY-5  A change of `key_concurrency` counts for the next lease, with the jobs pending and running
         then. None lets all run; running jobs go on, also if they are more than the new limit.
- KEY-6  Listeners hear `on_ready` when a job may be leased because one of its key ended.
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
"""A job's turn and number: its rank within its tier; the lower is served first."""


def free_slots(limit: int, running: int) -> int:
    """How many jobs more of a key may run; none if more run than a limit that was lowered."""
    return max(0, limit - running)


class KeyLimits(NamedTuple):
    """A queue's limits for each key: so many jobs that run at once, and so many starts.

    >>> limits = KeyLimits(concurrency=3, rate=StartRate(5))
    >>> limits.free(running=1, full_at=0, now=0), limits.free(running=3, full_at=0, now=0)
    (1, 0)
    """

    concurrency: int | None
    rate: StartRate | None

    def free(self, running: int, full_at: int, now: int) -> int:
        """How many jobs more may be leased, while so many run; `full_at` is the bucket's."""
        slots = self._slots(running)
        return slots if self.rate is None else min(slots, self.rate.free(full_at, now=now))

    def to_show(self, running: int, full_at: int, now: int) -> int:
        """How many jobs leases are shown: no fewer than may be leased, until the next write.

        The bucket fills by itself. So while any may start, as many are shown as ever may at once.
        """
        free = self.free(running, full_at, now)
        if not free or self.rate is None:
            return free
        return min(self._slots(running), self.rate.burst)

    def next_at(self, running: int, full_at: int, now: int) -> int | None:
        """When the next may start, if only time keeps it from starting."""
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
"""How it stands with a key of which there is nothing, and for a job that has none."""


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
