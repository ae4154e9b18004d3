"""How many rows one write may deal with, for every verb that could find more.

While one process writes, all others wait. So no write goes through as many rows as there happen to
be: it takes up to its budget, writes down how far it has got (or leaves rows that say so by
themselves), and another write goes on. Others write in between. A list that the caller gives, the
drafts of a submit or the ids of a cancel, is its own budget.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

T = TypeVar("T")

PROMOTED_AT_ONCE: Final = 2000
"""Due jobs that become pending; the next lease goes on."""
PLACED_AT_ONCE: Final = 2000
"""Pending jobs placed anew by time or by changed rules; the next lease or sweep goes on."""
SHOWN_AT_ONCE: Final = 2000
"""Parked jobs of one key that a higher limit lets run; the next lease or sweep goes on."""
RESTED_AT_ONCE: Final = 500
"""Keys that may start jobs again by their start rate; the next lease goes on."""
PARKED_KEYS_AT_ONCE: Final = 100
"""Keys with parked jobs of its group that a narrowed lease asks; the next lease goes on."""
TURNED_AWAY_AT_ONCE: Final = 2000
"""Jobs of full keys that one lease parks. Many are met only just after a limit was set, before the
pass that parks them has come to them."""
PASSED_OVER_AT_ONCE: Final = 500
"""Jobs that one lease, or one write of a sweep, takes out instead of leasing them: they came too
late, or cannot be read. The exchange's `next_due_at` is then now, and the next one goes on."""
LATE_AT_ONCE: Final = 1000
"""Jobs that one sweep cancels because they were not started in time; leases and the next sweep go
on, so that a sweep before a lease, without a worker around, does not take long."""
LATE_LOOKED_AT_ONCE: Final = 10_000
"""Notes of when a job must have begun that one sweep of the memory store goes through: most are of
jobs that did begin. The next sweep goes on."""
RECOVERED_AT_ONCE: Final = 500
"""Jobs taken back from lost holders; the sweep goes on with further writes."""
BURIED_AT_ONCE: Final = 500
"""Jobs of a deleted queue that become dead letters; the call, or any sweep, goes on."""
DEPENDENTS_AT_ONCE: Final = 500
"""Dependents told of an end; the call, any exchange or any sweep goes on."""
DEPENDENTS_LOOKED_AT_ONCE: Final = 5000
"""Dependents of jobs that are to be deleted: all must have ended. A discard goes on with further
writes, and a clean-up leaves the jobs that are beyond to the next one."""
INHERITED_AT_ONCE: Final = 500
"""Dependencies compared with a dependent whose priority has changed; the call, any exchange or any
sweep goes on."""
SCHEDULES_AT_ONCE: Final = 100
"""Schedules that are fired; the next look goes on."""
SCHEDULED_JOBS_AT_ONCE: Final = 500
"""Jobs submitted by schedules; the next look goes on, also with the ticks of one schedule."""
PURGE_AT_ONCE: Final = 1000
"""Jobs that one purge deletes; the caller goes on."""
FORGOTTEN_AT_ONCE: Final = 1000
"""Minutes, days and token buckets that are over; a later write goes on."""
MENDED_AT_ONCE: Final = 1000
"""Damaged records that are deleted, and rows by which damaged state is reckoned anew; the repair
goes on with further writes."""


def batched(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Parts of a sequence, one for each write.

    >>> list(batched("abcde", 2))
    ['ab', 'cd', 'e']
    """
    for first in range(0, len(items), size):
        yield items[first : first + size]
