"""The errors for jobs and queues that do not exist."""

from __future__ import annotations

from leasehold.core.contract.store import Store
from leasehold.core.model.job import DEFAULT_QUEUE
from leasehold.core.model.queue_config import check_queue_name
from leasehold.core.model.refusals import no_job, no_queue
from leasehold.errors import JobNotFoundError


def check_queue(store: Store, queue: str | None) -> None:
    """Raise QueueNotFoundError for an unknown queue; None stands for all.

    A queue exists if it was created, ever held a job, or is served by a worker; `default` always
    exists.
    """
    if queue is None or queue == DEFAULT_QUEUE:
        return
    check_queue_name(queue)
    if store.queue_info(queue) is None and not any(
        queue in worker.queues for worker in store.workers()
    ):
        raise no_queue(queue, store.queues())


def not_found(store: Store, job_id: str) -> JobNotFoundError:
    """The error for a job that is not in the store; it says so if the archive has the job."""
    old = store.archived(job_id)
    if old is None:
        return no_job(job_id)
    return JobNotFoundError(
        f"job {job_id} is no longer in the store: it was {old.status.value} at "
        f"{old.completed_at.isoformat()} and archived at {old.archived_at.isoformat()}; "
        "queue.archive.get() has its summary"
    )
