"""The refusals of every store: their classes and messages, written once.

An error says what happened, to which job or queue, and what to do. Stores differ in how they detect
what must be refused, never in the text that the caller reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from leasehold.core.model.phrases import counted, did_you_mean
from leasehold.core.model.status import Event, Status
from leasehold.errors import (
    DuplicateJobError,
    InvalidCursorError,
    InvalidJobError,
    InvalidPageError,
    InvalidTransitionError,
    JobNotFoundError,
    LeaseConflictError,
    LeaseExpiredError,
    LeaseLostError,
    QueueExistsError,
    QueueNotEmptyError,
    QueueNotFoundError,
)

PAGE_MAX: Final = 10_000
"""The most jobs on one page of a search."""
CURSOR_SHOWN_MAX: Final = 100
"""How many characters of an invalid cursor a refusal shows."""


# -- jobs --------------------------------------------------------------------------------------


def no_job(job_id: str) -> JobNotFoundError:
    return JobNotFoundError(f"there is no job {job_id!r}: it never existed, or was deleted")


def id_is_taken(job_id: str) -> DuplicateJobError:
    return DuplicateJobError(
        f"job {job_id!r} already exists: choose another id, or give an "
        "idempotency_key if it is to be the same job"
    )


def not_ended(job_id: str, status: Status) -> InvalidTransitionError:
    """The answer to a discard of a job that has not ended."""
    return InvalidTransitionError(
        f"job {job_id} is {status}: only jobs that have ended can be discarded. Cancel it first."
    )


def nothing_to_replay(statuses: Mapping[str, Status]) -> InvalidTransitionError:
    """The answer to a replay of graphs in which nothing went wrong, with the `statuses` of the jobs
    named.
    """
    if len(statuses) > 1:
        return InvalidTransitionError(
            f"none of these {len(statuses):,} jobs is dead or cancelled: there is nothing to replay"
        )
    [(job_id, status)] = statuses.items()
    return InvalidTransitionError(
        f"job {job_id} is {status}: only dead or cancelled jobs can be replayed"
    )


def not_waiting(job_id: str, status: Status) -> InvalidTransitionError:
    """The answer to a change of priority for a job that no longer waits."""
    return InvalidTransitionError(
        f"job {job_id} is {status}: only a waiting job's priority can be changed"
    )


def not_purged(job_id: str) -> InvalidTransitionError:
    """The answer to a purge of a job that no longer waits."""
    return InvalidTransitionError(f"job {job_id} is running: only a waiting job can be purged")


def changes_status(event: Event) -> InvalidTransitionError:
    """The refusal to write such an event to a history by hand."""
    return InvalidTransitionError(
        f"{event} changes a job's status: it cannot be written to its history alone"
    )


# -- leases ------------------------------------------------------------------------------------


def lease_of_no_job(job_id: str, version: int) -> LeaseLostError:
    return LeaseLostError(f"job {job_id} no longer exists: its lease {version} is void")


def stale_lease(
    job_id: str, version: int, status: Status, holder: tuple[str, int] | None
) -> LeaseLostError:
    """The answer to a former holder; `holder` names the present holder and its version."""
    if holder is None:
        return LeaseLostError(
            f"lease {version} of job {job_id} is lost: the job is {status} now. Discard the work "
            "done under it."
        )
    worker, current = holder
    return LeaseConflictError(
        f"lease {version} of job {job_id} is lost: {worker} holds it under version {current} now. "
        "Discard the work done under it."
    )


def completed_otherwise(job_id: str, version: int) -> LeaseLostError:
    """The answer to a holder that completes a job again with a different result."""
    return LeaseLostError(
        f"lease {version} of job {job_id} is over: the job was completed under it with another "
        "result, which is kept. Discard this one, and settle each lease once."
    )


def expired_lease(job_id: str, version: int, expired_at: datetime) -> LeaseExpiredError:
    return LeaseExpiredError(
        f"lease {version} of job {job_id} expired at {expired_at.isoformat()}: it can still be "
        "settled, but not renewed"
    )


# -- queues ------------------------------------------------------------------------------------


def queue_exists(queue: str, differences: str) -> QueueExistsError:
    return QueueExistsError(
        f"queue {queue!r} already exists, with other rules: {differences}; pass if_exists='keep' "
        "to leave them, if_exists='update' to apply yours, or use update_queue to change some"
    )


def no_queue(queue: str, known: Iterable[str] = ()) -> QueueNotFoundError:
    """The error for an unknown queue; it names a known one that may have been meant."""
    meant = did_you_mean(queue, known)
    return QueueNotFoundError(
        f"there is no queue {queue!r}{meant or ': it was never created and has never held a job'}"
    )


def queue_not_empty(queue: str, waiting: int, running: int) -> QueueNotEmptyError:
    return QueueNotEmptyError(
        f"queue {queue!r} was not deleted: it holds {counted(waiting, 'waiting job')} "
        f"and {counted(running, 'running job')}. "
        "Drain or purge it first, or delete it with force: then waiting jobs become dead "
        "letters, and running jobs may finish"
    )


# -- searches ----------------------------------------------------------------------------------


def not_text(error: UnicodeEncodeError) -> InvalidJobError:
    """The error for a text that no database can hold."""
    return InvalidJobError(f"only UTF-8 text can be stored or looked for, not {error.object!r}")


def check_page(limit: int) -> None:
    """Refuse an invalid page size of a search."""
    if not 1 <= limit <= PAGE_MAX:
        raise InvalidPageError(f"limit must be from 1 to {PAGE_MAX:,}, not {limit}")


def not_a_cursor(cursor: str) -> InvalidCursorError:
    # The beginning is enough, and the words after it must not be cut off on their way.
    shown = cursor if len(cursor) <= CURSOR_SHOWN_MAX else f"{cursor[:CURSOR_SHOWN_MAX]}..."
    return InvalidCursorError(f"{shown!r} is not a cursor that an earlier page gave")
