"""Leftovers of a program that ends: jobs that wait for the next run, or for a worker."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from leasehold.core.contract.store import Store
from leasehold.core.model.records import ALL_QUEUES
from leasehold.core.model.status import Status
from leasehold.errors import LeaseholdError
from leasehold.worker.safelog import safe_logger

logger = safe_logger("leasehold")

WAITING: Final = (Status.PENDING, Status.SCHEDULED, Status.BLOCKED, Status.FAILED)


def tell_of_leftovers(store: Store, queues: Iterable[str]) -> None:
    """Log how many jobs of these queues still wait; nothing if none do."""
    try:
        served = tuple(queues)
        names = store.queues() if ALL_QUEUES in served else served
        counts = [store.stats(name).counts for name in names]
        left = sum(each.get(status, 0) for each in counts for status in WAITING)
        is_kept = left and store.describe().get("kind") != "memory"
    except LeaseholdError:
        return  # A store that cannot be asked is no reason not to close.
    if not left:
        return
    jobs = "1 job that has not run stays" if left == 1 else f"{left:,} jobs that have not run stay"
    logger.warning(
        "%s in %s: %s",
        jobs,
        store,
        f"the next run of this program, or a worker, runs {'it' if left == 1 else 'them'}"
        if is_kept
        else "its jobs end with this process (queue.join() waits for them)",
    )
