"""Records: workers, histories, log lines, audit records, stuck jobs; damaged ones, too."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from leasehold.core.model.history import Attempt, HistoryEvent
from leasehold.core.model.joblog import JobLog, LogLine
from leasehold.core.model.lease import StuckJob
from leasehold.core.model.pages import (
    AuditPage,
    HistoryPage,
    LogPage,
    audit_page,
    check_cursor,
    log_page,
)
from leasehold.core.model.records import (
    CURRENT_JOBS_MAX,
    AuditRecord,
    CurrentJob,
    WorkerInfo,
    listed_workers,
)
from leasehold.core.model.stored import detail_of, names_of
from leasehold.core.rules import history
from leasehold.env import from_micros, to_micros
from leasehold.stores.tables.history import JobHistory
from leasehold.stores.tables.statements import NO_LIMIT, Kind, Query, Reader

WORKERS: Final = Query(
    {
        "id": Kind.TEXT,
        "host": Kind.TEXT_OR_NULL,
        "pid": Kind.WHOLE_OR_NULL,
        "queues": Kind.TEXT,
        "tasks": Kind.TEXT,
        "slots": Kind.WHOLE,
        "started_at": Kind.MOMENT,
        "heartbeat_at": Kind.MOMENT,
        "is_consumer": Kind.WHOLE,
        "app_version": Kind.TEXT_OR_NULL,
        "life < 0": Kind.WHOLE,  # whether it is remote: see `core.model.lives`
    },
    "FROM worker",
)
# Along its index: a table that jobs pass through has room for many more rows than it has, which a
# server would look through.
_RUNNING: Final = (
    "(SELECT seq, worker, attempts, acquired_at, expires_at FROM running ORDER BY seq) AS running"
)
# `running` is small, so one scan gives the jobs of every worker; an index by worker would slow down
# every lease and every settlement.
HELD: Final = Query(
    {
        "held.worker": Kind.TEXT,
        "held.leases": Kind.WHOLE,
        "job.id": Kind.TEXT,
        "lane.queue": Kind.TEXT,
        "lane.task": Kind.TEXT,
        "held.attempts": Kind.WHOLE,
        "held.acquired_at": Kind.MOMENT,
        "held.expires_at": Kind.MOMENT,
    },
    f"""
    FROM (SELECT seq, worker, attempts, acquired_at, expires_at,
            count(*) OVER (PARTITION BY worker) AS leases,
            row_number() OVER (PARTITION BY worker ORDER BY acquired_at, seq) AS n
        FROM {_RUNNING}) AS held
    CROSS JOIN job CROSS JOIN lane
    WHERE job.seq = held.seq AND lane.id = job.lane AND held.n <= {CURRENT_JOBS_MAX}
    ORDER BY held.worker, held.n
    """,
)
LEASES: Final = Query(
    {"worker": Kind.TEXT, "count(*)": Kind.WHOLE}, f"FROM {_RUNNING} GROUP BY worker"
)
LOG: Final = Query(
    {"log.n": Kind.WHOLE, "log.at": Kind.MOMENT, "log.line": Kind.TEXT},
    "FROM log WHERE seq = (SELECT seq FROM job WHERE id = $1) AND n > $2 ORDER BY n LIMIT $3",
)
_AUDIT_COLUMNS: Final = {
    "n": Kind.WHOLE,
    "at": Kind.MOMENT,
    "actor": Kind.TEXT,
    "action": Kind.TEXT,
    "detail": Kind.TEXT,
    "count": Kind.WHOLE,
}
_AUDIT_PART: Final = (
    "FROM {} WHERE n < $1 AND at >= $2 AND at < $3 ORDER BY n DESC LIMIT $4"  # our own names
)
AUDIT: Final = Query(_AUDIT_COLUMNS, _AUDIT_PART.format("audit"))
AUDIT_ARCHIVE: Final = Query(_AUDIT_COLUMNS, _AUDIT_PART.format("audit_archive"))


def who_works(reader: Reader, now: int) -> list[WorkerInfo]:
    """The registered workers and consumers without their jobs, which figures do not need."""
    return _registered(
        reader, now, {worker: (leases, []) for worker, leases in reader.rows(LEASES)}
    )


def _registered(
    reader: Reader, now: int, held: Mapping[str, tuple[int, list[CurrentJob]]]
) -> list[WorkerInfo]:
    rows = list(reader.rows(WORKERS))
    infos = [
        WorkerInfo(
            id=id_,
            host=host,
            pid=pid,
            queues=tuple(map(str, names_of(queues))),
            slots=slots,
            started_at=from_micros(started_at),
            heartbeat_at=from_micros(heartbeat_at),
            running=held[id_][0] if id_ in held else 0,
            jobs=tuple(held[id_][1]) if id_ in held else (),
            is_consumer=bool(is_consumer),
            tasks=tuple(map(str, names_of(tasks))),
            app_version=app_version,
        )
        for (
            id_, host, pid, queues, tasks, slots, started_at, heartbeat_at, is_consumer,
            app_version, _,
        ) in rows
    ]  # fmt: skip
    remote = {row[0] for row in rows if row[-1]}
    return listed_workers(infos, from_micros(now), remote)


def _held(reader: Reader) -> dict[str, tuple[int, list[CurrentJob]]]:
    """The number of leases and the first jobs of each worker."""
    found: dict[str, tuple[int, list[CurrentJob]]] = {}
    for worker, leases, id_, queue, task, attempts, acquired_at, expires_at in reader.rows(HELD):
        found.setdefault(worker, (leases, []))[1].append(
            CurrentJob(
                id=id_,
                queue=queue,
                task=task,
                attempts=attempts,
                leased_at=from_micros(acquired_at),
                lease_expires_at=from_micros(expires_at),
            )
        )
    return found


def _lines(
    reader: Reader, job_id: str, after: int = 0, limit: int = NO_LIMIT
) -> list[tuple[int, LogLine]]:
    rows = reader.rows(LOG, job_id, after, limit)
    return [(n, LogLine(from_micros(at), text)) for n, at, text in rows]


def _audited(
    reader: Reader, wanted: tuple[int, int, int], limit: int
) -> list[tuple[int, AuditRecord]]:
    """Records below a number and of a time. Those in the archive have the lowest numbers."""
    found = [_audit(row) for row in reader.rows(AUDIT, *wanted, limit)]
    older = reader.rows(AUDIT_ARCHIVE, *wanted, limit - len(found))
    found += [_audit(row, archived=True) for row in older]
    return found


def _audit(row: tuple[Any, ...], *, archived: bool = False) -> tuple[int, AuditRecord]:
    n, at, actor, action, detail, count = row
    return n, AuditRecord(
        at=from_micros(at),
        actor=actor,
        action=action,
        detail=detail_of(detail),
        count=count,
        archived=archived,
    )


STUCK: Final = Query(
    {
        "job.id": Kind.TEXT,
        "queue": Kind.TEXT,
        "task": Kind.TEXT,
        "priority": Kind.WHOLE,
        "worker": Kind.TEXT,
        "running.version": Kind.WHOLE,
        "attempts": Kind.WHOLE,
        "acquired_at": Kind.MOMENT,
        "heartbeat_at": Kind.MOMENT,
        "expires_at": Kind.MOMENT,
    },
    "FROM running JOIN job USING (seq) JOIN lane ON lane.id = job.lane "
    "WHERE heartbeat_at <= $1 OR acquired_at <= $2 ORDER BY heartbeat_at, acquired_at, seq",
)


class Records:
    """See `leasehold.stores.verbs.looking.RecordReader`."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def attempts(self, job_id: str) -> list[Attempt]:
        return history.attempts_of(JobHistory(self._reader, job_id))

    def history(self, job_id: str) -> list[HistoryEvent]:
        return history.history_of(JobHistory(self._reader, job_id))

    def history_page(self, job_id: str, limit: int, cursor: str | None) -> HistoryPage:
        return history.page_of_history(JobHistory(self._reader, job_id), limit, cursor)

    def log(self, job_id: str) -> JobLog:
        # They are numbered from 1: the numbers show how many were dropped.
        numbered = _lines(self._reader, job_id)
        lines = [line for _, line in numbered]
        return JobLog(lines, dropped=max(0, numbered[-1][0] - len(lines)) if lines else 0)

    def log_page(self, job_id: str, limit: int, cursor: str | None) -> LogPage:
        after = check_cursor(limit, cursor) or 0
        return log_page(_lines(self._reader, job_id, after, limit + 1), after, limit)

    def audit_page(
        self, since: datetime | None, before: datetime | None, limit: int, cursor: str | None
    ) -> AuditPage:
        below = check_cursor(limit, cursor)
        wanted = (
            NO_LIMIT if below is None else below,
            0 if since is None else to_micros(since),
            NO_LIMIT if before is None else to_micros(before),
        )
        return audit_page(_audited(self._reader, wanted, limit + 1), limit)

    def workers(self, now: int) -> list[WorkerInfo]:
        return _registered(self._reader, now, _held(self._reader))

    def stuck(
        self, now: int, silent_seconds: float | None, running_seconds: float | None
    ) -> list[StuckJob]:
        bounds = [
            -1 if seconds is None else now - round(seconds * 1e6)
            for seconds in (silent_seconds, running_seconds)
        ]
        return [
            StuckJob(
                job_id=job_id,
                queue=queue,
                task=task,
                priority=priority,
                worker=worker,
                lease_version=version,
                attempts=attempts,
                started_at=from_micros(acquired_at),
                heartbeat_at=from_micros(heartbeat_at),
                lease_expires_at=from_micros(expires_at),
            )
            for (
                job_id, queue, task, priority, worker, version, attempts, acquired_at,
                heartbeat_at, expires_at,
            ) in self._reader.rows(STUCK, *bounds)
        ]  # fmt: skip
