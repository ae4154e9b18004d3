"""What the hot paths say to the metrics: how long jobs waited and ran, and who is pending.

Gathered in Python and written once per operation: the totals with the counters that are written
anyway, the histogram by one statement of a few rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from operator import itemgetter
from typing import Any, Final, TypeVar

import apsw

from leasehold.core.model.histogram import bucket_of
from leasehold.core.model.span import band_of

T = TypeVar("T")

FEW: Final = 4
WAIT: Final = 0
RUN: Final = 1

ADD: Final = """
    INSERT INTO measured VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET jobs = jobs + excluded.jobs
"""

_BAND_COLUMN: Final = tuple(f"pending_{band_of(priority)}" for priority in range(101))

Count = Callable[[int, str, int], None]
"""`Step.count`: change a lane's counter."""


class Measured:
    """Durations that were measured in the operation under way."""

    __slots__ = ("_jobs",)

    def __init__(self) -> None:
        self._jobs: dict[tuple[int, int, int], int] = {}

    def waited(self, count: Count, lane: int, micros: Sequence[int]) -> None:
        """So many jobs of a lane were leased, after they had waited so long."""
        count(lane, "total_leased", len(micros))
        count(lane, "total_wait_micros", sum(micros))
        self._add(lane, WAIT, micros)

    def ran(self, count: Count, lane: int, micros: Sequence[int]) -> None:
        """So many attempts of a lane completed or failed, after they had run so long."""
        count(lane, "total_run_micros", sum(micros))
        self._add(lane, RUN, micros)

    def _add(self, lane: int, kind: int, micros: Sequence[int]) -> None:
        gathered = self._jobs
        for bucket, jobs in _counted(map(bucket_of, micros), len(micros)):
            key = (lane, kind, bucket)
            gathered[key] = gathered.get(key, 0) + jobs

    def write(self, db: apsw.Connection) -> None:
        if self._jobs:
            db.executemany(ADD, [(*key, jobs) for key, jobs in self._jobs.items()])
            self._jobs.clear()

    def clear(self) -> None:
        self._jobs.clear()


def count_entered(count: Count, jobs: Sequence[tuple[Any, ...]]) -> None:
    """Jobs became pending, each given by its lane and its own priority, whatever follows these."""
    _count(count, jobs, 1)


def count_left(count: Count, jobs: Sequence[tuple[Any, ...]]) -> None:
    """Jobs, given in the same way, are not pending any more."""
    _count(count, jobs, -1)


_LANE_AND_PRIORITY: Final = itemgetter(0, 1)


def _count(count: Count, jobs: Sequence[tuple[Any, ...]], by: int) -> None:
    for (lane, priority), number in _counted(map(_LANE_AND_PRIORITY, jobs), len(jobs)):
        count(lane, _BAND_COLUMN[priority], by * number)


def _counted(items: Iterable[T], number: int) -> Iterable[tuple[T, int]]:
    # To count a few one by one is faster than to set up for counting many.
    return Counter(items).items() if number > FEW else zip(items, repeat(1))
