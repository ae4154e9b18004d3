# ruff: noqa: ASYNC109 - a timeout means the same here as in the calls that block.
"""The calls of a TaskQueue, made by `make faces` from its parts: do not edit."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, Unpack, overload

from leasehold.codec import CallCodec
from leasehold.core.contract.clock_store import ClockRepair
from leasehold.core.contract.transactions import OwnConnection
from leasehold.core.model import checked
from leasehold.core.model.breaker import Breaker
from leasehold.core.model.changes import Changes
from leasehold.core.model.durations import Seconds
from leasehold.core.model.failure import Failure
from leasehold.core.model.graph import Graph
from leasehold.core.model.history import Attempt, HistoryEvent
from leasehold.core.model.job import DependencyPolicy, Job, MetadataValue, PriorityLike
from leasehold.core.model.joblog import JobLog
from leasehold.core.model.key_limits import KeyInfo
from leasehold.core.model.lease import (
    Exchange,
    Lease,
    LeaseRequest,
    Renewed,
    Settled,
    StuckJob,
    SweepReport,
)
from leasehold.core.model.pages import AuditPage, HistoryPage, LogPage
from leasehold.core.model.pins import Pin
from leasehold.core.model.queue_config import QueueConfig, QueueInfo
from leasehold.core.model.reason import Reason
from leasehold.core.model.records import AuditRecord, WorkerInfo, WorkerTotals
from leasehold.core.model.retention import CleanUp
from leasehold.core.model.retry import Backoff
from leasehold.core.model.schedule import Schedule
from leasehold.core.model.search import Count, HeavyField, JobFilter, Page
from leasehold.core.model.status import Status
from leasehold.core.model.timing import Timing
from leasehold.core.rules.metrics import (
    WINDOW_SECONDS,
    DayPoint,
    DurationName,
    MinutePoint,
    QueueMetrics,
)
from leasehold.core.rules.timeline import ResolutionName, Timeline
from leasehold.errors import LeaseholdError, LeaseLostError
from leasehold.queue.codecs import Codecs
from leasehold.queue.consumer import WAIT_SECONDS, Consuming
from leasehold.queue.filters import FilterFields
from leasehold.queue.handle import JobHandle
from leasehold.queue.joining import Joining
from leasehold.queue.looking import Looking
from leasehold.queue.metrics import Metrics
from leasehold.queue.options import JobOptions, JobRef, NewJob, RetryLike
from leasehold.queue.orders import Answer, Orders
from leasehold.queue.queues import IfExists, QueueOptions, Queues
from leasehold.queue.results import Results
from leasehold.queue.retention import Retention
from leasehold.queue.room import Block
from leasehold.queue.scheduling import ScheduleOptions, Scheduling
from leasehold.queue.submitting import AsyncFunction, Function, Submitting
from leasehold.queue.task import AsyncTask, BaseTask, Task, TaskLike
from leasehold.queue.tasks import Decorator, Errors, Tasks
from leasehold.queue.upkeep import Upkeep
from leasehold.queue.workflow import Workflow, WorkflowRun
from leasehold.queue.workflows import Workflows
from leasehold.worker.task import ExecutorKind

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from leasehold.queue.keepalive import KeepAlive, OnLost
    from leasehold.worker.supervisor import RequeueReport

R = TypeVar("R")
P = ParamSpec("P")


class QueueCalls:
    """Every call goes to the part of the queue that it belongs to."""

    _tasks: Tasks
    _submitting: Submitting
    _scheduling: Scheduling
    _workflows: Workflows
    _results: Results
    _joining: Joining
    _looking: Looking
    _orders: Orders
    _consuming: Consuming
    _queues: Queues
    _metrics: Metrics
    _retention: Retention
    _upkeep: Upkeep
    _codecs: Codecs

    @overload
    def task(  # type: ignore[overload-overlap]  # The first that fits is the right one.
        self, func: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncTask[P, R]: ...
    @overload
    def task(self, func: Callable[P, R], /) -> Task[P, R]: ...
    @overload
    def task(
        self,
        /,
        *,
        name: str | None = None,
        aliases: str | Iterable[str] = (),
        queue: str | None = None,
        priority: PriorityLike | None = None,
        max_retries: int | None = None,
        retry: Backoff | RetryLike | None = None,
        timeout_seconds: Seconds | None = None,
        lease_seconds: Seconds | None = None,
        start_within_seconds: Seconds | None = None,
        result_ttl_seconds: Seconds | None = None,
        metadata: Mapping[str, MetadataValue] | None = None,
        executor: ExecutorKind | None = None,
        permanent: Errors = (),
        retryable: Errors = (),
        breaker: Breaker | None = None,
    ) -> Decorator: ...
    def task(
        self,
        func: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        aliases: str | Iterable[str] = (),
        retry: Any = None,
        executor: ExecutorKind | None = None,
        permanent: Errors = (),
        retryable: Errors = (),
        breaker: Breaker | None = None,
        **options: Any,
    ) -> Any:
        """Make a function a task: `@queue.task` or `@queue.task(priority="high", ...)`.

        `retry` is a policy, a list of delays, seconds, or a function of (attempt, error) that the
        worker calls. `permanent` and `retryable` are exception classes that extend the default
        lists, and override them. `breaker` holds the task back while it keeps failing. `aliases`
        are earlier names of the task: jobs that wait under one of them still find it.
        """
        call: Any = self._tasks.task
        answer: Any = call(
            func,
            name=checked.text_or_none("name", name),
            aliases=checked.texts("aliases", aliases),
            retry=retry,
            executor=executor,
            permanent=permanent,
            retryable=retryable,
            breaker=checked.instance_or_none("breaker", breaker, Breaker),
            **options,
        )
        return answer

    def load_tasks(self, module: str) -> list[str]:
        """Import a module and register the tasks in it; returns their names.

        This is how a worker finds tasks with custom names. Raises
        TaskNotImportableError, with the reason, if the module cannot be imported.
        """
        return self._tasks.load_tasks(checked.text("module", module))

    @overload
    def submit(
        self,
        func: AsyncFunction[R],
        /,
        *args: Any,
        task_name: str | None = None,
        job_id: str | None = None,
        queue: str | None = None,
        priority: PriorityLike | None = None,
        max_retries: int | None = None,
        retry: RetryLike | None = None,
        run_at: datetime | None = None,
        delay: Seconds | None = None,
        deadline: datetime | None = None,
        timeout_seconds: Seconds | None = None,
        lease_seconds: Seconds | None = None,
        start_within_seconds: Seconds | None = None,
        result_ttl_seconds: Seconds | None = None,
        metadata: Mapping[str, MetadataValue] | None = None,
        idempotency_key: str | None = None,
        parent_id: JobRef | None = None,
        depends_on: JobRef | Iterable[JobRef] | None = None,
        on_dependency_failure: DependencyPolicy | None = None,
        client: str | None = None,
        connection: OwnConnection | None = None,
        limit_key: str | None = None,
        block: Block = False,
        **kwargs: Any,
    ) -> JobHandle[R]: ...
    @overload
    def submit(
        self,
        func: Function[R],
        /,
        *args: Any,
        task_name: str | None = None,
        job_id: str | None = None,
        queue: str | None = None,
        priority: PriorityLike | None = None,
        max_retries: int | None = None,
        retry: RetryLike | None = None,
        run_at: datetime | None = None,
        delay: Seconds | None = None,
        deadline: datetime | None = None,
        timeout_seconds: Seconds | None = None,
        lease_seconds: Seconds | None = None,
        start_within_seconds: Seconds | None = None,
        result_ttl_seconds: Seconds | None = None,
        metadata: Mapping[str, MetadataValue] | None = None,
        idempotency_key: str | None = None,
        parent_id: JobRef | None = None,
        depends_on: JobRef | Iterable[JobRef] | None = None,
        on_dependency_failure: DependencyPolicy | None = None,
        client: str | None = None,
        connection: OwnConnection | None = None,
        limit_key: str | None = None,
        block: Block = False,
        **kwargs: Any,
    ) -> JobHandle[R]: ...
    @overload
    def submit(
        self,
        func: str,
        /,
        *args: Any,
        task_name: str | None = None,
        job_id: str | None = None,
        queue: str | None = None,
        priority: PriorityLike | None = None,
        max_retries: int | None = None,
        retry: RetryLike | None = None,
        run_at: datetime | None = None,
        delay: Seconds | None = None,
        deadline: datetime | None = None,
        timeout_seconds: Seconds | None = None,
        lease_seconds: Seconds | None = None,
        start_within_seconds: Seconds | None = None,
        result_ttl_seconds: Seconds | None = None,
        metadata: Mapping[str, MetadataValue] | None = None,
        idempotency_key: str | None = None,
        parent_id: JobRef | None = None,
        depends_on: JobRef | Iterable[JobRef] | None = None,
        on_dependency_failure: DependencyPolicy | None = None,
        client: str | None = None,
        connection: OwnConnection | None = None,
        limit_key: str | None = None,
        block: Block = False,
        **kwargs: Any,
    ) -> JobHandle[Any]: ...
    def submit(self, func: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Run `func(*args, **kwargs)` in the background, as soon as its options allow.

        `func` is a function, a task, or a task's name. The names of the options are reserved here;
        a function with a parameter of such a name is submitted through its task, whose own submit
        takes exactly the function's arguments: `queue.task(func).submit(...)`.

        A full queue raises QueueFullError, which says when to try again. With `block=True` the call
        waits until there is room, with `block=5` for at most 5 seconds.

        With `connection`, one from `connect()`, the job is part of the transaction open there: it
        is submitted when that transaction commits.
        """
        return self._submitting.submit(func, *args, **kwargs)

    def submit_call(
        self,
        task: BaseTask[..., R],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        options: JobOptions | None = None,
        *,
        block: Block = False,
        connection: OwnConnection | None = None,
    ) -> JobHandle[R]:
        """`submit` for a known task: nothing in `kwargs` is taken for an option."""
        return self._submitting.submit_call(
            task, args, kwargs, options, block=block, connection=connection
        )

    @overload
    def submit_many(
        self,
        jobs: Iterable[NewJob],
        *,
        partial: Literal[False] = False,
        block: Block = False,
        connection: OwnConnection | None = None,
    ) -> list[JobHandle[Any]]: ...
    @overload
    def submit_many(
        self,
        jobs: Iterable[NewJob],
        *,
        partial: Literal[True],
        connection: OwnConnection | None = None,
    ) -> list[JobHandle[Any] | LeaseholdError]: ...
    def submit_many(
        self,
        jobs: Iterable[NewJob],
        *,
        partial: bool = False,
        block: Block = False,
        connection: OwnConnection | None = None,
    ) -> list[Any]:
        """Submit many jobs in one write: all or nothing.

        With `partial`, the valid jobs are submitted and the answer for each invalid one is its
        error. With `block`, the call waits until there is room for all of them; with `connection`,
        they are part of the transaction open there, as in `submit`.
        """
        call: Any = self._submitting.submit_many
        answer: list[Any] = call(
            checked.several("jobs", jobs),
            partial=checked.flag("partial", partial),
            block=block,
            connection=connection,
        )
        return answer

    def submit_command(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str | None = None,
        connection: OwnConnection | None = None,
        **options: Unpack[JobOptions],
    ) -> JobHandle[Any]:
        """Run a command in the background: a list of arguments, or a string for the shell.

        Put untrusted values in a list or in `env`, never in a shell string. Only a worker with
        `allow_commands=True` runs it. `options` are those of `submit`.
        """
        return self._submitting.submit_command(
            checked.texts("command", command),
            cwd=checked.text_or_none("cwd", cwd),
            env=checked.mapping_or_none("env", env),
            stdin=checked.text_or_none("stdin", stdin),
            connection=connection,
            **options,
        )

    def check_job(self, job: NewJob) -> None:
        """Raise the errors that submitting this job alone would raise; store nothing.

        Refusals that depend on the store (a taken id, a full queue) appear only at submit.
        """
        self._submitting.check_job(job)

    @overload
    async def asubmit(
        self, func: AsyncFunction[R], /, *args: Any, **kwargs: Any
    ) -> JobHandle[R]: ...
    @overload
    async def asubmit(self, func: Function[R], /, *args: Any, **kwargs: Any) -> JobHandle[R]: ...
    @overload
    async def asubmit(self, func: str, /, *args: Any, **kwargs: Any) -> JobHandle[Any]: ...
    async def asubmit(self, func: Any, /, *args: Any, **kwargs: Any) -> Any:
        """`submit`, to be awaited, with the same options."""
        return await self._submitting.asubmit(func, *args, **kwargs)

    async def asubmit_call(
        self,
        task: BaseTask[..., R],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        options: JobOptions | None = None,
        *,
        block: Block = False,
        connection: OwnConnection | None = None,
    ) -> JobHandle[R]:
        """`submit_call`, to be awaited: submits that wait at the same time share one write."""
        return await self._submitting.asubmit_call(
            task, args, kwargs, options, block=block, connection=connection
        )

    async def asubmit_many(
        self,
        jobs: Iterable[NewJob],
        *,
        block: Block = False,
        connection: OwnConnection | None = None,
    ) -> list[JobHandle[Any]]:
        """`submit_many`, all or nothing, to be awaited; while it waits for room, no thread does."""
        return await self._submitting.asubmit_many(
            checked.several("jobs", jobs), block=block, connection=connection
        )

    def own_id(self, queue: str, name: str) -> str:
        """An id generated here for the job."""
        return self._submitting.own_id(checked.text("queue", queue), checked.text("name", name))

    def schedule(
        self,
        name: str,
        task: BaseTask[..., Any] | Callable[..., Any] | str,
        timing: Timing,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> Schedule:
        """Run a task at every tick of `timing`: `Cron(...)` or `Every(...)`.

        The name identifies the schedule: declaring it again, at every start of a program, is
        harmless, and declaring it differently changes it. Ticks are fired by the workers on this
        store, each tick once. `misfire` decides about ticks that were missed while no worker ran;
        `overlap="skip"` skips a tick while the job of the one before has not ended. With
        `declared_in=__name__` the schedule belongs to the code of that module, as those of `every`
        and `cron` do: once the module no longer declares it, it is shown as orphaned. The other
        options are those of `submit`, for each tick's job.

        >>> from leasehold import Cron, TaskQueue
        >>> queue = TaskQueue("memory://", num_workers=0)
        >>> schedule = queue.schedule("nightly", print, Cron("0 3 * * *", zone="Europe/Berlin"))
        >>> [known.name for known in queue.schedules]
        ['nightly']
        """
        return self._scheduling.schedule(
            checked.text("name", name),
            task,
            timing,
            checked.several("args", args),
            checked.mapping_or_none("kwargs", kwargs),
            **options,
        )

    def schedule_command(
        self,
        name: str,
        command: str | Sequence[str],
        timing: Timing,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> Schedule:
        """`schedule` for a command, given as in `submit_command`.

        >>> from leasehold import Every, TaskQueue
        >>> queue = TaskQueue("memory://", num_workers=0)
        >>> queue.schedule_command("tidy", ["find", "/tmp", "-delete"], Every(3600)).task
        'command'
        """
        return self._scheduling.schedule_command(
            checked.text("name", name),
            checked.texts("command", command),
            timing,
            cwd=checked.text_or_none("cwd", cwd),
            env=checked.mapping_or_none("env", env),
            stdin=checked.text_or_none("stdin", stdin),
            **options,
        )

    def every(
        self,
        seconds: Seconds,
        *,
        starting: datetime | None = None,
        name: str | None = None,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> Decorator:
        """Make a function a task that runs at an interval: `@queue.every(60)`, `every("1h")`.

        It may stand above `@queue.task(...)`. The schedule has the task's name by default, and is
        stored as soon as the function is defined; options as in `schedule`.
        """
        return self._scheduling.every(
            seconds,
            starting=checked.moment_or_none("starting", starting),
            name=checked.text_or_none("name", name),
            args=checked.several("args", args),
            kwargs=checked.mapping_or_none("kwargs", kwargs),
            **options,
        )

    def cron(
        self,
        expression: str,
        *,
        zone: str | ZoneInfo = "UTC",
        name: str | None = None,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> Decorator:
        """Make a function a task that runs by a cron expression; see `every` and `Cron`."""
        return self._scheduling.cron(
            checked.text("expression", expression),
            zone=zone,
            name=checked.text_or_none("name", name),
            args=checked.several("args", args),
            kwargs=checked.mapping_or_none("kwargs", kwargs),
            **options,
        )

    def prune_schedules(self) -> list[Schedule]:
        """Remove the schedules that code declared and no longer declares; returns them.

        Call it when everything is declared. It removes those that are shown as orphaned, and those
        of modules that this process has loaded or that are gone from a package it has loaded.
        Their jobs stay. See docs/schedules.md.

        >>> from leasehold import TaskQueue
        >>> queue = TaskQueue("memory://", num_workers=0)
        >>> queue.prune_schedules()
        []
        """
        return self._scheduling.prune_schedules()

    def submit_workflow(
        self, workflow: Workflow, *, block: Block = False, connection: OwnConnection | None = None
    ) -> WorkflowRun:
        """Submit all jobs of a workflow in one write, all or nothing.

        Their ids are the workflow's id and their name, `id:name`, unless they have their own. With
        `block` it waits until there is room for the jobs without dependencies; with `connection`
        they are part of the transaction open there, as in `submit`.
        """
        return self._workflows.submit_workflow(
            checked.instance("workflow", workflow, Workflow), block=block, connection=connection
        )

    async def asubmit_workflow(
        self, workflow: Workflow, *, block: Block = False, connection: OwnConnection | None = None
    ) -> WorkflowRun:
        """`submit_workflow`, to be awaited; while it waits for room, no thread does."""
        return await self._workflows.asubmit_workflow(
            checked.instance("workflow", workflow, Workflow), block=block, connection=connection
        )

    def graph(self, *jobs: JobRef) -> Graph:
        """These jobs and all jobs linked with them by dependencies, with their statuses.

        Raises JobNotFoundError for an unknown id.
        """
        return self._workflows.graph(*jobs)

    def cancel_graph(self, *jobs: JobRef, reason: str = "", linked: bool = True) -> int:
        """Cancel these jobs and all jobs linked with them, unless they have ended.

        Returns how many there were. With `linked=False` only the jobs themselves.
        """
        return self._workflows.cancel_graph(
            *jobs, reason=checked.text("reason", reason), linked=checked.flag("linked", linked)
        )

    def replay_graph(self, *jobs: JobRef, reset_attempts: bool = False) -> int:
        """Replay a failed job, and all jobs that are cancelled or dead because of it.

        Any of these jobs will do: the one where the failure began is found. The others wait for it
        again. Returns how many jobs were replayed; raises
        InvalidTransitionError if none of these jobs is dead or cancelled.
        """
        return self._workflows.replay_graph(
            *jobs, reset_attempts=checked.flag("reset_attempts", reset_attempts)
        )

    @overload
    def wait(  # type: ignore[overload-overlap]  # A string is one id, not many letters.
        self, jobs: JobRef, timeout: Seconds | None = None
    ) -> Job: ...
    @overload
    def wait(self, jobs: Iterable[JobRef], timeout: Seconds | None = None) -> list[Job]: ...
    def wait(
        self, jobs: JobRef | Iterable[JobRef], timeout: Seconds | None = None
    ) -> Job | list[Job]:
        """Block until a job, or each of several, has ended, completed or not.

        Returns their last snapshots, in order. Raises ResultTimeoutError (a TimeoutError)
        when not all have ended after `timeout` seconds, and JobNotFoundError for an unknown id.
        """
        return self._results.wait(jobs, timeout)

    def get_result(self, job: JobRef, timeout: Seconds | None = None) -> Any:
        """The return value of the job's task. Waits for it.

        Raises JobFailedError if the job is dead, JobCancelledError if it was cancelled,
        ResultTimeoutError (a TimeoutError) when it has not ended after `timeout` seconds,
        ResultExpiredError when the result's time to live is over, and JobNotFoundError for an
        unknown id. A large result that cannot be read from the blob store raises a BlobError.
        """
        return self._results.get_result(job, timeout)

    def result_of(self, job: Job, codec: CallCodec | None = None) -> Any:
        """The result in a job that has ended, or the error that says why there is none."""
        return self._results.result_of(job, codec)

    def dependency_results(self, job: JobRef) -> dict[str, Any]:
        """The results of the job's dependencies, by id, in the order of `depends_on`.

        Dependencies that have not completed are left out. Raises ResultExpiredError if the time to
        live of a result is over.
        """
        return self._results.dependency_results(job)

    async def aget_result(self, job: JobRef, timeout: Seconds | None = None) -> Any:
        """`get_result`, to be awaited: no thread waits."""
        return await self._results.aget_result(job, timeout)

    async def aresult_of(self, job: Job, codec: CallCodec | None = None) -> Any:
        """`result_of`, to be awaited: a result in a blob store is read on another thread."""
        return await self._results.aresult_of(job, codec)

    async def await_end(self, job: JobRef, timeout: Seconds | None = None) -> Job:
        """`wait` for one job, to be awaited: no thread waits."""
        return await self._results.await_end(job, timeout)

    async def await_ends(self, jobs: Iterable[JobRef], timeout: Seconds | None = None) -> list[Job]:
        """`wait` for several jobs, to be awaited: no thread waits."""
        return await self._results.await_ends(checked.several("jobs", jobs), timeout)

    def join(self, timeout: Seconds | None = None) -> None:
        """Block until no job in the queues of this TaskQueue waits or runs.

        This includes delayed jobs, retries, and jobs that others submit meanwhile. Raises
        ResultTimeoutError, which says why one of them has not ended, after `timeout`. A task cannot
        join the queue that its own job is in: UnsupportedError.
        """
        self._joining.join(timeout)

    async def ajoin(self, timeout: Seconds | None = None) -> None:
        """`join`, to be awaited: no thread waits."""
        await self._joining.ajoin(timeout)

    def get(self, job: JobRef) -> Job:
        """A snapshot of a job; raises JobNotFoundError for an unknown id, or an archived job's."""
        return self._looking.get(job)

    def get_status(self, job: JobRef) -> Status:
        return self._looking.get_status(job)

    def payload_of(self, job: Job) -> Any:
        """A job's payload as plain JSON data, also one that is kept in a blob store."""
        return self._looking.payload_of(checked.instance("job", job, Job))

    def position(self, job: JobRef) -> int | None:
        """How many pending jobs of its queue are served before this one; None if it is not pending.

        This counts them, so do not call it in a loop.
        """
        return self._looking.position(job)

    def search(
        self,
        where: JobFilter | None = None,
        /,
        *,
        without: Collection[HeavyField] = (),
        **fields: Unpack[FilterFields],
    ) -> Iterator[Job]:
        """All matching jobs, the last submitted first; fetched page by page as you iterate.

        It is an iterator: `itertools.islice(queue.search(...), 10)` takes the first ten.

        A list of many jobs is lighter `without` their "payload", "result" and "metadata".

        >>> from leasehold import TaskQueue
        >>> queue = TaskQueue("memory://", num_workers=0)
        >>> _ = queue.submit("mail", "a@b.c", metadata={"tenant": "acme"})
        >>> [job.task for job in queue.search(status="pending", metadata={"tenant": "acme"})]
        ['mail']
        """
        return self._looking.search(
            checked.instance_or_none("where", where, JobFilter),
            without=checked.several("without", without),
            **fields,
        )

    def search_page(
        self,
        where: JobFilter | None = None,
        /,
        *,
        limit: int = 100,
        cursor: str | None = None,
        without: Collection[HeavyField] = (),
        total: bool = False,
        **fields: Unpack[FilterFields],
    ) -> Page:
        """One page of a search, and the cursor of the next.

        With `total` it also counts the matching jobs on all pages, as `count` does.
        """
        return self._looking.search_page(
            checked.instance_or_none("where", where, JobFilter),
            limit=checked.whole("limit", limit),
            cursor=checked.text_or_none("cursor", cursor),
            without=checked.several("without", without),
            total=checked.flag("total", total),
            **fields,
        )

    def count(self, where: JobFilter | None = None, /, **fields: Unpack[FilterFields]) -> Count:
        """How many jobs match: exactly up to 10,000, beyond that "at least 10,000".

        A filter with only queues, tasks and statuses is answered exactly at any number.

        >>> from leasehold import TaskQueue
        >>> queue = TaskQueue("memory://", num_workers=0)
        >>> _ = queue.submit("mail", "a@b.c", limit_key="acme")
        >>> queue.count(limit_key="acme").jobs, str(queue.count(task="mail"))
        (1, '1')
        """
        return self._looking.count(checked.instance_or_none("where", where, JobFilter), **fields)

    def find_ids(self, prefix: str, limit: int = 10) -> list[str]:
        """Ids of jobs with this prefix, in order, to complete a partly typed id."""
        return self._looking.find_ids(checked.text("prefix", prefix), checked.whole("limit", limit))

    def attempts(self, job: JobRef) -> list[Attempt]:
        """The job's attempts, oldest first, the running one included."""
        return self._looking.attempts(job)

    def history(self, job: JobRef) -> list[HistoryEvent]:
        """Everything that happened to the job, oldest first."""
        return self._looking.history(job)

    def history_page(
        self, job: JobRef, *, limit: int = 100, cursor: str | None = None
    ) -> HistoryPage:
        """A part of its history, and the cursor with which to ask for the next.

        >>> from leasehold import TaskQueue
        >>> queue = TaskQueue("memory://", num_workers=0)
        >>> job = queue.submit("mail", "a@b.c")
        >>> _ = queue.cancel(job)
        >>> page = queue.history_page(job, limit=1)
        >>> [event.event.value for event in page.events], page.next_cursor
        (['created'], '1')
        """
        return self._looking.history_page(
            job, limit=checked.whole("limit", limit), cursor=checked.text_or_none("cursor", cursor)
        )

    def log(self, job: JobRef) -> list[str]:
        """The lines that the job's task logged by `current_job().log(...)`: the last 1000."""
        return self._looking.log(job)

    def job_log(self, job: JobRef) -> JobLog:
        """The same lines with the time of each, and the number of dropped lines before them."""
        return self._looking.job_log(job)

    def log_page(self, job: JobRef, *, limit: int = 100, cursor: str | None = None) -> LogPage:
        """A part of its log lines, and the cursor with which to ask for the next."""
        return self._looking.log_page(
            job, limit=checked.whole("limit", limit), cursor=checked.text_or_none("cursor", cursor)
        )

    def get_queue_stats(self, queue: str | None = None) -> dict[str, int]:
        """A count per status, and the lifetime totals as `total_...`, of one queue or of all.

        Raises QueueNotFoundError for an unknown queue.
        """
        return self._looking.get_queue_stats(checked.text_or_none("queue", queue))

    def queues(self) -> list[str]:
        """The names of all queues that were created or ever held a job."""
        return self._looking.queues()

    def workers(self) -> list[WorkerInfo]:
        """The registered workers, of this process and of others, each with its current jobs."""
        return self._looking.workers()

    def audit_log(
        self,
        limit: int = 100,
        *,
        since: datetime | None = None,
        before: datetime | None = None,
    ) -> list[AuditRecord]:
        """The latest administrative actions, newest first, archived ones included.

        `since` (inclusive) and `before` (exclusive) narrow them to a time.
        """
        return self._looking.audit_log(
            checked.whole("limit", limit),
            since=checked.moment_or_none("since", since),
            before=checked.moment_or_none("before", before),
        )

    def audit_page(
        self,
        *,
        since: datetime | None = None,
        before: datetime | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> AuditPage:
        """A part of the audit log, newest first, and the cursor with which to ask for the next.

        >>> from leasehold import TaskQueue
        >>> queue = TaskQueue("memory://", num_workers=0)
        >>> _ = queue.create_queue("mail"), queue.pause_queue("mail")
        >>> page = queue.audit_page(limit=1)
        >>> [record.action for record in page.records]
        ['pause_queue']
        >>> [each.action for each in queue.audit_page(cursor=page.next_cursor).records]
        ['create_queue']
        """
        return self._looking.audit_page(
            since=checked.moment_or_none("since", since),
            before=checked.moment_or_none("before", before),
            limit=checked.whole("limit", limit),
            cursor=checked.text_or_none("cursor", cursor),
        )

    def changes(self, cursor: str | None = None, *, limit: int = 1000) -> Changes:
        """The changes after a cursor, in order; without one, only the cursor to begin with.

        Where `gap` is true, changes may have been missed: read everything again, then continue.

        >>> from leasehold import TaskQueue
        >>> queue = TaskQueue("memory://", num_workers=0)
        >>> start = queue.changes().cursor
        >>> _ = queue.submit("mail", "a@b.c", job_id="letter")
        >>> [(each.name, each.status.value) for each in queue.changes(start).changes]
        [('letter', 'pending')]
        """
        return self._looking.changes(
            checked.text_or_none("cursor", cursor), limit=checked.whole("limit", limit)
        )

    def output_paths(self, job: JobRef, attempt: int | None = None) -> tuple[str, str] | None:
        """The files with a command's stdout and stderr, of its latest attempt or an earlier one.

        They are on the machine whose worker ran it. None for another kind of job, and for an
        attempt that was not made.
        """
        return self._looking.output_paths(job, checked.whole_or_none("attempt", attempt))

    def cancel(self, job: JobRef, reason: str = "") -> Job:
        """Cancel a job: at once if it waits; if it runs, as soon as its code stops.

        Raises InvalidTransitionError if it has already ended.
        """
        return self._orders.cancel(job, checked.text("reason", reason))

    def cancel_many(
        self,
        where: JobFilter | None = None,
        /,
        *,
        reason: str = "",
        everything: bool = False,
        **fields: Unpack[FilterFields],
    ) -> int:
        """Cancel every waiting or running job that matches; returns how many.

        Without a filter it raises InvalidFilterError, unless you pass `everything=True`.
        """
        return self._orders.cancel_many(
            checked.instance_or_none("where", where, JobFilter),
            reason=checked.text("reason", reason),
            everything=checked.flag("everything", everything),
            **fields,
        )

    def reprioritize(self, job: JobRef, priority: PriorityLike) -> Job:
        """Change a waiting job's priority; it keeps its place in time."""
        return self._orders.reprioritize(job, priority)

    def replay(self, job: JobRef, *, reset_attempts: bool = False) -> Job:
        """Give a dead or cancelled job another chance: one more attempt, or all of them again."""
        return self._orders.replay(
            job, reset_attempts=checked.flag("reset_attempts", reset_attempts)
        )

    retry = replay

    def discard(self, job: JobRef) -> Job:
        """Delete a job that has ended, with all its records; returns its last snapshot."""
        return self._orders.discard(job)

    def cancel_each(self, jobs: Iterable[JobRef], reason: str = "") -> list[Answer]:
        """`cancel` several jobs, in bounded writes; one answer each, in order."""
        return self._orders.cancel_each(
            checked.several("jobs", jobs), checked.text("reason", reason)
        )

    def replay_each(self, jobs: Iterable[JobRef], *, reset_attempts: bool = False) -> list[Answer]:
        """`replay` several jobs, in bounded writes; one answer each, in order."""
        return self._orders.replay_each(
            checked.several("jobs", jobs),
            reset_attempts=checked.flag("reset_attempts", reset_attempts),
        )

    def discard_each(self, jobs: Iterable[JobRef]) -> list[Answer]:
        """`discard` several jobs, in bounded writes; one answer each, in order."""
        return self._orders.discard_each(checked.several("jobs", jobs))

    def reprioritize_each(self, jobs: Iterable[JobRef], priority: PriorityLike) -> list[Answer]:
        """`reprioritize` several jobs; one answer each, in order."""
        return self._orders.reprioritize_each(checked.several("jobs", jobs), priority)

    def lease(
        self,
        queue: str | Sequence[str] | None = None,
        worker: str | None = None,
        tasks: Sequence[TaskLike] | None = None,
        wait: Seconds = WAIT_SECONDS,
        *,
        lease_seconds: Seconds | None = None,
        parent: JobRef | None = None,
    ) -> Lease | None:
        """Take the best available job, waiting up to `wait` seconds for one; None if there is none.

        It is yours until its lease expires: `ack` or `nack` it, and until then `extend` it, or let
        `keep_alive` do so. `lease_seconds` takes precedence over the values of the job, its queue
        and the settings.

        A consumer that leases is in the registry of workers, under the name `worker` (by default
        that of this process), until this queue is shut down, or until it holds no job and has
        neither leased nor renewed for two minutes.
        """
        return self._consuming.lease(
            checked.texts_or_none("queue", queue),
            checked.text_or_none("worker", worker),
            checked.several_or_none("tasks", tasks),
            wait,
            lease_seconds=lease_seconds,
            parent=parent,
        )

    def lease_many(
        self,
        limit: int,
        queue: str | Sequence[str] | None = None,
        worker: str | None = None,
        tasks: Sequence[TaskLike] | None = None,
        wait: Seconds = WAIT_SECONDS,
        *,
        lease_seconds: Seconds | None = None,
        parent: JobRef | None = None,
    ) -> list[Lease]:
        """Take up to `limit` of the best available jobs, waiting for the first of them."""
        return self._consuming.lease_many(
            checked.whole("limit", limit),
            checked.texts_or_none("queue", queue),
            checked.text_or_none("worker", worker),
            checked.several_or_none("tasks", tasks),
            wait,
            lease_seconds=lease_seconds,
            parent=parent,
        )

    def arguments(self, lease: Lease) -> tuple[Sequence[Any], dict[str, Any]]:
        """The call a leased job asks for, rebuilt by its task's hints where the code is here."""
        return self._consuming.arguments(lease)

    def ack(self, lease: Lease, result: Any = None, *, note: Any = None) -> Settled:
        """The job is done. Raises LeaseLostError if the lease is no longer yours."""
        return self._consuming.ack(lease, result, note=note)

    def nack(
        self,
        lease: Lease,
        error: BaseException | str = "",
        *,
        requeue: bool | None = None,
        retry_after: Seconds | None = None,
    ) -> Settled:
        """The attempt failed; the answer says whether, and when, there will be another one.

        By default, the standard lists decide which exceptions are worth another try; `requeue` and
        `retry_after` override them. With `requeue=False` the job is dead at once. `retry_after`
        overrules its backoff. It counts as a failure for the task's circuit breaker, if the task is
        here.
        """
        return self._consuming.nack(
            lease, error, requeue=checked.flag_or_none("requeue", requeue), retry_after=retry_after
        )

    def keep_alive(self, lease: Lease, *, on_lost: OnLost | None = None) -> KeepAlive:
        """Renew a lease in the background while a block runs: `with queue.keep_alive(lease):`.

        `async with` does the same. Raises LeaseLostError at the start if the lease is over. If it
        is lost later, `is_lost` of the object that the block gets becomes true, and `on_lost` is
        called from another thread: then stop, and leave the job to its new holder. It ends with the
        block, or when the lease is settled inside. Leases that one consumer keeps in several
        threads share one heartbeat.
        """
        return self._consuming.keep_alive(
            lease, on_lost=checked.function_or_none("on_lost", on_lost)
        )

    def extend(self, lease: Lease, seconds: Seconds | None = None) -> Renewed:
        """Keep a lease for this many seconds from now (by default, its own length).

        The answer says when it ends, when to extend it next, and whether to stop.
        """
        return self._consuming.extend(lease, seconds)

    def heartbeat(self, leases: Iterable[Lease]) -> list[Renewed | LeaseLostError]:
        """Keep many leases of one worker alive in one write; one answer each, in order."""
        return self._consuming.heartbeat(checked.each("leases", leases, Lease))

    def peek(self, queue: str | None = None, limit: int = 1) -> list[Job]:
        """The jobs that would be leased next, without leasing them.

        Jobs that wait for a slot of their key are not among them.
        """
        return self._consuming.peek(
            checked.text_or_none("queue", queue), checked.whole("limit", limit)
        )

    def requeue(self, job: Lease | JobRef, *, delay: Seconds = 0.0, reason: str = "") -> None:
        """Hand a leased job back, with no attempt spent; or replay a dead or cancelled one."""
        self._consuming.requeue(job, delay=delay, reason=checked.text("reason", reason))

    def lease_request(
        self,
        limit: int,
        queue: str | Sequence[str] | None,
        worker: str | None,
        tasks: Sequence[TaskLike] | None,
        lease_seconds: Seconds | None = None,
        parent: JobRef | None = None,
    ) -> LeaseRequest:
        """The request that a lease call sends to the store."""
        return self._consuming.lease_request(
            checked.whole("limit", limit),
            checked.texts_or_none("queue", queue),
            checked.text_or_none("worker", worker),
            checked.several_or_none("tasks", tasks),
            lease_seconds,
            parent,
        )

    def try_lease(self, request: LeaseRequest) -> Exchange:
        """Lease what is available now, without waiting."""
        return self._consuming.try_lease(request)

    def hand_back(self, leases: Sequence[Lease]) -> None:
        """Release leases whose caller left before it had them, with no attempt spent."""
        self._consuming.hand_back(leases)

    def create_queue(
        self, name: str, *, if_exists: IfExists = "error", **options: Unpack[QueueOptions]
    ) -> QueueInfo:
        """Give a new queue its rules: `create_queue("mail", max_concurrency=5)`.

        Doing it again with the same rules changes nothing. If it has different rules by now,
        `if_exists` decides: "error" raises QueueExistsError, which names them; "keep" leaves them
        unchanged; "update" sets these, and removes rules that are not named. A program that creates
        its queues when it starts should use "keep" if operators may change the rules meanwhile, and
        "update" if the code should prevail.

        The rules are the fields of `QueueConfig`: max_depth, max_concurrency, rate_per_second,
        client_rate_per_second, key_concurrency, key_rate_per_second, starts_per_second,
        key_starts_per_second, lease_seconds, max_retries, retry, aging_factor, max_aging_bonus,
        retry_penalty, deadline_weight, deadline_horizon, rebalance_interval, fifo_mode,
        max_priority and retention.
        """
        return self._queues.create_queue(checked.text("name", name), if_exists=if_exists, **options)

    def update_queue(self, name: str, **changes: Unpack[QueueOptions]) -> QueueInfo:
        """Change the named rules of a queue; None removes a rule.

        Running workers in all processes follow at once.
        """
        return self._queues.update_queue(checked.text("name", name), **changes)

    def queue_config(self, name: str) -> QueueConfig:
        """A queue's rules; raises QueueNotFoundError for an unknown queue."""
        return self._queues.queue_config(checked.text("name", name))

    def queue_info(self, name: str) -> QueueInfo:
        """A queue's rules and state, and how many of its jobs are pending and running."""
        return self._queues.queue_info(checked.text("name", name))

    def key_info(self, name: str, limit_key: str) -> KeyInfo:
        """How many jobs of a limit key run in a queue, and when the next of them may start."""
        return self._queues.key_info(
            checked.text("name", name), checked.text("limit_key", limit_key)
        )

    def list_queues(self) -> list[QueueInfo]:
        """Every queue that was created or ever held a job: rules, state and counts, by name."""
        return self._queues.list_queues()

    def pause_queue(self, name: str) -> QueueInfo:
        """Stop leasing jobs of a queue. It still accepts jobs, and running jobs continue."""
        return self._queues.pause_queue(checked.text("name", name))

    def resume_queue(self, name: str) -> QueueInfo:
        """Resume leasing from a paused queue, or let a draining one accept jobs again."""
        return self._queues.resume_queue(checked.text("name", name))

    def drain_queue(self, name: str) -> QueueInfo:
        """Stop accepting jobs in a queue; the jobs in it still run."""
        return self._queues.drain_queue(checked.text("name", name))

    def purge_queue(
        self, name: str, where: JobFilter | None = None, /, **fields: Unpack[FilterFields]
    ) -> int:
        """Delete the waiting jobs of a queue, or the matching ones; returns their number.

        Running and ended jobs stay. For jobs that depend on a deleted one, it counts as cancelled:
        by their `on_dependency_failure` they are cancelled, fail, or continue.
        """
        return self._queues.purge_queue(
            checked.text("name", name),
            checked.instance_or_none("where", where, JobFilter),
            **fields,
        )

    def delete_queue(self, name: str, *, force: bool = False) -> int:
        """Delete a queue, with its rules and state. Raises QueueNotEmptyError if it has jobs.

        With `force`, waiting jobs become dead letters, with the reason, and running jobs may
        finish. Returns how many became dead letters.
        """
        return self._queues.delete_queue(
            checked.text("name", name), force=checked.flag("force", force)
        )

    def why(self, job: JobRef) -> Reason:
        """Why a job is not running: the first reason that applies.

        It reads several things one after another, so the answer is as of a moment ago.
        """
        return self._queues.why(job)

    def metrics(
        self, queue: str | None = None, window_seconds: Seconds = WINDOW_SECONDS
    ) -> QueueMetrics:
        """The present state of a queue, or of all of them, and what happened in the window before.

        Raises InvalidWindowError for more than 48 hours, and QueueNotFoundError for a queue that
        does not exist. No job is scanned for it.
        """
        return self._metrics.metrics(checked.text_or_none("queue", queue), window_seconds)

    def metrics_by_queue(
        self,
        window_seconds: Seconds = WINDOW_SECONDS,
        *,
        durations: Sequence[DurationName] | None = None,
    ) -> list[QueueMetrics]:
        """The same for every queue, by name: one call, however many there are.

        With `durations`, only those are returned (`["wait"]`), which is faster with hundreds of
        queues.
        """
        return self._metrics.metrics_by_queue(window_seconds, durations=durations)

    def series(self, queue: str | None = None, minutes: int = 60) -> list[MinutePoint]:
        """The figures of each of the latest minutes, oldest first, ending with the current one."""
        return self._metrics.series(
            checked.text_or_none("queue", queue), checked.whole("minutes", minutes)
        )

    def daily(self, queue: str | None = None, days: int = 30) -> list[DayPoint]:
        """The figures of each of the latest days (UTC), oldest first; the last is today."""
        return self._metrics.daily(
            checked.text_or_none("queue", queue), checked.whole("days", days)
        )

    def timeline(
        self,
        metrics: str | Sequence[str],
        queue: str | None = None,
        *,
        since: datetime | timedelta = timedelta(hours=1),
        until: datetime | None = None,
        resolution: ResolutionName = "minute",
    ) -> Timeline:
        """Any metrics, by name, for each minute or day of a period, oldest first.

        `since` is a time, or how long before now. A value is None if it is unknown: before
        `known_since`, and for a percentile of a minute in which nothing was measured. Raises
        InvalidWindowError for an unknown metric and for more than 2,880 points.
        """
        return self._metrics.timeline(
            checked.texts("metrics", metrics),
            checked.text_or_none("queue", queue),
            since=since,
            until=checked.moment_or_none("until", until),
            resolution=resolution,
        )

    def failures(
        self, queue: str | None = None, *, task: str | None = None, limit: int = 20
    ) -> list[Failure]:
        """The failures, the most frequent first: how often, since when, and in which jobs.

        Errors that differ only in numbers, ids and addresses are the same failure. Failures outlive
        their jobs; the 1,000 most significant failures of a store are kept.
        """
        return self._metrics.failures(
            checked.text_or_none("queue", queue),
            task=checked.text_or_none("task", task),
            limit=checked.whole("limit", limit),
        )

    def worker_totals(self, *, limit: int = 100) -> list[WorkerTotals]:
        """The totals of each worker, alive or gone, ordered by leases, most first.

        The 500 most recently active workers are kept.
        """
        return self._metrics.worker_totals(limit=checked.whole("limit", limit))

    def estimated_start(self, job: JobRef) -> datetime | None:
        """When a waiting job will probably be leased, at the rate of the latest minutes.

        For a pending job it uses the position, which it has to count, so do not call it in a loop.
        A delayed job starts when it is due at the earliest. None for a job that is not waiting or
        is blocked, while its queue is paused, and if no job of the queue was leased recently.
        """
        return self._metrics.estimated_start(job)

    def prune(
        self,
        *,
        force: bool = False,
        emergency: bool = False,
        dead: bool = False,
        on_progress: Callable[[CleanUp], None] | None = None,
    ) -> CleanUp | None:
        """Archive and delete jobs that ended longer ago than the retention policy keeps them.

        Workers do this automatically once a day, and the same rule applies here: it returns None if
        the last clean-up is less than a day old, or there is not enough to clean. `force` cleans up
        now. `emergency` removes every completed and cancelled job, of any age, and does not pause
        for others; dead letters stay, unless you pass `dead=True`.

        `on_progress` is called after each write with the current record of the clean-up.
        """
        return self._retention.prune(
            force=checked.flag("force", force),
            emergency=checked.flag("emergency", emergency),
            dead=checked.flag("dead", dead),
            on_progress=checked.function_or_none("on_progress", on_progress),
        )

    def cleanups(self, limit: int = 100) -> list[CleanUp]:
        """The records of the latest clean-ups, newest first: who, when, how many, how long."""
        return self._retention.cleanups(checked.whole("limit", limit))

    def now(self) -> datetime:
        """The store's clock, which never steps back; every time in a job is one of its times."""
        return self._upkeep.now()

    def sweep(self) -> SweepReport:
        """Take back every job whose lease has expired or whose holder is proved dead, now.

        Workers do this regularly; call it if there are none, or if you do not want to wait.

        >>> from leasehold import TaskQueue
        >>> queue = TaskQueue("memory://", num_workers=0)
        >>> queue.sweep().recovered
        0
        """
        return self._upkeep.sweep()

    def stop_worker(self, worker: str) -> WorkerInfo:
        """Ask a worker on any machine to stop.

        It leases no more jobs, finishes those it runs within its grace, and hands back the rest.

        It learns of this when it contacts the store: at once if it waits for jobs, at its next
        heartbeat if all its slots are taken. Raises WorkerNotFoundError if no such worker is
        registered, UnsupportedError for a consumer, which leases in a loop of its own.
        """
        return self._upkeep.stop_worker(checked.text("worker", worker))

    def mark_deploy(self, version: str, text: str = "") -> Pin:
        """Record that a version was deployed now: the dashboard marks it, and failures since then.

        Repeating it changes nothing: every process of the version may call this.

        >>> from leasehold import TaskQueue
        >>> queue = TaskQueue("memory://", num_workers=0)
        >>> queue.mark_deploy("v1.2", "new checkout").name
        'v1.2'
        >>> [mark.name for mark in queue.deploys()]
        ['v1.2']
        """
        return self._upkeep.mark_deploy(
            checked.text("version", version), checked.text("text", text)
        )

    def deploys(self) -> list[Pin]:
        """The deploy marks, the oldest first; the latest 200 are kept."""
        return self._upkeep.deploys()

    def forget_deploy(self, version: str) -> bool:
        """Delete a deploy mark; False if there is none of that version."""
        return self._upkeep.forget_deploy(checked.text("version", version))

    def stuck(
        self, silent_seconds: Seconds | None = 120.0, running_seconds: Seconds | None = None
    ) -> list[StuckJob]:
        """Running jobs without a heartbeat for this long, or running for this long.

        The longest silent come first. None disables either rule.
        """
        return self._upkeep.stuck(silent_seconds, running_seconds)

    def requeue_stuck(
        self,
        silent_seconds: Seconds | None = 120.0,
        running_seconds: Seconds | None = None,
        *,
        reset_attempts: bool = False,
    ) -> RequeueReport:
        """Take the stuck jobs from their holders, so that they run again; see `Supervisor`.

        Each leaves an audit record.

        >>> from leasehold import TaskQueue
        >>> queue = TaskQueue("memory://", num_workers=0)
        >>> _ = queue.submit("mail", "a@b.c", job_id="letter")
        >>> lease = queue.lease(worker="me")
        >>> [each.job.job_id for each in queue.requeue_stuck(silent_seconds=0).requeued]
        ['letter']
        """
        return self._upkeep.requeue_stuck(
            silent_seconds,
            running_seconds,
            reset_attempts=checked.flag("reset_attempts", reset_attempts),
        )

    def lost_workers(self) -> list[str]:
        """Workers that are proved dead and whose jobs the next sweep takes back, by id.

        Empty on a store that cannot prove death: there, jobs wait for their lease to end.
        """
        return self._upkeep.lost_workers()

    def check(self) -> list[str]:
        """Look for damage and broken invariants; returns the problems found."""
        return self._upkeep.check()

    def repair_clock(self) -> ClockRepair:
        """Set the store's clock back to the wall clock, which was once far ahead.

        Refused while workers live or jobs run; see docs/leases.md, "Clocks".
        """
        return self._upkeep.repair_clock()

    def backup(self, path: str | os.PathLike[str], *, replace: bool = False) -> None:
        """Write a consistent copy of the store while it is in use.

        An existing file is replaced only with `replace`, in one step, when the copy is complete.
        """
        self._upkeep.backup(checked.path("path", path), replace=checked.flag("replace", replace))

    def describe(self) -> Mapping[str, Any]:
        """A description of the store: kind, place, durability, versions."""
        return self._upkeep.describe()

    def codec_for(self, task: str) -> CallCodec:
        """The task's own codec, or one without type hints if its code is not here."""
        return self._codecs.codec_for(checked.text("task", task))
