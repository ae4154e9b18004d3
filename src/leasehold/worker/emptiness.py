"""Whether there is anything left to do, for a worker that stops when the work is done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from leasehold.core.contract.store import Store
from leasehold.core.model.phrases import counted
from leasehold.core.model.queue_config import QueueState
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Status
from leasehold.worker.safelog import safe_logger
from leasehold.worker.served import served_queues
from leasehold.worker.stopping import StopReason
from leasehold.worker.unrunnable import is_handed_back

logger = safe_logger("leasehold.worker")

LEFT_TO_DO: Final = (Status.PENDING, Status.RUNNING, Status.FAILED)
"""The statuses worth waiting for. Jobs that others hold may come back; delayed jobs, and jobs
blocked by them, may take for ever."""
LOOK_SECONDS: Final = 0.5
"""How often to look, since a worker is not notified when another's last job ends."""


PAGE: Final = 1000
PAGES_MAX: Final = 10
"""How many pages of delayed jobs to search for jobs that were handed back."""


class Emptiness:
    """Checks for jobs that one worker could still get. A paused queue gives none."""

    def __init__(
        self, store: Store, queues: tuple[str, ...], tasks: tuple[str, ...] | None
    ) -> None:
        self._store = store
        self._queues = queues
        self._tasks = tasks

    def reason(self, unrunnable: Mapping[str, str], worker: str) -> StopReason | None:
        """Why a worker may stop now; None while there is something to do.

        `unrunnable` has the tasks that it could not run, and why.
        """
        if not self.is_reached():
            return None
        handed_back = self.handed_back()
        if handed_back.keys() - unrunnable:
            return None  # Handed back by another worker; this one will try soon.
        for task, count in sorted(handed_back.items()):
            logger.warning(
                "worker %s is stopping; left %s of task %r that it cannot run: %s",
                worker,
                counted(count, "job"),
                task,
                unrunnable[task],
            )
        return StopReason.UNRUNNABLE if handed_back else StopReason.EMPTY

    def is_reached(self) -> bool:
        """Whether no job of these queues and tasks is pending, running, or due for a retry."""
        busy = tuple(queue for queue in self._names() if self._has_work(queue))
        if not busy or self._tasks is None:
            return not busy
        # The counters do not know tasks; they only spare most searches.
        where = JobFilter(queues=busy, statuses=LEFT_TO_DO, tasks=self._tasks)
        return not self._store.search(where, limit=1).jobs

    def handed_back(self) -> Counter[str]:
        """By task, how many jobs wait because some worker cannot run them.

        Each is due again within minutes, so that a worker that can run it will get it.
        """
        found: Counter[str] = Counter()
        queues = tuple(queue for queue in self._names() if self._may_hold_back(queue))
        where = JobFilter(queues=queues, statuses=(Status.SCHEDULED,), tasks=self._tasks)
        cursor: str | None = None
        for _ in range(PAGES_MAX if queues else 0):
            page = self._store.search(where, limit=PAGE, cursor=cursor)
            found.update(job.task for job in page.jobs if is_handed_back(job))
            cursor = page.next_cursor
            if cursor is None:
                break
        return found

    def _names(self) -> tuple[str, ...]:
        return served_queues(self._store, self._queues)

    def _has_work(self, queue: str) -> bool:
        return self._is_open(queue) and self._holds(queue, LEFT_TO_DO)

    def _may_hold_back(self, queue: str) -> bool:
        return self._is_open(queue) and self._holds(queue, (Status.SCHEDULED,))

    def _is_open(self, queue: str) -> bool:
        info = self._store.queue_info(queue)
        return info is not None and info.state is not QueueState.PAUSED

    def _holds(self, queue: str, statuses: Sequence[Status]) -> bool:
        counts = self._store.stats(queue).counts
        return any(counts.get(status, 0) for status in statuses)
