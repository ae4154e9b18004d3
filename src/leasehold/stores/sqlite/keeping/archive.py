"""The archive: jobs are copied into it in the write that deletes them, and searched there."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import apsw
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
from leasehold.env import from_micros, to_micros

# Guard: rows of `finished` only, in the write that takes them out of it. A result past its time to
# live leaves no summary.
ARCHIVE: Final = f"""
    INSERT INTO archive
    SELECT :day, job.seq, job.id, lane.queue, lane.task, finished.status, job.created_at,
        coalesce(finished.started_at, (SELECT started_at FROM attempt WHERE attempt.seq = job.seq
                                       ORDER BY version DESC LIMIT 1)),
        finished.finished_at, :now, finished.attempts,
        failed.error_type, substr(failed.error_message, 1, {ERROR_CHARS}), finished.reason,
        iif(finished.result_codec IS NULL
                AND (job.result_ttl_seconds IS NULL
                     OR finished.finished_at + job.result_ttl_seconds * 1000000 > :now),
            substr(CAST(substr(finished.result, 1, {SUMMARY_BYTES}) AS TEXT),
                   1, {RESULT_SUMMARY_CHARS}), NULL),
        job.metadata, job.parent_id,
        coalesce(failed_job.count, 0), failed_job.first_at, failed_job.last_at
    FROM json_each(:seqs) AS doomed
    CROSS JOIN finished ON finished.seq = doomed.value
    JOIN job ON job.seq = finished.seq
    JOIN lane ON lane.id = job.lane
    LEFT JOIN failed_job ON failed_job.seq = job.seq
    LEFT JOIN attempt AS failed ON failed.seq = job.seq AND failed.version = (
        SELECT max(version) FROM attempt
        WHERE attempt.seq = job.seq AND attempt.error_type IS NOT NULL)
"""  # noqa: S608  # our own numbers
DROP: Final = """
    DELETE FROM archive WHERE (day, seq) IN (
        SELECT day, seq FROM archive WHERE day < ? ORDER BY day, seq LIMIT ?)
"""
# A day that is none would be dropped last, or never: it is left to whoever looks at `check`.
OLDEST: Final = "SELECT day FROM archive WHERE typeof(day) = 'integer' ORDER BY day LIMIT 1"


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
FIND: Final = f"SELECT {_COLUMNS} FROM archive WHERE id = ? ORDER BY seq DESC LIMIT 1"  # noqa: S608  # our own names
_ERROR_TEXT: Final = "coalesce(CAST(error_type || ': ' || error_message AS BLOB), '')"
_HAS_TAG: Final = """
    EXISTS (SELECT 1
            FROM json_each(iif(json_valid(archive.metadata), archive.metadata, NULL)) AS tag,
                json_each(?) AS wanted
            WHERE tag.key = wanted.key AND tag.value IS wanted.value)
"""

_decode_metadata = msgspec.json.Decoder(dict[str, Any]).decode


def find(db: apsw.Connection, job_id: str) -> ArchivedJob | None:
    """The latest archived job with this id."""
    row: Any = db.execute(FIND, (job_id,)).fetchone()
    return None if row is None else _job(ArchiveRow(*row))


def search(
    db: apsw.Connection,
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
    found = [*order.clauses, *_of_the_span(span), *_of_the_job(where)]
    if cursor is not None:
        found.append((order.below, ArchivePlace.at(cursor)[-len(order.columns) :]))
    condition = " AND ".join(clause for clause, _ in found) or "1"
    values = [value for _, values in found for value in values]
    by = ", ".join(f"{column} DESC" for column in order.columns)
    found_rows: Any = db.execute(
        f"SELECT {_COLUMNS} FROM archive WHERE {condition} "  # noqa: S608  # our own names
        f"ORDER BY {by} LIMIT ?",
        (*values, limit + 1),
    )
    rows = [ArchiveRow(*row) for row in found_rows]
    jobs = [_job(row) for row in rows[:limit]]
    if len(rows) <= limit:
        return ArchivePage(jobs)
    last = rows[limit - 1]
    ran = (last.run_micros or 0) if slowest_first else 0
    return ArchivePage(jobs, ArchivePlace(ran, last.day, last.seq).cursor)


_DAY_MICROS: Final = round(DAY_SECONDS * 1e6)

Clause = tuple[str, tuple[Any, ...]]


class _Order(NamedTuple):
    """An order of search. Rows stand in it in an index, of one task and of all."""

    columns: tuple[str, ...]
    clauses: tuple[Clause, ...] = ()

    @property
    def below(self) -> str:
        """Holds for what comes after a cursor."""
        return f"({', '.join(self.columns)}) < ({', '.join('?' for _ in self.columns)})"


_LATEST: Final = _Order(("day", "seq"))
# The clause lets SQLite read along the index of run times, where only those stand that ran.
_SLOWEST: Final = _Order(("run_micros", "day", "seq"), (("run_micros >= 0", ()),))


def _of_the_span(span: ArchiveSpan) -> list[Clause]:
    clauses: list[Clause] = []
    if span.first_day is not None:
        # None was archived before the day on which it ended.
        start = day_number(span.first_day)
        clauses.append(("day >= ? AND finished_at >= ?", (start, start * _DAY_MICROS)))
    if span.last_day is not None:
        end = (day_number(span.last_day) + 1) * _DAY_MICROS
        clauses.append(("finished_at < ?", (end,)))
    if span.run_micros_min is not None:
        clauses.append(("run_micros >= ?", (span.run_micros_min,)))
    if span.run_micros_max is not None:
        clauses.append(("run_micros <= ?", (span.run_micros_max,)))
    return clauses


def _of_the_job(where: JobFilter) -> list[Clause]:
    clauses: list[Clause] = []
    statuses = None if where.statuses is None else [STATUS_CODE[each] for each in where.statuses]
    for column, wanted in (
        ("id", where.ids),
        ("queue", where.queues),
        ("task", where.tasks),
        ("status", statuses),
    ):
        if wanted is not None and len(wanted) == 1:
            clauses.append((f"{column} = ?", (wanted[0],)))
        elif wanted is not None:
            one_of = f"{column} IN (SELECT value FROM json_each(?))"  # noqa: S608  # our own names
            clauses.append((one_of, (msgspec.json.encode(wanted).decode(),)))
    if where.created_from is not None:
        clauses.append(("created_at >= ?", (to_micros(where.created_from),)))
    if where.created_before is not None:
        clauses.append(("created_at < ?", (to_micros(where.created_before),)))
    if where.parent_id is not None:
        clauses.append(("parent_id = ?", (where.parent_id,)))
    if where.error_text is not None:
        clauses.append((f"mentions({_ERROR_TEXT}, ?)", (where.error_text,)))
    for key, value in (where.metadata or {}).items():
        clauses.append((_HAS_TAG, (msgspec.json.encode({key: value}).decode(),)))
    return clauses


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
