"""Which queues a worker serves: the given ones, or all present ones."""

from __future__ import annotations

from leasehold.core.contract.store import Store
from leasehold.core.model.job import DEFAULT_QUEUE
from leasehold.core.model.records import ALL_QUEUES


def served_queues(store: Store, queues: tuple[str, ...]) -> tuple[str, ...]:
    """The queues by name. `"*"` is resolved each time, since a queue may be minutes old."""
    if ALL_QUEUES not in queues:
        return queues
    return tuple(store.queues()) or (DEFAULT_QUEUE,)
