"""Which jobs would be leased next."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from leasehold.core.contract.store import Store
from leasehold.core.model.job import Job
from leasehold.core.model.priority import service_order
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Status
from leasehold.queue.filters import found


def next_jobs(store: Store, queues: Sequence[str], limit: int) -> list[Job]:
    """The pending jobs of these queues that are served first; it looks through all of them."""
    infos = {name: store.queue_info(name) for name in queues}
    scoring = {name: info.config.scoring for name, info in infos.items() if info is not None}
    now = store.now()
    pending = found(store, JobFilter(queues=tuple(queues), statuses=(Status.PENDING,)))
    # A search starts with the job submitted last, which is served last among equals.
    ordered = [
        (*service_order(job, now, scoring[job.queue]), -number, job)
        for number, job in enumerate(pending)
        if job.queue in scoring
    ]
    return [job for *_, job in heapq.nsmallest(limit, ordered)]
