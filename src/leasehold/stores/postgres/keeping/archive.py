"""The archive: jobs are copied into it in the write that deletes them, and searched there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from leasehold.core.model.archive import (
    ERROR_CHARS,
    RESULT_SUMMARY_CHARS,
    SUMMARY_BYTES,
    ArchivedJob,
    ArchivePage,
    ArchivePlace,
    ArchiveSpan,
    check_filter,
)
from leasehold.core.model.codes import STATUS_CODE, STATUS_OF
from leasehold.core.model.outcome import JobError
from leasehold.core.model.refusals import check_page
from leasehold.core.model.retention import DAY_SECONDS, day_number
from leasehold.core.model.search import JobFilter
from leasehold.core.model.stored import moment
from leasehold.core.model.text import mentions
from leasehold.env import from_micros, to_micros
from leasehold.stores.postgres.reading.where import Clause, numbered
from leasehold.stores.postgres.schema.texts import storable
from leasehold.stores.postgres.server.connection import Connection, unnested

# Guard: rows of `finished` only, in the write that takes them out of it. A result past its time to
# live leaves no summary.
ARCHIVE: Final = f"""
    SELECT $2::bigint, job.seq, job.id, lane.queue, lane.task, finished.status, job.created_at,
        coalesce(finished.started_at, (SELECT started_at FROM attempt WHERE attempt.seq = job.seq
                                       ORDER BY version DESC LIMIT 1)),
        finished.finished_at, $3::bigint, finished.attempts,
        failed.error_type, substr(failed.error_message, 1, {ERROR_CHARS}), finished.reason,
        CASE WHEN finished.result_codec IS NULL
                AND (job.result_ttl_seconds IS NULL
                     OR finished.finished_at + job.result_ttl_seconds * 1000000 > $3)
            THEN substr(finished.result, 1, {SUMMARY_BYTES}) END,
        job.metadata, job.parent_id,
        coalesce(failed_job.count, 0), failed_job.first_at, failed_job.last_at
    FROM finished
    JOIN job ON job.seq = finished.seq
    JOIN lane ON lane.id = job.lane
    LEFT JOIN failed_job ON failed_job.seq = job.seq
    LEFT JOIN attempt AS failed ON failed.seq = job.seq AND failed.version = (
        SELECT max(version) FROM attempt
        WHERE attempt.seq = job.seq AND attempt.error_type IS NOT NULL)
    WHERE finished.seq = ANY($1)
"""  # noqa: S608  # our own numbers
INSERT: Final = f"""
    INSERT INTO archive SELECT * FROM {
    unnested(
        "bigint bigint text text text bigint bigint bigint bigint bigint bigint text text text "
        "text text text bigint bigint bigint"
    )
}
"""  # noqa: S608  # our own names
COMPARED_AT_ONCE: Final = 500
"""How many jobs are fetched at once."""
DROP: Final = """
    DELETE FROM archive WHERE (day, seq) IN (
        SELECT day, seq FROM archive WHERE day < $1 ORDER BY day, seq LIMIT $2)
"""
OLDEST: Final = "SELECT day FROM archive ORDER BY day LIMIT 1"


class ArchiveRow(NamedTuple):
    """A row of `archive`."""

    day: int
    seq: int
    id: str
    queue: str
    task: str
    status: int
    created_at: int
    started_at: int | None
    finished_at: int
    archived_at: int
    attempts: int
    error_type: str | None
    error_message: str
    reason: str | None
    result: str | None
    metadata: str | None
    parent_id: str | None
    failure_count: int
    first_failed_at: int | None
    last_failed_at: int | None
    run_micros: int | None


_COLUMNS: Final = ", ".join(ArchiveRow._fields)
_RESULT: Final = ArchiveRow._fields.index("result")
FIND: Final = f"SELECT {_COLUMNS} FROM archive WHERE id = $1 ORDER BY seq DESC LIMIT 1"  # noqa: S608  # our own names

_decode_metadata = msgspec.json.Decoder(dict[str, Any]).decode


def add(db: Connection, seqs: Sequence[int], day: int, now: int) -> None:
    """Copy ended jobs into the archive; their results are cut to what can be shown as text."""
    rows = [list(row) for row in db.execute(ARCHIVE, (list(seqs), day, now))]
    for row in rows:
        if row[_RESULT] is not None:
            shown = bytes(row[_RESULT]).decode(errors="replace")[:RESULT_SUMMARY_CHARS]
            row[_RESULT] = storable(shown)
    db.many(INSERT, rows)


def find(db: Connection, job_id: str) -> ArchivedJob | None:
    """The latest archived job with this id."""
    row: Any = db.execute(FIND, (job_id,)).fetchone()
    return None if row is None else _job(ArchiveRow(*row))


def search(
    db: Connection,
    where: JobFilter,
    span: ArchiveSpan,
    limit: int,
    cursor: str | None,
    *,
    slowest_first: bool,
) -> ArchivePage:
    """Archived jobs that fit, those archived last, or those that ran longest, first."""
    check_page(limit)
    check_filter(where)
    order = _SLOWEST if slowest_first else _LATEST
    seen = None if cursor is None else ArchivePlace.at(cursor)[-len(order.columns) :]
    rows = _walk(db, where, span, order, limit + 1, seen)
    jobs = [_job(row) for row in rows[:limit]]
    if len(rows) <= limit:
        return ArchivePage(jobs)
    last = rows[limit - 1]
    ran = (last.run_micros or 0) if slowest_first else 0
    return ArchivePage(jobs, ArchivePlace(ran, last.day, last.seq).cursor)


class _Order(NamedTuple):
    """An order of search. Rows stand in it in an index, of one task and of all."""

    columns: tuple[str, ...]
    clauses: tuple[Clause, ...] = ()

    def below(self, values: list[Any], seen: tuple[int, ...]) -> str:
        """Holds for what comes after a place, which is added to the values."""
        first = len(values) + 1
        values += seen
        places = ", ".join(f"${n}" for n in range(first, first + len(seen)))
        return f"({', '.join(self.columns)}) < ({places})"


_LATEST: Final = _Order(("day", "seq"))
_SLOWEST: Final = _Order(("run_micros", "day", "seq"), (("run_micros >= {}", 0),))


def _walk(
    db: Connection,
    where: JobFilter,
    span: ArchiveSpan,
    order: _Order,
    limit: int,
    seen: tuple[int, ...] | None,
) -> list[ArchiveRow]:
    """The next that fit; texts and metadata are compared here, page by page."""
    found: list[ArchiveRow] = []
    page = max(limit, COMPARED_AT_ONCE)
    by = ", ".join(f"{column} DESC" for column in order.columns)
    while True:
        clauses, values = numbered([*order.clauses, *_of_the_span(span), *_of_the_job(where)])
        if seen is not None:
            clauses.append(order.below(values, seen))
        condition = " AND ".join(clauses) or "true"
        rows = db.execute(
            f"SELECT {_COLUMNS} FROM archive WHERE {condition} "  # noqa: S608  # our own names
            f"ORDER BY {by} LIMIT ${len(values) + 1}",
            (*values, page),
        ).fetchall()
        found += [row for row in map(ArchiveRow._make, rows) if _fits(row, where)]
        if len(rows) < page or len(found) >= limit:
            return found[:limit]
        last = ArchiveRow._make(rows[-1])
        seen = tuple(getattr(last, column) for column in order.columns)


def _fits(row: ArchiveRow, where: JobFilter) -> bool:
    error = "" if row.error_type is None else f"{row.error_type}: {row.error_message}"
    if where.error_text is not None and not mentions(error, where.error_text):
        return False
    if where.metadata is None:
        return True
    metadata = {} if row.metadata is None else _decode_metadata(row.metadata)
    return all(key in metadata and metadata[key] == each for key, each in where.metadata.items())


_DAY_MICROS: Final = round(DAY_SECONDS * 1e6)


def _of_the_span(span: ArchiveSpan) -> list[Clause]:
    clauses: list[Clause] = []
    if span.first_day is not None:
        # None was archived before the day on which it ended.
        start = day_number(span.first_day)
        clauses += [("day >= {}", start), ("finished_at >= {}", start * _DAY_MICROS)]
    if span.last_day is not None:
        end = (day_number(span.last_day) + 1) * _DAY_MICROS
        clauses.append(("finished_at < {}", end))
    if span.run_micros_min is not None:
        clauses.append(("run_micros >= {}", span.run_micros_min))
    if span.run_micros_max is not None:
        clauses.append(("run_micros <= {}", span.run_micros_max))
    return clauses


def _of_the_job(where: JobFilter) -> list[Clause]:
    statuses = None if where.statuses is None else [STATUS_CODE[each] for each in where.statuses]
    compared = (
        ("id = ANY({})", None if where.ids is None else list(where.ids)),
        ("queue = ANY({})", None if where.queues is None else list(where.queues)),
        ("task = ANY({})", None if where.tasks is None else list(where.tasks)),
        ("status = ANY({})", statuses),
        ("created_at >= {}", where.created_from and to_micros(where.created_from)),
        ("created_at < {}", where.created_before and to_micros(where.created_before)),
        ("parent_id = {}", where.parent_id),
    )
    return [(clause, value) for clause, value in compared if value is not None]


def _job(row: ArchiveRow) -> ArchivedJob:
    error = None if row.error_type is None else JobError(row.error_type, row.error_message)
    return ArchivedJob(
        id=row.id,
        queue=row.queue,
        task=row.task,
        status=STATUS_OF[row.status],
        created_at=from_micros(row.created_at),
        started_at=moment(row.started_at),
        completed_at=from_micros(row.finished_at),
        archived_at=from_micros(row.archived_at),
        attempts=row.attempts,
        failure_count=row.failure_count,
        first_failed_at=moment(row.first_failed_at),
        last_failed_at=moment(row.last_failed_at),
        error=error,
        reason=row.reason,
        result_summary=row.result,
        metadata=None if row.metadata is None else _decode_metadata(row.metadata),
        parent_id=row.parent_id,
    )
