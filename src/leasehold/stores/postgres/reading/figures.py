"""Counts and measurements: the statements for PostgreSQL. Jobs are never scanned.

See `tables.figures` (failures, workers, metrics) and `tables.sampling` (spans).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from leasehold.core.model.failure import FailedAttempt, Failure
from leasehold.core.model.outcome import JobError
from leasehold.core.model.priority import FIRST_DEADLINE_TIER
from leasehold.core.rules.failures import ErrorType, note
from leasehold.core.rules.measuring import WORKER_COUNTERS
from leasehold.env import from_micros, to_micros
from leasehold.stores.postgres.rules.known import queues
from leasehold.stores.postgres.schema.texts import storable
from leasehold.stores.postgres.server.connection import SqlConnection, unnested
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
    SPAN_COLUMNS,
    SPAN_NAMES,
    TableSpans,
    look_of_all_from,
    oldest_from,
    summed_from,
    totals_from,
    totals_of_all_from,
)
from leasehold.stores.tables.statements import PlainReader, Query

STATS: Final = stats_from("lane_now")
KNOWN: Final = Query(FAILURE_COLUMNS, "FROM failure WHERE fingerprint = ANY($1)")
KEEP: Final = f"""
    INSERT INTO failure SELECT * FROM {
    unnested("text text text text text text bigint bigint bigint text text")
} ON CONFLICT (fingerprint) DO UPDATE SET count = excluded.count, first_at = excluded.first_at,
        last_at = excluded.last_at, jobs = excluded.jobs, hours = excluded.hours
"""
NAMES: Final = "SELECT id, queue, task FROM lane WHERE id = ANY($1)"
FORGET: Final = "DELETE FROM failure WHERE fingerprint = ANY($1)"
KNOWN_TYPES: Final = f"""
    SELECT queue, error_type FROM error_total WHERE (queue, error_type) IN (
        SELECT * FROM {unnested("text text")})
"""
COUNT_TYPES: Final = f"""
    INSERT INTO error_total SELECT * FROM {unnested("text text bigint bigint")}
    ON CONFLICT (queue, error_type) DO UPDATE
    SET attempts = error_total.attempts + excluded.attempts, last_at = excluded.last_at
"""
_SUMS: Final = ", ".join(
    f"coalesce(sum(jobs) FILTER (WHERE measure = {number}), 0)::bigint AS {name}"
    for number, name in enumerate(WORKER_COUNTERS)
)
_MORE: Final = ", ".join(
    f"{name} = worker_total.{name} + lately.{name}" for name in WORKER_COUNTERS
)
ADD_WORKED: Final = f"""
    UPDATE worker_total SET last_at = $1, {_MORE}
    FROM (SELECT bucket AS number, {_SUMS} FROM measured WHERE lane = 0 GROUP BY bucket) AS lately
    WHERE worker_total.id = lately.number
"""
FIND_WORKER: Final = """
    SELECT id FROM worker_total WHERE worker = $1 AND queue = (SELECT queue FROM lane WHERE id = $2)
"""
MAKE_WORKER: Final = """
    INSERT INTO worker_total (worker, queue, first_at, last_at)
    SELECT $1, queue, $3, $3 FROM lane WHERE id = $2 RETURNING id
"""


class FailureBook(TableFailures):
    """The failures, for core.rules.failures."""

    def __init__(self, db: SqlConnection) -> None:
        super().__init__(PlainReader(db))
        self._db = db

    def known(self, fingerprints: Collection[str]) -> Mapping[str, Failure]:
        rows = self._reader.rows(KNOWN, list(fingerprints))
        return {each.fingerprint: each for each in failures_of(rows)}

    def keep(self, failures: Sequence[Failure]) -> None:
        self._db.many(KEEP, [_storable(row_of(each)) for each in failures])

    def forget(self, fingerprints: Sequence[str]) -> None:
        self._db.execute(FORGET, (list(fingerprints),))

    def known_types(self, types: Collection[ErrorType]) -> Collection[ErrorType]:
        # A name is identified by the part of it that can be stored.
        by_stored = {ErrorType(each.queue, storable(each.name)): each for each in types}
        asked = [list(column) for column in zip(*by_stored, strict=True)]
        rows = self._db.execute(KNOWN_TYPES, asked)
        return {by_stored[ErrorType(queue, name)] for queue, name in rows}

    def count_types(self, attempts: Mapping[ErrorType, int], at: datetime) -> None:
        stored: Counter[ErrorType] = Counter()
        for (queue, name), more in attempts.items():
            stored[ErrorType(queue, storable(name))] += more
        micros = to_micros(at)
        self._db.many(COUNT_TYPES, [(*each, more, micros) for each, more in stored.items()])


def note_failures(db: SqlConnection, failed: Sequence[tuple[int, str, JobError]], now: int) -> None:
    """Count failed attempts, each given by lane, job and error."""
    rows = db.execute(NAMES, (list({lane for lane, _, _ in failed}),))
    names = {lane: (queue, task) for lane, queue, task in rows}
    attempts = [FailedAttempt(*names[lane], job_id, error) for lane, job_id, error in failed]
    note(FailureBook(db), attempts, from_micros(now))


def _storable(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(storable(each) if isinstance(each, str) else each for each in row)


def _added(column: str) -> str:
    return f"sum({column})::bigint"


TOTALS: Final = totals_from("lane_now", "queue", _added)
# Lanes are looked up for what was added up. As a join, the server took the table that is emptied
# every minute for an empty one, and read it once for each of thousands of lanes.
MEASURED: Final = """
    SELECT queue, measure, bucket, sum(jobs)::bigint, sum(micros)::bigint FROM (
        SELECT (SELECT queue FROM lane WHERE lane.id = measured.lane) AS queue, measure, bucket,
            sum(jobs) AS jobs, sum(micros) AS micros
        FROM measured WHERE lane <> 0 GROUP BY lane, measure, bucket OFFSET 0) AS of_lane
    WHERE queue = coalesce($1, queue) GROUP BY queue, measure, bucket
"""
OLDEST: Final = oldest_from(
    "SELECT id, queue FROM lane WHERE queue = coalesce($1, queue) "
    "UNION ALL SELECT -id, queue FROM (SELECT id, queue FROM key_lane "
    "WHERE queue = coalesce($1, queue) ORDER BY id LIMIT $2) AS keyed",
    "queue",
    moment="available_at",
    by_age="",
)
LAST_TIER: Final = (1 << 63) - 1
_OLDEST_PARKED: Final = oldest_from(
    "SELECT -id, queue FROM (SELECT id, queue FROM key_lane ORDER BY id LIMIT $1) AS keyed",
    "queue",
    moment="available_at",
    by_age="",
)
# For all queues, the lanes and their tiers are one walk from one to the next: thousands of lanes,
# each with a walk of its own, took twice as long, most of them for nothing. The tiers of deadlines
# are passed over in one step. Lanes below zero are those of parked jobs.
OLDEST_OF_ALL: Final = f"""
    WITH RECURSIVE head(lane, tier, at) AS (
        (SELECT lane, tier, available_at FROM ready WHERE lane > 0
         ORDER BY lane, tier, turn, seq LIMIT 1)
        UNION ALL
        SELECT following.* FROM head CROSS JOIN LATERAL (
            SELECT lane, tier, available_at FROM ready
            WHERE (ready.lane, ready.tier) > (head.lane,
                CASE WHEN head.tier < {FIRST_DEADLINE_TIER} THEN head.tier ELSE {LAST_TIER} END)
            ORDER BY lane, tier, turn, seq LIMIT 1) AS following),
    in_lane(lane, first_at) AS (
        SELECT lane, min(at) FILTER (WHERE tier < {FIRST_DEADLINE_TIER}) FROM head GROUP BY lane)
    SELECT queue, min(in_turn), min(out_of_turn) FROM (
        SELECT lane.queue, first_at, (SELECT available_at FROM ready
            WHERE ready.lane = in_lane.lane
            AND (available_at <> turn OR tier >= {FIRST_DEADLINE_TIER})
            ORDER BY available_at LIMIT 1)
        FROM in_lane JOIN lane ON lane.id = in_lane.lane
        UNION ALL ({_OLDEST_PARKED})) AS found(queue, in_turn, out_of_turn)
    GROUP BY queue
"""
KEPT: Final = f"SELECT queue, at, {SPAN_NAMES} FROM span WHERE resolution = $1 AND at >= $2"
KEPT_MEASURES: Final = """
    SELECT queue, pending_before, pending, measures FROM span
    WHERE resolution = $1 AND at >= $2 ORDER BY at
"""
KEEP_SPAN: Final = f"""
    INSERT INTO span (resolution, queue, at, {SPAN_NAMES})
    SELECT * FROM {unnested("bigint text bigint" + " bigint" * (len(SPAN_COLUMNS) - 1) + " bytea")}
    ON CONFLICT (resolution, queue, at) DO UPDATE
    SET {", ".join(f"{name} = excluded.{name}" for name in SPAN_COLUMNS)}
"""


class SpanShelf(TableSpans):
    """See `leasehold.core.rules.sampling.SpanShelf`."""

    lane_totals = TOTALS
    lane_totals_of_all = totals_of_all_from(TOTALS, _added)
    measured = MEASURED
    oldest = OLDEST
    kept_spans = KEPT
    kept_spans_of_queue = f"{KEPT} AND queue = $3"
    look_of_all = look_of_all_from(_added)
    summed_counts = summed_from("span", _added)
    kept_measures = KEPT_MEASURES
    keep_span = KEEP_SPAN
    add_worked = ADD_WORKED
    _db: SqlConnection

    def _many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        self._db.many(statement, rows)

    def _oldest(self, queue: str | None) -> Iterable[Any]:
        if queue is None:
            return self._db.execute(OLDEST_OF_ALL, (self.keys_aged,))
        return super()._oldest(queue)


STANDING: Final = standings_from("lane_now", "queue")


class MetricsReader(TableMetrics, SpanShelf):
    """The reads for core.rules.metrics."""

    reader_of = PlainReader
    counters = STATS
    standing = STANDING

    def queues(self) -> list[str]:
        return queues(self._db)
