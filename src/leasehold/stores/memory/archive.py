"""The archive of a memory store: small rows by day, bounded like everything here."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from leasehold.core.model.archive import (
    SUMMARY_BYTES,
    ArchivedJob,
    ArchivePage,
    ArchivePlace,
    ArchiveSpan,
    check_filter,
    error_summary,
    fits,
    summary_of,
)
from leasehold.core.model.job import MetadataValue
from leasehold.core.model.outcome import JobError
from leasehold.core.model.refusals import check_page
from leasehold.core.model.retention import DAY_SECONDS
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Status
from leasehold.core.model.stored import moment
from leasehold.env import from_micros
from leasehold.stores.memory.record import FailureCount, Record

ARCHIVED_MAX: Final = 10_000
"""Summaries kept; the first archived are dropped first."""
_DAY_MICROS: Final = round(DAY_SECONDS * 1e6)


class Summary(NamedTuple):
    """The fields taken from a record. They become an ArchivedJob only when they are read, since
    jobs are archived by the million.
    """

    day: int
    seq: int
    id: str
    queue: str
    task: str
    status: Status
    created_at: int
    started_at: int | None
    completed_at: int
    archived_at: int
    attempts: int
    failures: FailureCount | None
    error: JobError | None
    reason: str | None
    result: bytes | None
    codec: str
    metadata: dict[str, MetadataValue] | None
    parent_id: str | None


class JobArchive:
    """Pruned jobs, partitioned by the day on which they were archived."""

    def __init__(self) -> None:
        self._days: dict[int, deque[Summary]] = {}
        self._count = 0

    def add(self, record: Record, now: int) -> None:
        draft = record.draft
        result = record.result
        ttl = draft.result_ttl_seconds
        if ttl is not None and (record.completed_at or 0) + round(ttl * 1e6) <= now:
            result = None
        day = now // _DAY_MICROS
        rows = self._days.get(day)
        if rows is None:
            rows = self._days[day] = deque()
        rows.append(
            Summary(
                day,
                record.seq,
                record.id,
                draft.queue,
                draft.task,
                record.status,
                record.created_at,
                record.started_at,
                record.completed_at or 0,
                now,
                record.attempts,
                record.failures,
                error_summary(record.error),
                record.reason,
                None if result is None else result[:SUMMARY_BYTES],
                record.result_codec,
                draft.metadata,
                draft.parent_id,
            )
        )
        self._count += 1
        while self._count > ARCHIVED_MAX:
            self._drop_first()

    def drop_old(self, first_day: int, limit: int) -> int:
        """Drop up to `limit` rows of days before this one; returns how many were dropped."""
        dropped = 0
        while dropped < limit and self.oldest_day is not None and self.oldest_day < first_day:
            self._drop_first()
            dropped += 1
        return dropped

    @property
    def oldest_day(self) -> int | None:
        return next(iter(self._days), None)

    def find(self, job_id: str) -> ArchivedJob | None:
        return next((_job(row) for row in self._latest_first() if row.id == job_id), None)

    def search(
        self,
        where: JobFilter,
        span: ArchiveSpan,
        limit: int,
        cursor: str | None,
        *,
        slowest_first: bool,
    ) -> ArchivePage:
        """The matching jobs, in order. The cursor is the place of the last one shown."""
        check_page(limit)
        check_filter(where)
        before = None if cursor is None else ArchivePlace.at(cursor)
        found: list[ArchivedJob] = []
        last = ""
        for place, row in self._slowest_first() if slowest_first else self._in_order():
            if before is not None and place >= before:
                continue
            job = _job(row)
            if span.has(job) and fits(where, job):
                if len(found) == limit:
                    return ArchivePage(found, last)
                found.append(job)
                last = place.cursor
        return ArchivePage(found)

    def _latest_first(self) -> Iterator[Summary]:
        for day in sorted(self._days, reverse=True):
            yield from sorted(self._days[day], key=lambda row: -row.seq)

    def _in_order(self) -> Iterator[tuple[ArchivePlace, Summary]]:
        return ((ArchivePlace(0, row.day, row.seq), row) for row in self._latest_first())

    def _slowest_first(self) -> Iterator[tuple[ArchivePlace, Summary]]:
        ran = [
            (ArchivePlace(max(0, row.completed_at - row.started_at), row.day, row.seq), row)
            for row in self._latest_first()
            if row.started_at is not None
        ]
        return iter(sorted(ran, key=lambda each: each[0], reverse=True))

    def _drop_first(self) -> None:
        day = next(iter(self._days))
        self._days[day].popleft()
        self._count -= 1
        if not self._days[day]:
            del self._days[day]


def _job(row: Summary) -> ArchivedJob:
    return ArchivedJob(
        id=row.id,
        queue=row.queue,
        task=row.task,
        status=row.status,
        created_at=from_micros(row.created_at),
        started_at=moment(row.started_at),
        completed_at=from_micros(row.completed_at),
        archived_at=from_micros(row.archived_at),
        attempts=row.attempts,
        failure_count=0 if row.failures is None else row.failures.count,
        first_failed_at=None if row.failures is None else from_micros(row.failures.first_at),
        last_failed_at=None if row.failures is None else from_micros(row.failures.last_at),
        error=row.error,
        reason=row.reason,
        result_summary=summary_of(row.result, row.codec),
        metadata=None if row.metadata is None else dict(row.metadata),
        parent_id=row.parent_id,
    )
