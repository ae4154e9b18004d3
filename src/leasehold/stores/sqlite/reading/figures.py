"""Counts and measurements: the statements for SQLite. Jobs are never scanned.

See `tables.figures` (failures, workers, metrics) and `tables.sampling` (spans).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import apsw
import msgspec

from leasehold.core.model.failure import FailedAttempt, Failure
from leasehold.core.model.outcome import JobError
from leasehold.core.model.span import Span, as_one
from leasehold.core.model.stored import UNREADABLE
from leasehold.core.rules.failures import ErrorType, note
from leasehold.core.rules.measuring import WORKER_COUNTERS
from leasehold.core.rules.sampling import Resolution, last_looks, summed_up
from leasehold.env import from_micros, to_micros
from leasehold.stores.sqlite.rules.known import queues
from leasehold.stores.sqlite.schema.damaged_cells import sound_row
from leasehold.stores.sqlite.schema.rows import WHOLE_MAX, LenientReader, whole
from leasehold.stores.tables.figures import (
    FAILURE_COLUMNS,
    TableFailures,
    TableMetrics,
    failures_of,
    row_of,
    standings_from,
    stats_from,
)
from leasehold.stores.tables.sampling import (
    LANE_COUNTERS,
    SPAN_COLUMNS,
    SPAN_NAMES,
    TableSpans,
    look_of_all_from,
    oldest_from,
    summed_from,
    totals_from,
    totals_of_all_from,
)
from leasehold.stores.tables.statements import Query

STATS: Final = stats_from("lane")
KNOWN: Final = Query(
    FAILURE_COLUMNS, "FROM failure WHERE fingerprint IN (SELECT value FROM json_each(?))"
)
KEEP: Final = f"INSERT OR REPLACE INTO failure VALUES ({', '.join('?' * 11)})"
NAMES: Final = "SELECT queue, task FROM lane WHERE id = ?"
FORGET: Final = "DELETE FROM failure WHERE fingerprint = ?"
KNOWN_TYPE: Final = "SELECT 1 FROM error_total WHERE queue = ? AND error_type = ?"
# A damaged count that is not a number starts again.
COUNT_TYPE: Final = f"""
    INSERT INTO error_total VALUES (?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET attempts = {whole("attempts")} + excluded.attempts,
        last_at = excluded.last_at
"""
_MORE: Final = ", ".join(
    f"{name} = {name} + coalesce((SELECT jobs FROM measured "
    f"WHERE lane = 0 AND measure = {number} AND bucket = id), 0)"
    for number, name in enumerate(WORKER_COUNTERS)
)
ADD_WORKED: Final = f"""
    UPDATE worker_total SET last_at = ?, {_MORE}
    WHERE id IN (SELECT bucket FROM measured WHERE lane = 0)
"""
# The jobs of a damaged lane are counted too.
_QUEUE_OF: Final = "coalesce((SELECT CAST(queue AS TEXT) FROM lane WHERE id = ?2), '')"
FIND_WORKER: Final = f"SELECT id FROM worker_total WHERE worker = ?1 AND queue = {_QUEUE_OF}"
MAKE_WORKER: Final = f"""
    INSERT INTO worker_total (worker, queue, first_at, last_at) VALUES (?1, {_QUEUE_OF}, ?3, ?3)
"""


class FailureBook(TableFailures):
    """The failures, for core.rules.failures."""

    def __init__(self, db: apsw.Connection) -> None:
        super().__init__(LenientReader(db))
        self._db = db

    def known(self, fingerprints: Collection[str]) -> Mapping[str, Failure]:
        asked = msgspec.json.encode(list(fingerprints)).decode()
        return {each.fingerprint: each for each in failures_of(self._reader.rows(KNOWN, asked))}

    def keep(self, failures: Sequence[Failure]) -> None:
        self._db.executemany(KEEP, map(row_of, failures))

    def forget(self, fingerprints: Sequence[str]) -> None:
        self._db.executemany(FORGET, [(each,) for each in fingerprints])

    def known_types(self, types: Collection[ErrorType]) -> Collection[ErrorType]:
        return {each for each in types if self._db.execute(KNOWN_TYPE, each).fetchone()}

    def count_types(self, attempts: Mapping[ErrorType, int], at: datetime) -> None:
        micros = to_micros(at)
        self._db.executemany(COUNT_TYPE, [(*each, n, micros) for each, n in attempts.items()])


def note_failures(
    db: apsw.Connection, failed: Sequence[tuple[int, str, JobError]], now: int
) -> None:
    """Count failed attempts, each given by lane, job and error."""
    names: dict[int, tuple[str, str]] = {}
    attempts = []
    for lane, job_id, error in failed:
        if lane not in names:
            row: Any = db.execute(NAMES, (lane,)).fetchone()
            names[lane] = row
        attempts.append(FailedAttempt(*names[lane], job_id, error))
    note(FailureBook(db), attempts, from_micros(now))


OVERFLOWN_OR_UNREADABLE: Final = (*UNREADABLE, apsw.SQLError)
"""The errors that a sum of damaged cells may raise."""
SOUND: Final = f" AND {sound_row('span')}"
# Bits that no count has reveal a cell that is not a count, and so does a non-integer sum.
_BITS: Final = " | ".join(LANE_COUNTERS)
_LANE_QUEUE: Final = "CAST(queue AS BLOB)"
_added: Final = "sum({})".format
TOTALS: Final = totals_from(
    "lane", _LANE_QUEUE, _added, f", min({_BITS}) AS low, max({_BITS}) AS high"
)
TOTALS_OF_ALL: Final = totals_of_all_from(
    TOTALS, _added, ", coalesce(min(low), 0), coalesce(max(high), 0)"
)


def _sound(column: str) -> str:
    # A sweep repairs a cell that is not a count; a minute that ends before the sweep must not fail.
    # Checking every cell takes three times as long.
    return _added(whole(column))


SOUND_TOTALS: Final = totals_from("lane", _LANE_QUEUE, _sound)
SOUND_TOTALS_OF_ALL: Final = totals_of_all_from(SOUND_TOTALS, _added)
MEASURED: Final = """
    SELECT CAST(queue AS BLOB), measure, bucket, sum(jobs), sum(micros)
    FROM measured JOIN lane ON lane.id = measured.lane
    WHERE queue = coalesce(?, queue) GROUP BY queue, measure, bucket
"""
# It repeats the condition of the index literally, since SQLite would not use the index otherwise.
OLDEST: Final = oldest_from(
    "SELECT id, queue FROM lane WHERE queue = coalesce(?1, queue) AND pending > 0 "
    "UNION ALL SELECT -id, queue FROM (SELECT id, queue FROM key_lane "
    "WHERE queue = coalesce(?1, queue) ORDER BY id LIMIT ?2) AS keyed",
    "CAST(queue AS BLOB)",
    moment="iif(typeof(available_at) = 'integer', available_at, NULL)",
    by_age="INDEXED BY ready_by_age",
)
KEPT: Final = f"""
    SELECT queue, at, {SPAN_NAMES} FROM span INDEXED BY span_by_time
    WHERE resolution = ?1 AND at >= ?2
"""
LOOK_OF_ALL: Final = look_of_all_from(_added)
SUMMED_COUNTS: Final = summed_from("span INDEXED BY span_by_time", _added)
_SPAN_BITS: Final = " | ".join(SPAN_COLUMNS[:-1])
KEPT_MEASURES: Final = f"""
    SELECT queue, pending_before, pending,
        iif({_SPAN_BITS} BETWEEN 0 AND {WHOLE_MAX}, measures, NULL)
    FROM span INDEXED BY span_by_time WHERE resolution = ?1 AND at >= ?2 ORDER BY at
"""
KEPT_OF_QUEUE: Final = f"""
    SELECT queue, at, {SPAN_NAMES} FROM span WHERE resolution = ?1 AND at >= ?2 AND queue = ?3
"""
KEEP_SPAN: Final = f"""
    INSERT OR REPLACE INTO span (resolution, queue, at, {SPAN_NAMES})
    VALUES (?, ?, ?, {", ".join("?" * len(SPAN_COLUMNS))})
"""


class SpanShelf(TableSpans):
    """See `leasehold.core.rules.sampling.SpanShelf`."""

    lane_totals = TOTALS
    lane_totals_of_all = TOTALS_OF_ALL
    measured = MEASURED
    oldest = OLDEST
    kept_spans = KEPT
    kept_spans_of_queue = KEPT_OF_QUEUE
    look_of_all = LOOK_OF_ALL
    summed_counts = SUMMED_COUNTS
    kept_measures = KEPT_MEASURES
    keep_span = KEEP_SPAN
    add_worked = ADD_WORKED
    _db: apsw.Connection

    def _many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        self._db.executemany(statement, rows)

    def kept(
        self, resolution: Resolution, queue: str | None, first: int
    ) -> Mapping[str, dict[int, Span]]:
        try:
            return self._kept_that(resolution, queue, first)
        except UNREADABLE:
            # Even inside a write that repairs: each begins by ending its minute.
            return self._kept_that(resolution, queue, first, SOUND)

    def last_counts(self, queue: str | None) -> Mapping[str, Span]:
        try:
            return super().last_counts(queue)
        except UNREADABLE:
            return {name: each.with_measures(()) for name, each in last_looks(self, queue).items()}

    def last_look_of_all(self) -> Span:
        try:
            return super().last_look_of_all()
        except OVERFLOWN_OR_UNREADABLE:
            return as_one(each.with_measures(()) for each in last_looks(self, None).values())

    def summed(
        self, resolution: Resolution, first: int, measures: Collection[int]
    ) -> Mapping[str, Span]:
        try:
            return super().summed(resolution, first, measures)
        except OVERFLOWN_OR_UNREADABLE:
            return summed_up(self.kept(resolution, None, first), measures)

    def _lane_totals(self, queue: str | None) -> Iterable[Any]:
        try:
            rows = self._db.execute(TOTALS, (queue,)).fetchall()
            for _, *figures in rows:
                self._check(figures)
        except OVERFLOWN_OR_UNREADABLE:
            return self._db.execute(SOUND_TOTALS, (queue,))
        return [row[:-2] for row in rows]

    def _lane_totals_of_all(self) -> Sequence[int]:
        try:
            *figures, low, high = super()._lane_totals_of_all()
            self._check((*figures, low, high))
        except OVERFLOWN_OR_UNREADABLE:
            row: Any = self._db.execute(SOUND_TOTALS_OF_ALL, (None,)).fetchone()
            return tuple(row)
        return figures

    def _check(self, figures: Sequence[Any]) -> None:
        # Values computed from them are stored.
        if {*map(type, figures)} != {int} or min(figures) < 0 or max(figures) > WHOLE_MAX:
            raise ValueError(f"a span with other figures than counts: {figures}")


STANDING: Final = standings_from("lane", _LANE_QUEUE)


class MetricsReader(TableMetrics, SpanShelf):
    """The reads for core.rules.metrics."""

    reader_of = LenientReader
    counters = STATS
    standing = STANDING

    def queues(self) -> list[str]:
        return queues(self._db)
