"""The archive: jobs are copied into it in the write that deletes them, and searched there."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any, Final

import apsw
import msgspec

from leasehold.core.archive import (
    ERROR_CHARS,
    RESULT_SUMMARY_CHARS,
    SUMMARY_BYTES,
    ArchivedJob,
    ArchivePage,
    check_filter,
)
from leasehold.core.outcome import JobError
from leasehold.core.refusals import check_page, not_a_cursor
from leasehold.core.retention import day_number
from leasehold.core.search import JobFilter
from leasehold.env import from_micros, to_micros
from leasehold.stores.sqlite.schema.codes import STATUS_CODE, STATUS_OF

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
        job.metadata, job.parent_id
    FROM json_each(:seqs) AS doomed
    CROSS JOIN finished ON finished.seq = doomed.value
    JOIN job ON job.seq = finished.seq
    JOIN lane ON lane.id = job.lane
    LEFT JOIN attempt AS failed ON failed.seq = job.seq AND failed.version = (
        SELECT max(version) FROM attempt
        WHERE attempt.seq = job.seq AND attempt.error_type IS NOT NULL)
"""  # noqa: S608  # our own numbers
DROP: Final = """
    DELETE FROM archive WHERE (day, seq) IN (
        SELECT day, seq FROM archive WHERE day < ? ORDER BY day, seq LIMIT ?)
"""
OLDEST: Final = "SELECT day FROM archive ORDER BY day LIMIT 1"

_COLUMNS: Final = (
    "day, seq, id, queue, task, status, created_at, started_at, finished_at, archived_at, "
    "attempts, error_type, error_message, reason, result, metadata, parent_id"
)
FIND: Final = f"SELECT {_COLUMNS} FROM archive WHERE id = ? ORDER BY seq DESC LIMIT 1"  # noqa: S608  # our own names
_ERROR_TEXT: Final = "coalesce(error_type || ': ' || error_message, '')"
_HAS_TAG: Final = """
    EXISTS (SELECT 1 FROM json_each(archive.metadata) AS tag, json_each(?) AS wanted
            WHERE tag.key = wanted.key AND tag.value IS wanted.value)
"""

_decode_metadata = msgspec.json.Decoder(dict[str, Any]).decode


def find(db: apsw.Connection, job_id: str) -> ArchivedJob | None:
    """The latest archived job with this id."""
    row = db.execute(FIND, (job_id,)).fetchone()
    return None if row is None else _job(row)


def search(
    db: apsw.Connection,
    where: JobFilter,
    days: tuple[date | None, date | None],
    limit: int,
    cursor: str | None,
) -> ArchivePage:
    """Archived jobs that fit, those archived last first."""
    check_page(limit)
    check_filter(where)
    found = [*_of_the_days(days), *_of_the_job(where)]
    if cursor is not None:
        found.append(("(day, seq) < (?, ?)", _place(cursor)))
    condition = " AND ".join(clause for clause, _ in found) or "1"
    values = [value for _, values in found for value in values]
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM archive WHERE {condition} ORDER BY day DESC, seq DESC LIMIT ?",  # noqa: S608  # our own names
        (*values, limit + 1),
    ).fetchall()
    jobs = [_job(row) for row in rows[:limit]]
    if len(rows) <= limit:
        return ArchivePage(jobs)
    day, seq = rows[limit - 1][:2]
    return ArchivePage(jobs, f"{day}.{seq}")


Clause = tuple[str, tuple[Any, ...]]


def _of_the_days(days: tuple[date | None, date | None]) -> list[Clause]:
    """The days on which jobs ended; none was archived before the day on which it ended."""
    clauses: list[Clause] = []
    first, last = days
    if first is not None:
        start = day_number(first)
        clauses.append(("day >= ? AND finished_at >= ?", (start, start * _DAY_MICROS)))
    if last is not None:
        end = day_number(last + timedelta(days=1))
        clauses.append(("finished_at < ?", (end * _DAY_MICROS,)))
    return clauses


_DAY_MICROS: Final = 24 * 3600 * 1_000_000


def _of_the_job(where: JobFilter) -> list[Clause]:
    clauses: list[Clause] = []
    statuses = None if where.statuses is None else [STATUS_CODE[each] for each in where.statuses]
    for column, wanted in (
        ("id", where.ids),
        ("queue", where.queues),
        ("task", where.tasks),
        ("status", statuses),
    ):
        if wanted is not None:
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


def _place(cursor: str) -> tuple[int, int]:
    day, _, seq = cursor.partition(".")
    if not (day.isdecimal() and seq.isdecimal()):
        raise not_a_cursor(cursor)
    return int(day), int(seq)


def _job(row: tuple[Any, ...]) -> ArchivedJob:
    (_, _, job_id, queue, task, status, created_at, started_at, finished_at, archived_at, attempts,
     error_type, error_message, reason, result, metadata, parent_id) = row  # fmt: skip
    return ArchivedJob(
        id=job_id,
        queue=queue,
        task=task,
        status=STATUS_OF[status],
        created_at=from_micros(created_at),
        started_at=None if started_at is None else from_micros(started_at),
        completed_at=from_micros(finished_at),
        archived_at=from_micros(archived_at),
        attempts=attempts,
        error=None if error_type is None else JobError(error_type, error_message),
        reason=reason,
        result_summary=result,
        metadata=None if metadata is None else _decode_metadata(metadata),
        parent_id=parent_id,
    )
