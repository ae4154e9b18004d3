"""The state of every page: the store behind it, the visitor, and the request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from threading import Lock
from typing import Any, Final

from starlette.datastructures import QueryParams

from leasehold.core.contract.looking import looking
from leasehold.core.model.job import Job
from leasehold.core.model.queue_config import QueueInfo
from leasehold.core.model.records import WorkerInfo
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Status
from leasehold.core.model.tokens import Role
from leasehold.core.rules.metrics import QueueMetrics
from leasehold.core.rules.timeline import Timeline
from leasehold.dashboard.charts import hour_of
from leasehold.dashboard.operation_runner import OperationRunner
from leasehold.dashboard.recent import Recent
from leasehold.observe.findings import Finding
from leasehold.queue.facade import TaskQueue
from leasehold.queue.health import findings_of, is_gone, lately_of
from leasehold.queue.operations import Operations
from leasehold.queue.task_figures import TaskFigures, figures_by_task
from leasehold.service.api import Api
from leasehold.service.caller import Caller

OVERSEERS: Final[tuple[Role, ...]] = ("operator", "observer")
"""Roles that may see everything but the audit; an observer may do nothing else."""
FIGURES_KEPT: Final = 100
PAGES_KEPT: Final = 50
TASK_JOBS: Final = 500
"""Tasks are judged by this many of the newest jobs of their queue that ended within a day."""
TASK_JOBS_READ: Final = 20_000
"""The most jobs of the store that are read to find them."""


class Desk:
    """The store, as pages read it."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.store = api.store
        self.env = api.env
        self.queue = TaskQueue(api.store, num_workers=0, env=api.env, actor="dashboard")
        self.one_by_one = Lock()
        """For orders that look first, and then act on what they saw."""
        self._figures = Recent(api.env, FIGURES_KEPT)
        self.lately = self._figures.get
        self.pages = Recent(api.env, PAGES_KEPT)
        """Pages that reload themselves, rendered once for all visitors who have them open."""
        operations = Operations(api.store, "dashboard", api.env, api.blobs)
        self.runner = OperationRunner(operations, self.pages.forget)

    @cached_property
    def store_name(self) -> str:
        """What stands on every page; to describe a store takes its whole description."""
        return str(self.queue.describe().get("path") or "")[-60:]

    def order_was_given(self) -> None:
        """The person who gave an order looks for its effect, so the verdict and the pages are
        renewed.
        """
        self._figures.forget("findings")
        self.pages.forget()

    def findings(
        self,
        infos: Sequence[QueueInfo] | None = None,
        workers: Sequence[WorkerInfo] | None = None,
    ) -> list[Finding]:
        """What `queuectl doctor` says, of this moment or the one before; a page that has read the
        queues and the workers lends them.
        """
        return self.lately(
            "findings",
            lambda: findings_of(self.queue, infos=infos, workers=workers, measure=self.measured),
        )

    def measured(self) -> list[QueueMetrics]:
        """The figures of each queue in the last minutes, the same for alerts and pages."""
        return self.lately("queues", lambda: lately_of(self.queue))

    def hour(self) -> Timeline:
        """What all queues did in the last hour, minute by minute."""
        return self.lately("hour", lambda: hour_of(self.queue))

    def gone(self, workers: Sequence[WorkerInfo]) -> set[str]:
        """The workers proved dead, and the consumers of this machine whose process has ended."""
        ended = {each.id for each in workers if each.is_consumer and is_gone(each)}
        return ended | set(self.queue.lost_workers())

    def known_queues(self) -> list[str]:
        """The names of the queues, to be offered while somebody types."""
        return self.lately("known queues", self.queue.queues)

    def known_tasks(self) -> set[str]:
        """The tasks that workers know; patterns of them, too."""
        return self.lately(
            "known tasks", lambda: {name for each in self.queue.workers() for name in each.tasks}
        )

    def tasks_of(self, queue: str) -> list[TaskFigures]:
        """How long the latest jobs of each task of a queue waited and ran."""
        return self.lately(("tasks", queue), lambda: figures_by_task(self._ended(queue)))

    def _ended(self, queue: str) -> list[Job]:
        where = JobFilter(
            queues=(queue,),
            statuses=(Status.COMPLETED, Status.DEAD),
            finished_from=self.queue.now() - timedelta(days=1),
        )
        return (
            looking(self.store)
            .search(
                where,
                limit=TASK_JOBS,
                without=("payload", "result", "metadata"),
                read_max=TASK_JOBS_READ,
            )
            .jobs
        )


@dataclass(frozen=True)
class Visit:
    """A visitor's request for a page."""

    caller: Caller
    query: QueryParams
    theme: str = "system"

    def may(self, role: Role) -> bool:
        """Whether they have the role; an admin has all of them."""
        return self.may_any((role,))

    def may_any(self, roles: Iterable[Role]) -> bool:
        """Whether they have one of the roles; an admin has all of them."""
        return "admin" in self.caller.roles or not self.caller.roles.isdisjoint(roles)

    @property
    def may_oversee(self) -> bool:
        """Whether they may see more than jobs, queues and figures."""
        return self.may_any(OVERSEERS)

    def text(self, name: str) -> str:
        """A parameter; empty if missing."""
        return self.query.get(name, "")


@dataclass(frozen=True)
class FilledPage:
    """The answer of a view: a template and its values."""

    template: str
    values: Mapping[str, Any] = field(default_factory=dict)
    status: int = 200
