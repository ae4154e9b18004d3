"""Reading what goes with jobs: workers, log lines, audit records. All of it can always be read."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from leasehold.core.model.joblog import JobLog, LogLine
from leasehold.core.model.pages import AuditPage, LogPage, audit_page, check_cursor, log_page
from leasehold.core.model.records import (
    CURRENT_JOBS_MAX,
    AuditRecord,
    CurrentJob,
    WorkerInfo,
    without_gone,
)
from leasehold.core.model.stored import detail_of, names_of
from leasehold.env import from_micros, to_micros
from leasehold.stores.postgres.server.connection import Connection

WORKERS: Final = """
    SELECT id, host, pid, queues, tasks, slots, started_at, heartbeat_at, is_consumer
    FROM worker ORDER BY started_at, id
"""
# `running` is small, so that one walk along it tells the jobs of every worker: an index by worker
# would cost every lease and every settlement.
HELD: Final = f"""
    SELECT held.worker, held.leases, job.id, lane.queue, lane.task, held.attempts,
           held.acquired_at, held.expires_at
    FROM (SELECT seq, worker, attempts, acquired_at, expires_at,
            count(*) OVER (PARTITION BY worker) AS leases,
            row_number() OVER (PARTITION BY worker ORDER BY acquired_at, seq) AS n
        FROM running) AS held
    JOIN job ON job.seq = held.seq JOIN lane ON lane.id = job.lane
    WHERE held.n <= {CURRENT_JOBS_MAX} ORDER BY held.worker, held.n
"""  # noqa: S608  # our own number
LEASES: Final = "SELECT worker, count(*) FROM running GROUP BY worker"
LOG: Final = """
    SELECT log.n, log.at, log.line FROM log JOIN job USING (seq)
    WHERE id = $1 AND n > $2 ORDER BY n LIMIT $3
"""
_AUDIT_PART: Final = """
    SELECT n, at, actor, action, detail, count FROM {}
    WHERE n < $1 AND at >= $2 AND at < $3 ORDER BY n DESC LIMIT $4
"""
AUDIT: Final = _AUDIT_PART.format("audit")
AUDIT_ARCHIVE: Final = _AUDIT_PART.format("audit_archive")

FIRST: Final = 2**63 - 1
"""Above the number of every record."""


def workers(db: Connection, now: int) -> list[WorkerInfo]:
    """The registered workers and consumers with their jobs, those that came first first."""
    return _registered(db, now, _held(db))


def who_works(db: Connection, now: int) -> list[WorkerInfo]:
    """The same without their jobs, which figures never look at."""
    return _registered(db, now, {worker: (leases, []) for worker, leases in db.execute(LEASES)})


def _registered(
    db: Connection, now: int, held: Mapping[str, tuple[int, list[CurrentJob]]]
) -> list[WorkerInfo]:
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
            is_consumer=is_consumer,
            tasks=tuple(map(str, names_of(tasks))),
        )
        for (
            id_, host, pid, queues, tasks, slots, started_at, heartbeat_at, is_consumer,
        ) in db.execute(WORKERS)
    ]  # fmt: skip
    return without_gone(infos, from_micros(now))


def _held(db: Connection) -> dict[str, tuple[int, list[CurrentJob]]]:
    """By worker, how many leases it holds, and the first of its jobs."""
    found: dict[str, tuple[int, list[CurrentJob]]] = {}
    for worker, leases, id_, queue, task, attempts, acquired_at, expires_at in db.execute(HELD):
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


def log(db: Connection, job_id: str) -> JobLog:
    """What a job's tasks logged. Lines are numbered from 1: the numbers tell how many are gone."""
    numbered = _lines(db, job_id)
    lines = [line for _, line in numbered]
    return JobLog(lines, dropped=max(0, numbered[-1][0] - len(lines)) if lines else 0)


def page_of_log(db: Connection, job_id: str, limit: int, cursor: str | None) -> LogPage:
    """A part of them."""
    after = check_cursor(limit, cursor) or 0
    return log_page(_lines(db, job_id, after, limit + 1), after, limit)


def _lines(
    db: Connection, job_id: str, after: int = 0, limit: int | None = None
) -> list[tuple[int, LogLine]]:
    rows = db.execute(LOG, (job_id, after, limit))
    return [(n, LogLine(from_micros(at), text)) for n, at, text in rows]


def audit_log(db: Connection, limit: int) -> list[AuditRecord]:
    """The latest administrative actions, newest first, archived ones included."""
    return [record for _, record in _audited(db, (FIRST, 0, FIRST), max(0, limit))]


def page_of_audit(
    db: Connection,
    since: datetime | None,
    before: datetime | None,
    limit: int,
    cursor: str | None,
) -> AuditPage:
    """A part of them."""
    below = check_cursor(limit, cursor)
    wanted = (
        FIRST if below is None else below,
        0 if since is None else to_micros(since),
        FIRST if before is None else to_micros(before),
    )
    return audit_page(_audited(db, wanted, limit + 1), limit)


def _audited(
    db: Connection, wanted: tuple[int, int, int], limit: int
) -> list[tuple[int, AuditRecord]]:
    """Records below a number and of a time. Those in the archive have the lowest numbers."""
    found = [_audit(row) for row in db.execute(AUDIT, (*wanted, limit))]
    older = db.execute(AUDIT_ARCHIVE, (*wanted, limit - len(found)))
    return found + [_audit(row, archived=True) for row in older]


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
