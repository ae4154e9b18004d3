"""Running jobs that should have ended, or said something, by now."""

from __future__ import annotations

from typing import Final

from leasehold.core.model.lease import StuckJob
from leasehold.env import from_micros
from leasehold.stores.tables.query import Kind, Query, Reader

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


def stuck_jobs(
    reader: Reader, now: int, silent_seconds: float | None, running_seconds: float | None
) -> list[StuckJob]:
    """Running jobs that are silent or run for so long, those silent for longest first."""
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
            job_id, queue, task, priority, worker, version, attempts, acquired_at, heartbeat_at,
            expires_at,
        ) in reader.rows(STUCK, *bounds)
    ]  # fmt: skip
