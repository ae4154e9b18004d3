"""Calls that a task cannot make on its own job's queue, since it would wait for itself."""

from __future__ import annotations

import os

from leasehold.core.contract.store import Store
from leasehold.core.model.lease import Lease
from leasehold.core.model.records import ALL_QUEUES
from leasehold.core.model.status import Status
from leasehold.errors import UnsupportedError
from leasehold.worker.context import running_job
from leasehold.worker.executors.role import is_child_process


def own_lease() -> Lease | None:
    """The lease of the job that this code runs for; None outside a job, and in a fork of one."""
    context = running_job()
    return None if context is None or context.pid != os.getpid() else context.lease


def refuse_join(lease: Lease | None, store: Store, queues: tuple[str, ...]) -> None:
    """Raise UnsupportedError if the wait includes the job under this lease."""
    if lease is None or (lease.queue not in queues and ALL_QUEUES not in queues):
        return
    job = store.get(lease.job_id)
    # A job of another store may have the same id, but no two workers have the same name.
    held = (Status.RUNNING, lease.worker, lease.version)
    if job is None or (job.status, job.worker, job.lease_version) != held:
        return
    raise UnsupportedError(
        f"queue.join() in job {job.id} would wait for that job itself, which is in queue "
        f"{job.queue!r}, too: wait for the jobs you mean, with queue.wait(jobs), or submit what "
        "comes after them with depends_on"
    )


def refuse_shutdown_in_child(lease: Lease | None, store: Store) -> None:
    """Raise UnsupportedError if a child process would close the queue that all its jobs use."""
    if lease is None or not is_child_process():
        return
    job = store.get(lease.job_id)
    if job is not None and (job.worker, job.lease_version) == (lease.worker, lease.version):
        raise UnsupportedError(
            f"queue.shutdown() in job {lease.job_id} would close the queue for the next jobs of "
            "this child process: leave that to the worker"
        )


def refuse_shutdown(lease: Lease | None, worker: str) -> None:
    """Raise UnsupportedError if it is this worker that runs the job under this lease."""
    # Over a service, the worker's name may be prefixed with the token's.
    if lease is not None and (lease.worker == worker or lease.worker.endswith(f":{worker}")):
        raise UnsupportedError(
            f"queue.shutdown() in job {lease.job_id} would wait for that job itself: call it where "
            "the queue was started, or send SIGTERM to the process, which lets the job finish"
        )
