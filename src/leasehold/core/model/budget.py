"""How many rows one write may handle, for every verb that could find more.

While one process writes, all others wait. So no write handles an unbounded number of rows: it takes
up to its budget, records how far it has got (or leaves rows that show it), and another write
continues. Other processes write in between. A list given by the caller, such as the drafts of a
submit or the ids of a cancel, is its own budget.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

T = TypeVar("T")

PROMOTED_AT_ONCE: Final = 2000
"""Due jobs that become pending; the next lease continues."""
PLACED_AT_ONCE: Final = 2000
"""Pending jobs moved by time or by new rules; the next lease or sweep continues."""
SHOWN_AT_ONCE: Final = 2000
"""Parked jobs of one key that a higher limit lets run; the next lease or sweep continues."""
RESTED_AT_ONCE: Final = 500
"""Keys whose start rate lets them start jobs again; the next lease continues."""
PARKED_KEYS_AT_ONCE: Final = 100
"""Keys with parked jobs of its group that a narrowed lease compares; the next lease continues."""
TURNED_AWAY_AT_ONCE: Final = 2000
"""Jobs of full keys that one lease parks. There are many only just after a limit was set, before
the pass that parks them has reached them.
"""
PASSED_OVER_AT_ONCE: Final = 500
"""Jobs that one lease, or one write of a sweep, removes instead of leasing them because they are
too late or cannot be read. The exchange's `next_due_at` is then now, and the next one continues.
"""
LATE_AT_ONCE: Final = 1000
"""Jobs that one sweep cancels because they were not started in time; leases and the next sweep
continue. So a sweep before a lease, in a program without workers, does not take long.
"""
LATE_LOOKED_AT_ONCE: Final = 10_000
"""Latest start times that one sweep of the memory store checks; most belong to jobs that did start.
The next sweep continues.
"""
RECOVERED_AT_ONCE: Final = 500
"""Jobs taken back from lost holders; the sweep continues with further writes."""
BURIED_AT_ONCE: Final = 500
"""Jobs of a deleted queue that become dead letters; the call, or any sweep, continues."""
DEPENDENTS_AT_ONCE: Final = 500
"""Dependents to which an end is applied; the call, any exchange or any sweep continues."""
DEPENDENTS_LOOKED_AT_ONCE: Final = 5000
"""Dependents checked for jobs to be deleted: all of them must have ended. A discard continues with
further writes; a clean-up leaves the remaining jobs to the next one.
"""
INHERITED_AT_ONCE: Final = 500
"""Dependencies compared with a dependent whose priority has changed; the call, any exchange or any
sweep continues.
"""
SCHEDULES_AT_ONCE: Final = 100
"""Schedules that are fired; the next look continues."""
SCHEDULED_JOBS_AT_ONCE: Final = 500
"""Jobs submitted by schedules; the next look continues, even within the ticks of one schedule."""
PURGE_AT_ONCE: Final = 1000
"""Jobs that one purge deletes; the caller continues."""
FORGOTTEN_AT_ONCE: Final = 1000
"""Expired minutes, days and token buckets that are removed; a later write continues."""
MENDED_AT_ONCE: Final = 1000
"""Damaged records that are deleted, and rows from which damaged state is recomputed; the repair
continues with further writes.
"""


def batched(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Parts of a sequence, one for each write.

    >>> list(batched("abcde", 2))
    ['ab', 'cd', 'e']
    """
    for first in range(0, len(items), size):
        yield items[first : first + size]
