"""The counters of the lanes, and the spans kept of them. core.rules.sampling says what is kept, and
when.

Guard: in the first write of a new minute, before it changes anything, and with it: if that write is
rolled back, so is the look, and whoever writes next takes it.

What the hot paths say to the metrics: how long jobs waited and ran, and who is pending.

Gathered in Python and written once per operation: the totals with the counters that are written
anyway, the histogram by one statement of a few rows.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat
from operator import itemgetter
from typing import Any, Final, TypeVar

import apsw
import msgspec

from leasehold.core.model.budget import FORGOTTEN_AT_ONCE
from leasehold.core.model.histogram import Histogram, bucket_of
from leasehold.core.model.span import SUMMED, Span, band_of
from leasehold.core.rules.sampling import KeptSpan, Resolution

_COLUMNS: Final = (*SUMMED, "pending_before", "pending", "deepest", "waits", "runs")
_NAMES: Final = ", ".join(_COLUMNS)
_TOTALS: Final = ", ".join(f"sum(total_{name})" for name in SUMMED)
TOTALS: Final = f"""
    SELECT queue, sum(pending), {_TOTALS} FROM lane WHERE queue = coalesce(?, queue) GROUP BY queue
"""  # noqa: S608  # our own names
MEASURED: Final = """
    SELECT queue, kind, bucket, sum(jobs) FROM measured JOIN lane ON lane.id = measured.lane
    WHERE queue = coalesce(?, queue) GROUP BY queue, kind, bucket
"""
OPEN_MINUTE: Final = "SELECT open_minute FROM store_state"
KEPT: Final = f"""
    SELECT queue, at, {_NAMES} FROM span INDEXED BY span_by_time WHERE resolution = ?1 AND at >= ?2
"""  # noqa: S608  # our own names
KEPT_OF_QUEUE: Final = f"""
    SELECT queue, at, {_NAMES} FROM span WHERE resolution = ?1 AND at >= ?2 AND queue = ?3
"""  # noqa: S608  # our own names
KEEP: Final = f"""
    INSERT OR REPLACE INTO span (resolution, queue, at, {_NAMES})
    VALUES (?, ?, ?, {", ".join("?" * len(_COLUMNS))})
"""  # noqa: S608  # our own names
FORGET: Final = f"""
    DELETE FROM span WHERE (resolution, queue, at) IN (
        SELECT resolution, queue, at FROM span WHERE resolution = ? AND at < ?
        ORDER BY at LIMIT {FORGOTTEN_AT_ONCE})
"""  # noqa: S608  # our own number
FORGET_MEASURED: Final = "DELETE FROM measured"
NEXT_MINUTE: Final = "UPDATE store_state SET open_minute = ?"

_decode = msgspec.json.Decoder(Histogram).decode


class Spans:
    """The spans of a store, as core.rules.sampling asks for them."""

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db

    def open_minute(self) -> int:
        row: Any = self._db.execute(OPEN_MINUTE).fetchone()
        return int(row[0])

    def totals(self, queue: str | None) -> Mapping[str, Span]:
        durations: dict[tuple[str, int], Histogram] = defaultdict(dict)
        measured: Any = self._db.execute(MEASURED, (queue,))
        for name, kind, bucket, jobs in measured:
            durations[name, kind][bucket] = jobs
        rows: Any = self._db.execute(TOTALS, (queue,))
        return {
            name: Span(
                **dict(zip(SUMMED, totals, strict=True)),
                pending=pending,
                waits=durations.get((name, WAIT), {}),
                runs=durations.get((name, RUN), {}),
            )
            for name, pending, *totals in rows
        }

    def kept(
        self, resolution: Resolution, queue: str | None, first: int
    ) -> Mapping[str, dict[int, Span]]:
        found: dict[str, dict[int, Span]] = defaultdict(dict)
        rows: Any = (
            self._db.execute(KEPT, (resolution, first))
            if queue is None
            else self._db.execute(KEPT_OF_QUEUE, (resolution, first, queue))
        )
        for name, at, *figures, waits, runs in rows:
            named: dict[str, Any] = dict(zip(_COLUMNS, figures, strict=False))
            found[name][at] = Span(**named, waits=_decode(waits), runs=_decode(runs))
        return found

    def keep(self, spans: Sequence[KeptSpan]) -> None:
        self._db.executemany(KEEP, [(*each[:3], *_row(each.span)) for each in spans])

    def measure_anew(self, minute: int) -> None:
        self._db.execute(FORGET_MEASURED)
        self._db.execute(NEXT_MINUTE, (minute,))

    def forget(self, resolution: Resolution, before: int) -> None:
        self._db.execute(FORGET, (resolution, before))


def _row(span: Span) -> tuple[Any, ...]:
    *figures, waits, runs = msgspec.structs.astuple(span)
    return (*figures, msgspec.json.encode(waits).decode(), msgspec.json.encode(runs).decode())


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
