"""How a TaskQueue makes workers: with which queues, tasks and hooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from leasehold.blobs.blobs import Blobs
from leasehold.core.contract.store import Store
from leasehold.core.model.job import COMMAND_TASK, DEFAULT_QUEUE
from leasehold.core.model.phrases import first_of, listed
from leasehold.core.model.records import serves
from leasehold.env import Env
from leasehold.interrupts import import_whole
from leasehold.queue.arguments import names
from leasehold.queue.leftovers import NextRun
from leasehold.queue.tasks import Tasks
from leasehold.worker.hooks import Hooks
from leasehold.worker.safelog import safe_logger
from leasehold.worker.task import TaskRegistry

if TYPE_CHECKING:
    from leasehold.worker.worker import Worker

logger = safe_logger("leasehold.worker")

TASKS_SHOWN_MAX: Final = 5
"""Names of tasks, or of queues, in one warning."""


class WorkerMaker:
    """Makes workers for the embedded case and for `run_worker`."""

    def __init__(
        self,
        store: Store,
        registry: TaskRegistry,
        tasks: Tasks,
        *,
        env: Env,
        blobs: Blobs | None,
        queues: tuple[str, ...] | None,
        options: Mapping[str, Any],
    ) -> None:
        self._store = store
        self._registry = registry
        self._tasks = tasks
        self._env = env
        self._blobs = blobs
        self._queues = queues
        """The queues given to the TaskQueue; None means those of its tasks."""
        self._options = options

    def new(
        self,
        slots: int,
        hooks: Hooks,
        *,
        queues: str | Sequence[str] | None = None,
        limits: Mapping[str, Any] | None = None,
    ) -> Worker:
        """A worker that has not started."""
        import_whole("leasehold.worker.worker")
        from leasehold.worker.worker import Worker

        return Worker(
            self._store,
            self._registry,
            env=self._env,
            queues=self.queues_served(queues),
            slots=slots,
            hooks=hooks,
            blobs=self._blobs,
            **{**self._options, **(limits or {})},
        )

    def queues_served(self, told: str | Sequence[str] | None) -> tuple[str, ...]:
        """The queues it was told to serve, or otherwise the default queue and the queues of its
        tasks.
        """
        if told is not None:
            return names(told)
        if self._queues is not None:
            return self._queues
        return tuple(dict.fromkeys([DEFAULT_QUEUE, *self._tasks.queues.values()]))

    def next_run(self, task: str) -> NextRun:
        """What the next run of this program does with a job of this task."""
        if task == COMMAND_TASK:
            return "runs" if self._options.get("allow_commands", False) else "unknown"
        if self._registry.may_import(task):
            return "runs"
        if task not in self._registry:
            return "unknown"
        return "plain" if task in self._tasks.adopted else "runs"

    def warn_of_gaps(
        self,
        queues: str | Sequence[str] | None,
        tasks: str | Sequence[str] | None,
        *,
        allow_commands: bool | None,
    ) -> None:
        """Log warnings about likely mistakes in starting this worker."""
        runs_commands = allow_commands or self._options.get("allow_commands", False)
        if not self._registry.can_find_tasks and not runs_commands:
            logger.warning(
                "no task is registered with this worker, so it runs nothing: import the modules "
                "with the tasks first (on the command line: --import MODULE or --allow-commands)"
            )
        served = self.queues_served(queues)
        wanted = self._tasks.queues.keys() if tasks is None else names(tasks)
        homes = {name: self._tasks.queues[name] for name in wanted if name in self._tasks.queues}
        left = {name: queue for name, queue in homes.items() if not serves(served, queue)}
        if left:
            unserved = list(dict.fromkeys(map(repr, left.values())))
            logger.warning(
                "%s %s to %s %s, which this worker does not serve (%s): name %s in the worker's "
                "queues",
                f"{'task' if len(left) == 1 else 'tasks'} {first_of(list(left), TASKS_SHOWN_MAX)}",
                "belongs" if len(left) == 1 else "belong",
                "queue" if len(unserved) == 1 else "queues",
                first_of(unserved, TASKS_SHOWN_MAX),
                listed(served),
                "it" if len(unserved) == 1 else "them",
            )
