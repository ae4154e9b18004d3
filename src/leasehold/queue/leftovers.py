"""Jobs that a program leaves behind when it ends: they wait for its next run, or for a worker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Literal

from leasehold.core.contract.store import Store
from leasehold.core.model.phrases import counted, first_of
from leasehold.core.model.records import ALL_QUEUES
from leasehold.core.model.search import HeavyField, JobFilter
from leasehold.core.model.status import Status
from leasehold.errors import LeaseholdError
from leasehold.worker.safelog import safe_logger

logger = safe_logger("leasehold")

WAITING: Final = (Status.PENDING, Status.SCHEDULED, Status.BLOCKED, Status.FAILED)
HEAVY: Final[tuple[HeavyField, ...]] = ("payload", "result", "metadata")
LOOKED_AT: Final = 500
"""How many waiting jobs, last submitted first, have their tasks examined."""


NextRun = Literal["runs", "plain", "unknown"]
"""What the next run of a program does with a job: it runs the job; it runs it once it has submitted
the plain function that is the job's task; or it does not know the task.
"""


def tell_of_leftovers(
    store: Store, queues: Iterable[str], next_run: Callable[[str], NextRun]
) -> None:
    """Log how many jobs of these queues still wait, and what will run them; log nothing if none
    wait.

    `next_run` says what the next run of the program does with the jobs of a task.
    """
    try:
        served = tuple(queues)
        names = tuple(store.queues()) if ALL_QUEUES in served else served
        counts = [store.stats(name).counts for name in names]
        left = sum(each.get(status, 0) for each in counts for status in WAITING)
        if not left:
            return
        if store.describe().get("kind") == "memory":
            _tell_of_lost(store, left)
            return
        tasks = _tasks(store, names)
    except LeaseholdError:
        return  # An unreachable store must not prevent closing.
    plain, unknown = (
        {task: jobs for task, jobs in tasks.items() if next_run(task) == kind}
        for kind in ("plain", "unknown")
    )
    known = left - sum(plain.values()) - sum(unknown.values())
    least = "at least " if left > LOOKED_AT else ""
    if known > 0:
        logger.warning(
            "%s in %s: the next run of this program, or a worker, runs %s",
            _stay(known),
            store,
            _them(known),
        )
    if plain:
        _tell_of_plain(store, plain, least, is_more=known > 0)
    if unknown:
        _tell_of_unknown(store, unknown, least, is_more=known > 0 or bool(plain))


def _tell_of_lost(store: Store, left: int) -> None:
    logger.warning(
        "%s that %s not run %s lost when this process ends, because %s keeps nothing "
        "(queue.join() waits for jobs)",
        counted(left, "job"),
        *(("has", "is") if left == 1 else ("have", "are")),
        store,
    )


def _tasks(store: Store, queues: tuple[str, ...]) -> Counter[str]:
    where = JobFilter(queues=queues, statuses=WAITING)
    page = store.search(where, limit=LOOKED_AT, without=HEAVY, read_max=LOOKED_AT)
    return Counter(job.task for job in page.jobs)


def _tell_of_plain(store: Store, plain: Mapping[str, int], least: str, *, is_more: bool) -> None:
    left = sum(plain.values())
    have = "has" if left == 1 else "have"
    logger.warning(
        "%s a plain function as %s task (%s): the next run of this program runs %s only if it "
        "submits that function again. With @queue.task above the function, it runs %s at once",
        f"{least}{left:,} more {have}" if is_more else f"{_stay(left, least)} in {store} with",
        "its" if left == 1 else "their",
        first_of(sorted(plain)),
        _them(left),
        _them(left),
    )


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
        _them(len(unknown)),
        _them(left),
    )


def _them(count: int) -> str:
    return "it" if count == 1 else "them"


def _stay(jobs: int, least: str = "") -> str:
    if jobs == 1:
        return f"{least}1 job that has not run stays"
    return f"{least}{jobs:,} jobs that have not run stay"
