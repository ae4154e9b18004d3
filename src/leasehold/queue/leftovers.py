"""Leftovers of a program that ends: jobs that wait for the next run, or for a worker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from leasehold.core.contract.store import Store
from leasehold.core.model.phrases import first_of
from leasehold.core.model.records import ALL_QUEUES
from leasehold.core.model.search import HeavyField, JobFilter
from leasehold.core.model.status import Status
from leasehold.errors import LeaseholdError
from leasehold.worker.safelog import safe_logger

logger = safe_logger("leasehold")

WAITING: Final = (Status.PENDING, Status.SCHEDULED, Status.BLOCKED, Status.FAILED)
HEAVY: Final[tuple[HeavyField, ...]] = ("payload", "result", "metadata")
LOOKED_AT: Final = 500
"""Of so many waiting jobs, the last submitted, the tasks are looked at."""


def tell_of_leftovers(store: Store, queues: Iterable[str], knows: Callable[[str], bool]) -> None:
    """Log how many jobs of these queues still wait; nothing if none do.

    The next run of the program runs only jobs whose task it `knows`.
    """
    try:
        served = tuple(queues)
        names = tuple(store.queues()) if ALL_QUEUES in served else served
        counts = [store.stats(name).counts for name in names]
        left = sum(each.get(status, 0) for each in counts for status in WAITING)
        if not left:
            return
        is_kept = store.describe().get("kind") != "memory"
        unknown = _unknown_tasks(store, names, knows) if is_kept else Counter[str]()
    except LeaseholdError:
        return  # A store that cannot be asked is no reason not to close.
    known = left - unknown.total()
    if known > 0:
        logger.warning(
            "%s in %s: %s",
            _stay(known),
            store,
            f"the next run of this program, or a worker, runs {'it' if known == 1 else 'them'}"
            if is_kept
            else "its jobs end with this process (queue.join() waits for them)",
        )
    if unknown:
        least = "at least " if left > LOOKED_AT else ""
        _tell_of_unknown(store, unknown, least, is_more=known > 0)


def _unknown_tasks(
    store: Store, queues: tuple[str, ...], knows: Callable[[str], bool]
) -> Counter[str]:
    where = JobFilter(queues=queues, statuses=WAITING)
    page = store.search(where, limit=LOOKED_AT, without=HEAVY, read_max=LOOKED_AT)
    return Counter(job.task for job in page.jobs if not knows(job.task))


def _tell_of_unknown(
    store: Store, unknown: Mapping[str, int], least: str, *, is_more: bool
) -> None:
    left = sum(unknown.values())
    who = f"{least}{left:,} more {'has' if left == 1 else 'have'}"
    logger.warning(
        "%s %s that this program does not know: %s; a worker that knows %s can run %s",
        who if is_more else f"{_stay(left, least)} in {store} with",
        "a task" if len(unknown) == 1 else "tasks",
        first_of(sorted(unknown)),
        "it" if len(unknown) == 1 else "them",
        "it" if left == 1 else "them",
    )


def _stay(jobs: int, least: str = "") -> str:
    if jobs == 1:
        return f"{least}1 job that has not run stays"
    return f"{least}{jobs:,} jobs that have not run stay"
