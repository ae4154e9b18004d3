"""Whether there is anything left to do, for a worker that ends with the work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from leasehold.core.queue_config import QueueState
from leasehold.core.search import JobFilter
from leasehold.core.status import Status
from leasehold.core.store import Store

LEFT_TO_DO: Final = (Status.PENDING, Status.RUNNING, Status.FAILED)
"""What is worth waiting for. What others hold may come back; what is due later, or waits for a job
that is, may take for ever."""
LOOK_SECONDS: Final = 0.5
"""How often to look, since nobody tells a worker that another one's last job has ended."""


class Emptiness:
    """Looks at what one worker could still get to do. A paused queue gives nothing."""

    def __init__(self, store: Store, queues: Sequence[str], tasks: tuple[str, ...] | None) -> None:
        self._store = store
        self._queues = queues
        self._tasks = tasks

    def is_reached(self) -> bool:
        """Whether no job of these queues and tasks is pending, runs, or is to be tried again."""
        busy = tuple(queue for queue in self._queues if self._has_work(queue))
        if not busy or self._tasks is None:
            return not busy
        # The counters do not know tasks; they only spare most searches.
        where = JobFilter(queues=busy, statuses=LEFT_TO_DO, tasks=self._tasks)
        return not self._store.search(where, limit=1).jobs

    def _has_work(self, queue: str) -> bool:
        info = self._store.queue_info(queue)
        if info is None or info.state is QueueState.PAUSED:
            return False
        counts = self._store.stats(queue).counts
        return any(counts.get(status, 0) for status in LEFT_TO_DO)
