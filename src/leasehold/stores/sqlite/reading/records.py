"""Reading what goes with jobs: workers, log lines, audit records. All of it can always be read."""

from __future__ import annotations

from typing import Final

import apsw

from leasehold.core.model.joblog import JobLog, LogLine
from leasehold.core.model.pages import AuditPage, LogPage, audit_page, check_cursor, log_page
from leasehold.core.model.records import AuditRecord, WorkerInfo, without_gone
from leasehold.env import from_micros
from leasehold.stores.sqlite.schema.rows import Kind, Lenient, detail_of, queues_of

WORKERS: Final = Lenient(
    {
        "id": Kind.TEXT,
        "host": Kind.TEXT_OR_NULL,
        "pid": Kind.WHOLE_OR_NULL,
        "queues": Kind.TEXT,
        "slots": Kind.WHOLE,
        "started_at": Kind.MOMENT,
        "heartbeat_at": Kind.MOMENT,
        "coalesce(held.jobs, 0)": Kind.WHOLE,
        "is_consumer": Kind.WHOLE,
    },
    "FROM worker LEFT JOIN (SELECT worker, count(*) AS jobs FROM running GROUP BY worker) AS held "
    "ON held.worker = worker.id ORDER BY started_at",
)
LOG: Final = Lenient(
    {"n": Kind.WHOLE, "at": Kind.MOMENT, "line": Kind.TEXT},
    "FROM log JOIN job USING (seq) WHERE id = ?1 AND n > ?2 ORDER BY n LIMIT ?3",
)
AUDIT: Final = Lenient(
    {
        "n": Kind.WHOLE,
        "at": Kind.MOMENT,
        "actor": Kind.TEXT,
        "action": Kind.TEXT,
        "detail": Kind.TEXT,
        "count": Kind.WHOLE,
    },
    "FROM audit WHERE n < ?1 ORDER BY n DESC LIMIT ?2",
)

ALL: Final = -1
"""No limit, as SQLite is told it."""
FIRST: Final = 2**63 - 1
"""Above the number of every record."""


def workers(db: apsw.Connection, now: int) -> list[WorkerInfo]:
    """The registered workers and consumers, those that came first first."""
    infos = [
        WorkerInfo(
            id=id_,
            host=host,
            pid=pid,
            queues=tuple(map(str, queues_of(queues))),
            slots=slots,
            started_at=from_micros(started_at),
            heartbeat_at=from_micros(heartbeat_at),
            running=running,
            is_consumer=bool(is_consumer),
        )
        for id_, host, pid, queues, slots, started_at, heartbeat_at, running, is_consumer in (
            WORKERS.rows(db)
        )
    ]
    return without_gone(infos, from_micros(now))


def log(db: apsw.Connection, job_id: str) -> JobLog:
    """What a job's tasks logged. Lines are numbered from 1: the numbers tell how many are gone."""
    numbered = _lines(db, job_id)
    lines = [line for _, line in numbered]
    return JobLog(lines, dropped=max(0, numbered[-1][0] - len(lines)) if lines else 0)


def page_of_log(db: apsw.Connection, job_id: str, limit: int, cursor: str | None) -> LogPage:
    """A part of them."""
    after = check_cursor(limit, cursor) or 0
    return log_page(_lines(db, job_id, after, limit + 1), after, limit)


def _lines(
    db: apsw.Connection, job_id: str, after: int = 0, limit: int = ALL
) -> list[tuple[int, LogLine]]:
    rows = LOG.rows(db, (job_id, after, limit))
    return [(n, LogLine(from_micros(at), text)) for n, at, text in rows]


def audit_log(db: apsw.Connection, limit: int) -> list[AuditRecord]:
    """The latest administrative actions, newest first."""
    return [record for _, record in _audited(db, FIRST, limit)]


def page_of_audit(db: apsw.Connection, limit: int, cursor: str | None) -> AuditPage:
    """A part of them."""
    before = check_cursor(limit, cursor)
    return audit_page(_audited(db, FIRST if before is None else before, limit + 1), limit)


def _audited(db: apsw.Connection, before: int, limit: int) -> list[tuple[int, AuditRecord]]:
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
        for n, at, actor, action, detail, count in AUDIT.rows(db, (before, limit))
    ]
