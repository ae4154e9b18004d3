"""The archive: jobs are copied into it in the write that deletes them, and searched there."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any, Final, NamedTuple

import msgspec

from leasehold.core.model.archive import (
    ERROR_CHARS,
    RESULT_SUMMARY_CHARS,
    SUMMARY_BYTES,
    ArchivedJob,
    ArchivePage,
    ArchivePlace,
    check_filter,
)
from leasehold.core.model.outcome import JobError
from leasehold.core.model.refusals import check_page
from leasehold.core.model.retention import DAY_SECONDS, day_number
from leasehold.core.model.search import JobFilter
from leasehold.core.model.text import mentions
from leasehold.env import from_micros, to_micros
from leasehold.stores.postgres.reading.where import Clause, numbered
from leasehold.stores.postgres.schema.codes import STATUS_CODE, STATUS_OF
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
        job.metadata, job.parent_id
    FROM finished
    JOIN job ON job.seq = finished.seq
    JOIN lane ON lane.id = job.lane
    LEFT JOIN attempt AS failed ON failed.seq = job.seq AND failed.version = (
        SELECT max(version) FROM attempt
        WHERE attempt.seq = job.seq AND attempt.error_type IS NOT NULL)
    WHERE finished.seq = ANY($1)
"""  # noqa: S608  # our own numbers
INSERT: Final = f"""
    INSERT INTO archive SELECT * FROM {
    unnested(
        "bigint bigint text text text bigint bigint bigint bigint bigint bigint text text text "
        "text text text"
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
    days: tuple[date | None, date | None],
    limit: int,
    cursor: str | None,
) -> ArchivePage:
    """Archived jobs that fit, those archived last first."""
    check_page(limit)
    check_filter(where)
    seen = None if cursor is None else ArchivePlace.at(cursor)
    rows = _walk(db, where, days, limit + 1, seen)
    jobs = [_job(row) for row in rows[:limit]]
    if len(rows) <= limit:
        return ArchivePage(jobs)
    last = rows[limit - 1]
    return ArchivePage(jobs, ArchivePlace(last.day, last.seq).cursor)


def _walk(
    db: Connection,
    where: JobFilter,
    days: tuple[date | None, date | None],
    limit: int,
    seen: tuple[int, int] | None,
) -> list[ArchiveRow]:
    """The next that fit; texts and metadata are compared here, page by page."""
    found: list[ArchiveRow] = []
    page = max(limit, COMPARED_AT_ONCE)
    while True:
        clauses, values = numbered([*_of_the_days(days), *_of_the_job(where)])
        if seen is not None:
            clauses.append(f"(day, seq) < (${len(values) + 1}, ${len(values) + 2})")
            values += seen
        condition = " AND ".join(clauses) or "true"
        rows = db.execute(
            f"SELECT {_COLUMNS} FROM archive WHERE {condition} "  # noqa: S608  # our own names
            f"ORDER BY day DESC, seq DESC LIMIT ${len(values) + 1}",
            (*values, page),
        ).fetchall()
        found += [row for row in map(ArchiveRow._make, rows) if _fits(row, where)]
        if len(rows) < page or len(found) >= limit:
            return found[:limit]
        seen = rows[-1][0], rows[-1][1]


def _fits(row: ArchiveRow, where: JobFilter) -> bool:
    error = "" if row.error_type is None else f"{row.error_type}: {row.error_message}"
    if where.error_text is not None and not mentions(error, where.error_text):
        return False
    if where.metadata is None:
        return True
    metadata = {} if row.metadata is None else _decode_metadata(row.metadata)
    return all(key in metadata and metadata[key] == each for key, each in where.metadata.items())


_DAY_MICROS: Final = round(DAY_SECONDS * 1e6)


def _of_the_days(days: tuple[date | None, date | None]) -> list[Clause]:
    """The days on which jobs ended; none was archived before the day on which it ended."""
    clauses: list[Clause] = []
    first, last = days
    if first is not None:
        start = day_number(first)
        clauses += [("day >= {}", start), ("finished_at >= {}", start * _DAY_MICROS)]
    if last is not None:
        end = day_number(last + timedelta(days=1))
        clauses.append(("finished_at < {}", end * _DAY_MICROS))
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
        started_at=None if row.started_at is None else from_micros(row.started_at),
        completed_at=from_micros(row.finished_at),
        archived_at=from_micros(row.archived_at),
        attempts=row.attempts,
        error=error,
        reason=row.reason,
        result_summary=row.result,
        metadata=None if row.metadata is None else _decode_metadata(row.metadata),
        parent_id=row.parent_id,
    )
