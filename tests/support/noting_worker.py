"""A worker process whose task writes down each run in a file outside of the store."""

from __future__ import annotations

import os

from leasehold import TaskQueue
from leasehold.worker.context import current_job


def work(url: str, ledger: str) -> None:
    """Run `note` until killed; all settings as they come."""
    queue = TaskQueue(url, num_workers=4)

    @queue.task(name="note")
    def note() -> None:
        job = current_job()
        line = f"{job.job_id} {job.fencing_token} {os.getpid()}\n".encode()
        # One write to a file opened for appending is never torn by others.
        place = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(place, line)
        os.close(place)

    queue.run_worker()
