"""The archive, and how it is searched; a job is copied into it in the write that deletes it."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import Any, ClassVar, Final, NamedTuple

import msgspec

from leasehold.core.model.archive import (
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
from leasehold.stores.tables.statements import Clause, Dialect, SqlConnection, numbered

DROP: Final = """
    DELETE FROM archive WHERE (day, seq) IN (
        SELECT day, seq FROM archive WHERE day < $1 ORDER BY day, seq LIMIT $2)
"""


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


COLUMNS: Final = ", ".join(ArchiveRow._fields)
FIND: Final = f"SELECT {COLUMNS} FROM archive WHERE id = $1 ORDER BY seq DESC LIMIT 1"
_DAY_MICROS: Final = round(DAY_SECONDS * 1e6)


decode_metadata = msgspec.json.Decoder(dict[str, Any]).decode


class ArchiveOrder(NamedTuple):
    """An order of search, with an index for one task and one for all."""

    columns: tuple[str, ...]
    clauses: tuple[Clause, ...] = ()

    def below(self, place: Sequence[int]) -> Clause:
        """A condition that is true for rows after a place."""
        marks = ", ".join("{}" for _ in self.columns)
        return f"({', '.join(self.columns)}) < ({marks})", tuple(place)


_LATEST: Final = ArchiveOrder(("day", "seq"))
# The clause lets a database use the index of run times, which has only jobs that ran.
_SLOWEST: Final = ArchiveOrder(("run_micros", "day", "seq"), (("run_micros >= 0", ()),))


class TableArchive(ABC):
    """Reads the archive. Conditions that a database cannot decide are decided here."""

    dialect: ClassVar[Dialect]
    compared_at_once: ClassVar[int] = 500

    def find(self, db: SqlConnection, job_id: str) -> ArchivedJob | None:
        """The latest archived job with this id."""
        row: Any = db.execute(FIND, (job_id,)).fetchone()
        return None if row is None else _job(ArchiveRow._make(row))

    def search(
        self,
        db: SqlConnection,
        where: JobFilter,
        span: ArchiveSpan,
        limit: int,
        cursor: str | None,
        *,
        slowest_first: bool,
    ) -> ArchivePage:
        """Matching archived jobs, last archived (or longest running) first."""
        check_page(limit)
        check_filter(where)
        order = _SLOWEST if slowest_first else _LATEST
        seen = None if cursor is None else ArchivePlace.at(cursor)[-len(order.columns) :]
        rows = self._walk(db, where, span, order, limit + 1, seen)
        jobs = [_job(row) for row in rows[:limit]]
        if len(rows) <= limit:
            return ArchivePage(jobs)
        last = rows[limit - 1]
        ran = (last.run_micros or 0) if slowest_first else 0
        return ArchivePage(jobs, ArchivePlace(ran, last.day, last.seq).cursor)

    def _walk(
        self,
        db: SqlConnection,
        where: JobFilter,
        span: ArchiveSpan,
        order: ArchiveOrder,
        limit: int,
        seen: Sequence[int] | None,
    ) -> list[ArchiveRow]:
        """The next matching jobs."""
        found: list[ArchiveRow] = []
        page = max(limit, self.compared_at_once) if self.compares(where) else limit
        asked = [*order.clauses, *_of_the_span(span), *self._of_the_job(where)]
        asked += self.further_clauses(where)
        by = ", ".join(f"{column} DESC" for column in order.columns)
        while True:
            below = [] if seen is None else [order.below(seen)]
            condition, values = numbered([*asked, *below])
            rows = db.execute(
                f"SELECT {COLUMNS} FROM archive WHERE {condition} "
                f"ORDER BY {by} LIMIT ${len(values) + 1}",
                (*values, page),
            ).fetchall()
            found += [row for row in map(ArchiveRow._make, rows) if self.fits(row, where)]
            if len(rows) < page or len(found) >= limit:
                return found[:limit]
            last = ArchiveRow._make(rows[-1])
            seen = tuple(getattr(last, column) for column in order.columns)

    def further_clauses(self, where: JobFilter) -> list[Clause]:  # noqa: ARG002  # none here
        """The database's part of the conditions on texts and metadata."""
        return []

    def compares(self, where: JobFilter) -> bool:  # noqa: ARG002  # nothing here
        """Whether rows have to be compared here."""
        return False

    def fits(self, row: ArchiveRow, where: JobFilter) -> bool:  # noqa: ARG002  # as above
        """Whether a row found by the database matches."""
        return True

    def _of_the_job(self, where: JobFilter) -> list[Clause]:
        clauses: list[Clause] = []
        codes = None if where.statuses is None else [STATUS_CODE[each] for each in where.statuses]
        listed: tuple[tuple[str, Sequence[str] | Sequence[int] | None], ...] = (
            ("id", where.ids),
            ("queue", where.queues),
            ("task", where.tasks),
            ("status", codes),
        )
        for column, wanted in listed:
            if wanted is not None and len(wanted) == 1:
                clauses.append((f"{column} = {{}}", (wanted[0],)))
            elif wanted is not None:
                clauses.append((self.dialect.among(column, "{}"), (self.dialect.listed(wanted),)))
        if where.created_from is not None:
            clauses.append(("created_at >= {}", (to_micros(where.created_from),)))
        if where.created_before is not None:
            clauses.append(("created_at < {}", (to_micros(where.created_before),)))
        if where.parent_id is not None:
            clauses.append(("parent_id = {}", (where.parent_id,)))
        return clauses


def _of_the_span(span: ArchiveSpan) -> list[Clause]:
    clauses: list[Clause] = []
    if span.first_day is not None:
        # No job was archived before the day on which it ended.
        start = day_number(span.first_day)
        clauses.append(("day >= {} AND finished_at >= {}", (start, start * _DAY_MICROS)))
    if span.last_day is not None:
        end = (day_number(span.last_day) + 1) * _DAY_MICROS
        clauses.append(("finished_at < {}", (end,)))
    if span.run_micros_min is not None:
        clauses.append(("run_micros >= {}", (span.run_micros_min,)))
    if span.run_micros_max is not None:
        clauses.append(("run_micros <= {}", (span.run_micros_max,)))
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
        metadata=None if row.metadata is None else decode_metadata(row.metadata),
        parent_id=row.parent_id,
    )
