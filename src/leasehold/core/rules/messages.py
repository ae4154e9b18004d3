"""What a job's history and its reasons say: the words, once for every store."""

from __future__ import annotations

from datetime import datetime


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
