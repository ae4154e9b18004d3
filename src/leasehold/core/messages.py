"""What a job's history, its reasons and its lost attempts say: the words, once for every store."""

from __future__ import annotations

from datetime import datetime

from leasehold.core.outcome import JobError

WORKER_LOST = "WorkerLost"
"""The type of the error that a lost attempt leaves: its worker died, or let its lease expire."""


def expired(worker: str, version: int, expires_at: datetime, heartbeat_at: datetime) -> JobError:
    """The error of an attempt whose lease ran out.

    >>> at = datetime(2030, 1, 1)
    >>> expired("w", 3, at, at).message.partition(";")[0]
    'worker w let its lease expire at 2030-01-01T00:00:00'
    """
    how = f"worker {worker} let its lease expire at {expires_at.isoformat()}"
    return _lost(how, version, heartbeat_at)


def died(worker: str, version: int, heartbeat_at: datetime) -> JobError:
    """The error of an attempt whose worker is proved dead."""
    return _lost(f"worker {worker} died", version, heartbeat_at)


def taken(worker: str, version: int, heartbeat_at: datetime, reason: str) -> JobError:
    """The error of an attempt that was taken from its worker before its lease ran out."""
    return _lost(f"the job was taken from worker {worker}: {reason}", version, heartbeat_at)


def _lost(how: str, version: int, heartbeat_at: datetime) -> JobError:
    return JobError(
        WORKER_LOST, f"{how}; lease version {version}, last heartbeat {heartbeat_at.isoformat()}"
    )


def mismatch(version: int, latest: int) -> str:
    """What a refused holder leaves in the history."""
    return f"refused: the caller's lease version is {version}, the latest is {latest}"


def not_started_by(start_by: datetime) -> str:
    """Why a job was cancelled instead of leased."""
    return f"not started by {start_by.isoformat()}"


def replayed(actor: str, *, reset_attempts: bool) -> str:
    return f"by {actor}, " + ("attempts reset" if reset_attempts else "one more attempt")


def reprioritized(before: int, after: int, actor: str) -> str:
    return f"from {before} to {after} by {actor}"


def purged_by(actor: str) -> str:
    """Why a job has ended that somebody purges; those that waited for it are told so."""
    return f"purged by {actor}"


def queue_deleted(queue: str, actor: str) -> str:
    """Why a job is dead that waited in a queue when that was deleted by force."""
    return f"its queue {queue!r} was deleted by {actor}"
