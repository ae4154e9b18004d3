"""Which jobs would be leased next."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import merge
from itertools import islice

from leasehold.core.contract.store import Store
from leasehold.core.model.job import Job
from leasehold.core.model.priority import service_order


def next_jobs(store: Store, queues: Sequence[str], limit: int) -> list[Job]:
    """The pending jobs of these queues that would be leased next, in that order."""
    if len(queues) == 1:
        return store.peek(queues[0], limit=limit)
    infos = {name: store.queue_info(name) for name in queues}
    known = {name: info.config.scoring for name, info in infos.items() if info is not None}
    now = store.now()
    by_queue = (store.peek(name, limit=limit) for name in known)
    served = merge(*by_queue, key=lambda job: service_order(job, now, known[job.queue]))
    return list(islice(served, limit))
