"""Workflows: jobs defined with their dependencies, and submitted in one write."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from leasehold.codec import Passes
from leasehold.core.model import checked
from leasehold.core.model.durations import Seconds
from leasehold.core.model.graph import Graph
from leasehold.core.model.job import Job
from leasehold.core.model.status import Status
from leasehold.errors import InvalidJobError
from leasehold.queue.handle import JobHandle
from leasehold.queue.options import NewJob
from leasehold.queue.task import BaseTask

if TYPE_CHECKING:
    from leasehold.queue.facade import TaskQueue

THEN: Final = "then"
"""The name of a group's callback."""


class Node(NamedTuple):
    """A job of a workflow."""

    job: NewJob
    after: tuple[str, ...]
    """The names of the jobs that must complete before it."""
    passes: Passes | None
    """Whether it is called with their results."""


class Workflow:
    """Named jobs, each after the jobs it needs. Nothing runs until it is submitted.

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
        self.id = checked.text_or_none("workflow_id", workflow_id)
        """The `parent_id` of all its jobs; generated at the submit, unless given here."""
        self.nodes: dict[str, Node] = {}
        self.side_by_side = False
        """Whether its jobs are a group, even if there is only one of them."""

    def __repr__(self) -> str:
        return f"Workflow({', '.join(self.nodes)})"

    def add(
        self,
        name: str,
        job: NewJob | BaseTask[..., Any],
        *,
        after: str | Iterable[str] = (),
        pass_result: bool = False,
    ) -> None:
        """Add a job that runs when the jobs in `after`, added before or later, are completed.

        All other options are set on the job: `task.options(...).job(...)`, including what happens
        if one of them is not completed (`on_dependency_failure`). A task alone stands for its call
        without arguments.

        With `pass_result` the task is called with their results before its own arguments: with one
        name in `after`, with that result; with a list of names, with a list of results.
        """
        name = checked.text("name", name)
        checked.flag("pass_result", pass_result)
        if name in self.nodes:
            raise InvalidJobError(f"the workflow already has a job named {name!r}")
        if isinstance(job, BaseTask):
            job = NewJob(job)
        if callable(getattr(job, "result", None)):
            # A handle of a blocking or an async queue.
            raise InvalidJobError(
                "group(), chain() and add() take task.job(...), not a job that is already submitted"
            )
        if not name or not isinstance(job, NewJob):
            one_list = isinstance(job, (list, tuple)) and "; for a list of jobs: group(*jobs)"
            raise InvalidJobError(
                f"add a task, a task.job(...) or a NewJob(...) under a name, not {job!r}"
                f"{one_list or ''}"
            )
        passes: Passes | None = None
        if pass_result:
            passes = "result" if isinstance(after, str) else "results"
        after = checked.texts("after", after)
        names = (after,) if isinstance(after, str) else after
        # After an empty group the list is empty: there was nothing to do today.
        if pass_result and not names and not (self.side_by_side and not self.nodes):
            raise InvalidJobError(f"{name!r} comes after no job whose result could be passed")
        self.nodes[name] = Node(job, names, passes)

    def then(
        self,
        job: NewJob | BaseTask[..., Any],
        *,
        pass_result: bool = False,
        name: str | None = None,
    ) -> Self:
        """Add a job after all existing ones, and return the workflow, so that calls can be chained.

        With `pass_result` its task is called with what the last job returned, and after a group
        with a list of what all of them returned:

        >>> from leasehold.testing import InlineQueue
        >>> run = InlineQueue().submit_workflow(
        ...     group(NewJob(pow, (2, 3)), NewJob(pow, (3, 2))).then(NewJob(sum), pass_result=True)
        ... )
        >>> run["then"].result()
        17
        """
        inner = {each for node in self.nodes.values() for each in node.after}
        ends = [each for each in self.nodes if each not in inner]
        several = self.side_by_side or len(ends) != 1
        if name is None:
            name = THEN if self.side_by_side else str(len(self.nodes) + 1)
        self.add(name, job, after=ends if several else ends[0], pass_result=pass_result)
        self.side_by_side = False
        return self

    def check(self) -> None:
        """Raise InvalidJobError for a workflow without jobs, or an unknown name in `after`."""
        if not self.nodes:
            raise InvalidJobError("the workflow has no jobs: add some before submitting it")
        for name, node in self.nodes.items():
            for needed in node.after:
                if needed not in self.nodes:
                    raise InvalidJobError(
                        f"{name!r} comes after {needed!r}, and the workflow has no job of that name"
                    )


def chain(*jobs: NewJob | BaseTask[..., Any], pass_result: bool = False) -> Workflow:
    """One job after the other; their names are "1", "2", ...

    With `pass_result` each is called with what the one before it returned, before its own
    arguments; without, it can read that with `current_job().dependency_results()`. `then` adds
    further jobs.
    """
    workflow = Workflow()
    for number, job in enumerate(jobs, start=1):
        if number == 1:
            workflow.add("1", job)
        else:
            workflow.then(job, pass_result=pass_result)
    return workflow


def group(
    *jobs: NewJob | BaseTask[..., Any], then: NewJob | BaseTask[..., Any] | None = None
) -> Workflow:
    """Jobs side by side, named "1", "2", ..., and one, named "then", when all are completed.

    It reads what they returned with `current_job().dependency_results()`, in their order; added
    by `group(...).then(job, pass_result=True)`, it is called with a list of that, which is empty
    for a group without jobs.
    """
    workflow = Workflow()
    for number, job in enumerate(jobs, start=1):
        workflow.add(str(number), job)
    workflow.side_by_side = True
    return workflow if then is None else workflow.then(then)


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
        """The job added last: the end of a chain, or the callback of a group."""
        return self._handles[next(reversed(self._handles))]

    def statuses(self) -> dict[str, Status]:
        """The status of each job, by name."""
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
        """Cancel all its jobs that have not ended; returns how many."""
        return self._queue.cancel_graph(*self._handles.values(), reason=reason, linked=False)

    def replay(self, *, reset_attempts: bool = False) -> int:
        """Replay the failed jobs, and all that ended because of them; returns how many jobs."""
        return self._queue.replay_graph(*self._handles.values(), reset_attempts=reset_attempts)
