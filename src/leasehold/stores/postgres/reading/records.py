"""Reading what goes with jobs: workers, log lines, audit records. All of it can always be read."""

from __future__ import annotations

from typing import Final

from leasehold.core.model.joblog import JobLog, LogLine
from leasehold.core.model.pages import AuditPage, LogPage, audit_page, check_cursor, log_page
from leasehold.core.model.records import AuditRecord, WorkerInfo
from leasehold.env import from_micros
from leasehold.stores.postgres.schema.rows import detail_of, queues_of
from leasehold.stores.postgres.server.connection import Connection

WORKERS: Final = """
    SELECT id, host, pid, queues, slots, started_at, heartbeat_at,
           (SELECT count(*) FROM running WHERE running.worker = worker.id)
    FROM worker ORDER BY started_at
"""
LOG: Final = """
    SELECT log.n, log.at, log.line FROM log JOIN job USING (seq)
    WHERE id = $1 AND n > $2 ORDER BY n LIMIT $3
"""
AUDIT: Final = """
    SELECT n, at, actor, action, detail, count FROM audit WHERE n < $1 ORDER BY n DESC LIMIT $2
"""

FIRST: Final = 2**63 - 1
"""Above the number of every record."""


def workers(db: Connection) -> list[WorkerInfo]:
    """The registered workers, those that started first first."""
    return [
        WorkerInfo(
            id=id_,
            host=host,
            pid=pid,
            queues=tuple(map(str, queues_of(queues))),
            slots=slots,
            started_at=from_micros(started_at),
            heartbeat_at=from_micros(heartbeat_at),
            running=running,
        )
        for id_, host, pid, queues, slots, started_at, heartbeat_at, running in db.execute(WORKERS)
    ]


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
    """The latest administrative actions, newest first."""
    return [record for _, record in _audited(db, FIRST, limit)]


def page_of_audit(db: Connection, limit: int, cursor: str | None) -> AuditPage:
    """A part of them."""
    before = check_cursor(limit, cursor)
    return audit_page(_audited(db, FIRST if before is None else before, limit + 1), limit)


def _audited(db: Connection, before: int, limit: int) -> list[tuple[int, AuditRecord]]:
    return [
        (
            n,
            AuditRecord(
                at=from_micros(at),
                actor=actor,
                action=action,
                detail=detail_of(detail),
                count=count,
            ),
        )
        for n, at, actor, action, detail, count in db.execute(AUDIT, (before, limit))
    ]
