"""Jobs, their attempts, and dead letters."""

from __future__ import annotations

from typing import Any, Final

from leasehold.core.model.history import Attempt
from leasehold.core.model.job import Job
from leasehold.core.model.retry import why_not_retried
from leasehold.core.model.status import Status
from leasehold.core.model.unreadable import ERROR_TYPE
from leasehold.documents.records import document_of
from leasehold.errors import PayloadError

AS_STORED: Final = ("payload_data", "result_data", "codec", "result_codec")
"""Fields of a job that its document shows as data."""


def job_document(job: Job) -> dict[str, Any]:
    """A job, every field of it; payload and result as plain data where they are at hand."""
    return {
        **document_of(job, without=AS_STORED),
        "payload": plain(job, "payload"),
        "result": plain(job, "result"),
        "stdout_path": job.stdout_path,
        "stderr_path": job.stderr_path,
    }


def letter_document(job: Job) -> dict[str, Any]:
    """A dead letter: the job, and in one line why it is dead."""
    return {**job_document(job), "why": why_dead(job)}


def attempt_document(attempt: Attempt) -> dict[str, Any]:
    """An attempt, and how long it ran."""
    return {**document_of(attempt), "duration_seconds": attempt.duration_seconds}


def why_dead(job: Job) -> str | None:
    """The latest error, or the reason of a job that was given up without one."""
    return job.reason if job.error is None else f"{job.error.type}: {job.error.message}"


def why_given_up(job: Job) -> str | None:
    """Why a dead job was not tried again after its last error; None if it is not dead by one."""
    error = job.error
    if job.status is not Status.DEAD or error is None or error.type == ERROR_TYPE:
        return None
    return why_not_retried(error.type, job.attempts, job.allowance) if job.attempts else None


def plain(job: Job, what: str) -> Any:
    """A job's payload or result as data; None if only its own queue can read it.

    It is a blob then, or a signed pickle.
    """
    try:
        return getattr(job, what)
    except PayloadError:
        return None
