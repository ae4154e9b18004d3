"""Tasks that this worker cannot run but others can: it leaves their jobs to those workers.

While two versions of a program run side by side, each has tasks that the other does not know. A
worker that kept taking such a job would keep it from an idle worker that knows its task.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from leasehold.core.contract.store import Store
from leasehold.core.model.lease import Lease
from leasehold.core.model.outcome import Release
from leasehold.core.model.records import WorkerInfo, is_at_work, may_know, serves
from leasehold.env import Clock
from leasehold.errors import LeaseholdError
from leasehold.worker.safelog import safe_logger

logger = safe_logger("leasehold.worker")

LOOK_SECONDS: Final = 5.0
"""How often to check that the other workers are still there."""


class LeftToOthers:
    """Searches the registry for workers that know the tasks unknown here."""

    def __init__(
        self, store: Store, worker: str, may_import: Callable[[str], bool], clock: Clock
    ) -> None:
        """`may_import` says whether this worker may import a task's module."""
        self._store = store
        self._worker = worker
        self._may_import = may_import
        self._clock = clock
        self._lanes: set[tuple[str, str]] = set()
        self._others: list[WorkerInfo] = []
        self._look_at = float("-inf")

    def lanes(self) -> tuple[tuple[str, str], ...]:
        """The queues and tasks whose jobs should not be leased now."""
        if self._lanes:
            self._look()
            self._lanes = {lane for lane in self._lanes if self._is_known_to_others(*lane)}
        return tuple(self._lanes)

    def release(self, lease: Lease, reason: str) -> Release | None:
        """The outcome that leaves this job to others at once; None if no worker knows its task."""
        lane = (lease.queue, lease.task)
        if lane not in self._lanes:
            self._look()
            if not self._is_known_to_others(*lane):
                return None
            self._lanes.add(lane)
            logger.info(
                "worker %s leaves the jobs of task %r in queue %r to others that know it: %s",
                self._worker,
                lease.task,
                lease.queue,
                reason,
            )
        return Release(reason=f"left to a worker that knows its task: {reason}")

    def _look(self) -> None:
        now = self._clock.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + LOOK_SECONDS
        try:
            at, workers = self._store.now(), self._store.workers()
        except LeaseholdError as error:
            # Nothing depends on it: the last known state of the others remains valid.
            logger.debug("worker %s could not look for others: %s", self._worker, error)
            return
        self._others = [
            each for each in workers if each.id != self._worker and is_at_work(each, at)
        ]

    def _is_known_to_others(self, queue: str, task: str) -> bool:
        # If this worker failed to import a module, others that may import it may fail too.
        knows = WorkerInfo.names if self._may_import(task) else may_know
        return any(serves(each.queues, queue) and knows(each, task) for each in self._others)
