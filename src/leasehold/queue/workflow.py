"""Workflows: jobs that are drawn with their dependencies, and submitted in one write."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from leasehold.core.model.durations import Seconds
from leasehold.core.model.graph import Graph
from leasehold.core.model.job import Job
from leasehold.core.model.status import Status
from leasehold.errors import InvalidJobError
from leasehold.queue.handle import JobHandle
from leasehold.queue.options import NewJob

if TYPE_CHECKING:
    from leasehold.queue.facade import TaskQueue

THEN: Final = "then"
"""The name of a group's callback."""


class Workflow:
    """Jobs under names of their own, each after those it needs. Nothing runs until it is submitted.

    >>> from leasehold.testing import InlineQueue
    >>> queue = InlineQueue()
    >>> workflow = Workflow()
    >>> workflow.add("small", NewJob(min, (3, 7)))
    >>> workflow.add("large", NewJob(max, (3, 7)))
    >>> workflow.add("both", NewJob(pow, (2, 3)), after=["small", "large"])
    >>> run = queue.submit_workflow(workflow)
    >>> run["both"].result()
    8
    """

    def __init__(self, workflow_id: str | None = None) -> None:
        self.id = workflow_id
        """The `parent_id` of all its jobs; made up when it is submitted, unless given here."""
        self.nodes: dict[str, tuple[NewJob, tuple[str, ...]]] = {}
        """By name: the job, and the names of those it comes after."""

    def __repr__(self) -> str:
        return f"Workflow({', '.join(self.nodes)})"

    def add(self, name: str, job: NewJob, *, after: str | Iterable[str] = ()) -> None:
        """Add a job that runs when those in `after`, added before or later, are completed.

        What else there is to say stands in the job: `task.options(...).job(...)`, also what becomes
        of it if one of them is not completed (`on_dependency_failure`).
        """
        if name in self.nodes:
            raise InvalidJobError(f"the workflow has a job named {name!r} already")
        if not name or not isinstance(job, NewJob):
            raise InvalidJobError(f"add a NewJob(...) or task.job(...) under a name, not {job!r}")
        self.nodes[name] = (job, (after,) if isinstance(after, str) else tuple(after))

    def check(self) -> None:
        """Raise InvalidJobError for a workflow without jobs, or a name in `after` that is none."""
        if not self.nodes:
            raise InvalidJobError("the workflow has no jobs: add some before submitting it")
        for name, (_, after) in self.nodes.items():
            for needed in after:
                if needed not in self.nodes:
                    raise InvalidJobError(
                        f"{name!r} comes after {needed!r}, and the workflow has no job named so"
                    )


def chain(*jobs: NewJob) -> Workflow:
    """One job after the other; their names are "1", "2", ...

    Each reads what the one before it returned with `current_job().dependency_results()`.
    """
    workflow = Workflow()
    for number, job in enumerate(jobs, start=1):
        workflow.add(str(number), job, after=[str(number - 1)] if number > 1 else [])
    return workflow


def group(*jobs: NewJob, then: NewJob | None = None) -> Workflow:
    """Jobs side by side, named "1", "2", ..., and one, named "then", when all are completed.

    It reads what they returned with `current_job().dependency_results()`, in their order.
    """
    workflow = Workflow()
    for number, job in enumerate(jobs, start=1):
        workflow.add(str(number), job)
    if then is not None:
        workflow.add(THEN, then, after=list(workflow.nodes))
    return workflow


class WorkflowRun(Mapping[str, JobHandle[Any]]):
    """A workflow that was submitted: its jobs' handles by name."""

    def __init__(
        self, queue: TaskQueue, workflow_id: str, handles: Mapping[str, JobHandle[Any]]
    ) -> None:
        self._queue = queue
        self._id = workflow_id
        self._handles = dict(handles)

    def __repr__(self) -> str:
        return f"WorkflowRun({self._id!r}, {list(self._handles)})"

    def __getitem__(self, name: str) -> JobHandle[Any]:
        return self._handles[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._handles)

    def __len__(self) -> int:
        return len(self._handles)

    @property
    def id(self) -> str:
        """The `parent_id` of its jobs."""
        return self._id

    @property
    def last(self) -> JobHandle[Any]:
        """The job that was added last: the end of a chain, the callback of a group."""
        return self._handles[next(reversed(self._handles))]

    def statuses(self) -> dict[str, Status]:
        """Where each job stands, by name."""
        nodes = self.graph().nodes
        return {name: nodes[handle.id].status for name, handle in self._handles.items()}

    def graph(self) -> Graph:
        """Its jobs, and all others that they depend on or that depend on them."""
        return self._queue.graph(*self._handles.values())

    def wait(self, timeout: Seconds | None = None) -> dict[str, Job]:
        """Block until every job has ended, well or badly; their last snapshots, by name."""
        jobs = self._queue.wait(self._handles.values(), timeout)
        return dict(zip(self._handles, jobs, strict=True))

    async def await_end(self, timeout: Seconds | None = None) -> dict[str, Job]:  # noqa: ASYNC109
        """`wait()`, to be awaited: no thread waits."""
        jobs = await self._queue.await_ends(self._handles.values(), timeout)
        return dict(zip(self._handles, jobs, strict=True))

    def cancel(self, reason: str = "") -> int:
        """Stop all its jobs that have not ended; answers how many."""
        return self._queue.cancel_graph(*self._handles.values(), reason=reason, linked=False)

    def replay(self, *, reset_attempts: bool = False) -> int:
        """Run what failed again, and all that ended because of it; answers how many jobs."""
        return self._queue.replay_graph(*self._handles.values(), reset_attempts=reset_attempts)
