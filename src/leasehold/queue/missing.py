"""The error for a job that is not in the store (any more)."""

from __future__ import annotations

from leasehold.core.contract.store import Store
from leasehold.core.model.refusals import no_job
from leasehold.errors import JobNotFoundError


def not_found(store: Store, job_id: str) -> JobNotFoundError:
    """The error for a job that is not in the store: it says so if the archive remembers it."""
    old = store.archived(job_id)
    if old is None:
        return no_job(job_id)
    return JobNotFoundError(
        f"job {job_id} is not in the store any more: it was {old.status.value} at "
        f"{old.completed_at.isoformat()} and archived at {old.archived_at.isoformat()}; "
        "queue.archive.get() tells what is remembered of it"
    )
