"""Reading what goes with jobs: workers, log lines, audit records. All of it can always be read."""

from __future__ import annotations

from typing import Final

import apsw

from leasehold.core.joblog import JobLog, LogLine
from leasehold.core.records import AuditRecord, WorkerInfo
from leasehold.env import from_micros
from leasehold.stores.sqlite.schema.rows import Kind, Lenient, detail_of, queues_of

WORKERS: Final = Lenient(
    {
        "id": Kind.TEXT,
        "host": Kind.TEXT,
        "pid": Kind.WHOLE,
        "queues": Kind.TEXT,
        "slots": Kind.WHOLE,
        "started_at": Kind.MOMENT,
        "heartbeat_at": Kind.MOMENT,
        "(SELECT count(*) FROM running WHERE running.worker = worker.id)": Kind.WHOLE,
    },
    "FROM worker ORDER BY started_at",
)
LOG: Final = Lenient(
    {"n": Kind.WHOLE, "at": Kind.MOMENT, "line": Kind.TEXT},
    "FROM log JOIN job USING (seq) WHERE id = ? ORDER BY n",
)
AUDIT: Final = Lenient(
    {
        "at": Kind.MOMENT,
        "actor": Kind.TEXT,
        "action": Kind.TEXT,
        "detail": Kind.TEXT,
        "count": Kind.WHOLE,
    },
    "FROM audit ORDER BY n DESC LIMIT ?",
)


def workers(db: apsw.Connection) -> list[WorkerInfo]:
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
        for id_, host, pid, queues, slots, started_at, heartbeat_at, running in WORKERS.rows(db)
    ]


def log(db: apsw.Connection, job_id: str) -> JobLog:
    """What a job's tasks logged. Lines are numbered from 1: the numbers tell how many are gone."""
    rows = list(LOG.rows(db, (job_id,)))
    lines = [LogLine(from_micros(at), text) for _, at, text in rows]
    return JobLog(lines, dropped=max(0, rows[-1][0] - len(rows)) if rows else 0)


def audit_log(db: apsw.Connection, limit: int) -> list[AuditRecord]:
    """The latest administrative actions, newest first."""
    return [
        AuditRecord(
            at=from_micros(at), actor=actor, action=action, detail=detail_of(detail), count=count
        )
        for at, actor, action, detail, count in AUDIT.rows(db, (limit,))
    ]
