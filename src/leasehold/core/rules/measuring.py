"""What the hot paths of a store of tables report to its metrics: how long jobs waited and ran, and
how many are pending.

Measurements are gathered in Python and written once per operation: totals together with counters
that are written anyway, the histogram by one statement of a few rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from operator import itemgetter
from typing import Any, Final

from leasehold.core.model.histogram import bucket_of
from leasehold.core.model.span import RETRY_ATTEMPT_MAX, Measure, band_of

FEW: Final = 4

WORKER_COUNTERS: Final = ("leased", "completed", "failed", "lost")
"""The counts kept for workers."""
PENDING_COLUMN: Final = tuple(f"pending_{band_of(priority)}" for priority in range(101))

Count = Callable[[int, str, int], None]
"""Changes a lane's counter."""


class Measured:
    """The measurements of the current operation."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: dict[tuple[int, int, int], list[int]] = {}
        """By lane, measure and bucket: the number of measurements, and their sum."""

    def took(self, lane: int, measure: Measure, durations: Sequence[int]) -> None:
        """Add measurements of one length each, for jobs of a lane."""
        gathered = self._found
        counted: Iterable[tuple[int, int]] = zip(durations, repeat(1))
        if len(durations) > FEW:
            # Jobs that were submitted or leased together have often waited or run equally long.
            counted = Counter(durations).items()
        for micros, jobs in counted:
            key = (lane, measure, bucket_of(micros))
            found = gathered.get(key)
            if found is None:
                gathered[key] = [jobs, jobs * micros]
            else:
                found[0] += jobs
                found[1] += jobs * micros

    def retried(self, lane: int, attempt: int) -> None:
        """Count an attempt with that number that failed and will be followed by another one."""
        self._count((lane, Measure.RETRY, min(attempt, RETRY_ATTEMPT_MAX)), 1)

    def worked(self, worker: int, names: Sequence[str], jobs: int) -> None:
        """Count jobs of a worker, given by its number, under these names."""
        for name in names:
            if name in WORKER_COUNTERS:
                self._count((0, WORKER_COUNTERS.index(name), worker), jobs)

    def _count(self, key: tuple[int, int, int], jobs: int) -> None:
        self._found.setdefault(key, [0, 0])[0] += jobs

    def take(self) -> list[tuple[int, int, int, int, int]]:
        """The gathered rows: lane, measure, bucket, how many and their sum."""
        found, self._found = self._found, {}
        return [(*key, jobs, micros) for key, (jobs, micros) in found.items()]

    def clear(self) -> None:
        self._found.clear()

    def __len__(self) -> int:
        return len(self._found)


def count_entered(count: Count, jobs: Sequence[tuple[Any, ...]]) -> None:
    """Count jobs that became pending, each given by its lane, its own priority, and further fields
    if any.
    """
    _count(count, jobs, 1)


def count_left(count: Count, jobs: Sequence[tuple[Any, ...]]) -> None:
    """Count jobs, given in the same way, that are no longer pending."""
    _count(count, jobs, -1)


_LANE_AND_PRIORITY: Final = itemgetter(0, 1)


def _count(count: Count, jobs: Sequence[tuple[Any, ...]], by: int) -> None:
    if len(jobs) <= FEW:
        # Counting a few one by one is faster than setting up to count many.
        for job in jobs:
            count(job[0], PENDING_COLUMN[job[1]], by)
        return
    for (lane, priority), number in Counter(map(_LANE_AND_PRIORITY, jobs)).items():
        count(lane, PENDING_COLUMN[priority], by * number)
