# ruff: noqa: ASYNC109 - a timeout means the same here as in the calls that block.
"""The awaitable faces, made by `make faces` from the classes that block: do not edit."""

from __future__ import annotations

import os
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, TypeVar, Unpack, overload

from leasehold.aio.awaited import AsyncItems, Awaited, refused_in_plain_code
from leasehold.blobs.place import BlobPlace
from leasehold.codec import CallCodec
from leasehold.connect import Durability
from leasehold.core.contract.clock_store import ClockRepair
from leasehold.core.contract.store import Store
from leasehold.core.contract.transactions import Connection, OwnConnection
from leasehold.core.model.archive import ArchivedJob
from leasehold.core.model.breaker import Breaker
from leasehold.core.model.changes import Changes
from leasehold.core.model.durations import Seconds
from leasehold.core.model.failure import Failure
from leasehold.core.model.graph import Graph
from leasehold.core.model.history import Attempt, HistoryEvent
from leasehold.core.model.job import DependencyPolicy, Draft, Job, MetadataValue, PriorityLike
from leasehold.core.model.joblog import JobLog
from leasehold.core.model.key_limits import KeyInfo
from leasehold.core.model.lease import Lease, Renewed, Settled, StuckJob, SweepReport
from leasehold.core.model.outcome import JobError
from leasehold.core.model.pages import AuditPage, HistoryPage, LogPage
from leasehold.core.model.pins import Pin
from leasehold.core.model.queue_config import QueueConfig, QueueInfo
from leasehold.core.model.reason import Reason
from leasehold.core.model.records import AuditRecord, WorkerInfo, WorkerTotals
from leasehold.core.model.retention import CleanUp, RetentionPolicy
from leasehold.core.model.retry import Backoff
from leasehold.core.model.schedule import Schedule
from leasehold.core.model.search import Count, HeavyField, JobFilter, Page
from leasehold.core.model.settings import SettingValue
from leasehold.core.model.status import Status
from leasehold.core.model.timing import Timing
from leasehold.core.rules.filter_orders import Order
from leasehold.core.rules.metrics import (
    WINDOW_SECONDS,
    DayPoint,
    DurationName,
    MinutePoint,
    QueueMetrics,
)
from leasehold.core.rules.operations import Advance, Operation, Plan
from leasehold.core.rules.timeline import ResolutionName, Timeline
from leasehold.env import SYSTEM, Env
from leasehold.errors import LeaseholdError, LeaseLostError, StoreError
from leasehold.queue.awaiting import Bridge, wait_for_leases
from leasehold.queue.consumer import WAIT_SECONDS
from leasehold.queue.facade import TaskQueue
from leasehold.queue.filters import FilterFields
from leasehold.queue.handle import JobHandle
from leasehold.queue.life import SHUTDOWN_SECONDS
from leasehold.queue.operations import SAMPLES
from leasehold.queue.options import JobOptions, JobRef, NewJob, RetryLike
from leasehold.queue.orders import Answer
from leasehold.queue.queues import IfExists, QueueOptions
from leasehold.queue.room import Block
from leasehold.queue.scheduling import ScheduleOptions
from leasehold.queue.settings import SettingInfo
from leasehold.queue.submitting import AsyncFunction, Function
from leasehold.queue.task import BaseTask, TaskLike
from leasehold.queue.tasks import Decorator, Errors
from leasehold.queue.workflow import Workflow, WorkflowRun
from leasehold.worker.task import ExecutorKind

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from leasehold.worker.supervisor import RequeueReport

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C")


@refused_in_plain_code("job.{name}()", "queue.queue.wait(job.id)")
class AsyncJobHandle(Awaited, Generic[R]):
    """A job that was submitted, with everything about it to be awaited; see `JobHandle`."""

    __slots__ = ("_handle",)

    def __init__(self, handle: JobHandle[R], bridge: Callable[[], Bridge]) -> None:
        super().__init__(bridge)
        self._handle = handle

    def __repr__(self) -> str:
        return f"AsyncJobHandle({self.id!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AsyncJobHandle) and other._handle == self._handle

    def __hash__(self) -> int:
        return hash(self._handle)

    @property
    def id(self) -> str:
        return self._handle.id

    @property
    def is_duplicate(self) -> bool:
        """True if an earlier job with the same idempotency key was found; this handle is for that
        job.
        """
        return self._handle.is_duplicate

    async def progress(self) -> dict[str, Any] | None:
        """The progress that the task last reported by `current_job().progress(...)`."""
        return await self._call(lambda: self._handle.progress)

    async def job(self) -> Job:
        """A snapshot; raises JobNotFoundError if the job is gone."""
        return await self._call(self._handle.job)

    async def status(self) -> Status:
        return await self._call(self._handle.status)

    async def wait(self, timeout: Seconds | None = None) -> Job:
        """Wait until the job has ended, well or badly, and return its last snapshot.

        See `JobHandle.wait`.
        """
        return await self._handle.await_end(timeout)

    async def result(self, timeout: Seconds | None = None) -> R:
        """The task's return value. Waits for it.

        See `JobHandle.result`.
        """
        return await self._handle.aresult(timeout)

    async def position(self) -> int | None:
        """How many jobs of its queue are served before it; None once it is not pending."""
        return await self._call(self._handle.position)

    async def estimated_start(self) -> datetime | None:
        """When it will probably be leased; see `TaskQueue.estimated_start`."""
        return await self._call(self._handle.estimated_start)

    async def cancel(self, reason: str = "") -> Job:
        """Cancel the job: at once if it waits, as soon as its code stops if it runs."""
        return await self._call(lambda: self._handle.cancel(reason))


@refused_in_plain_code("{task}.{name}()", "queue.queue.submit({task}, ...)")
class AwaitedTask(BaseTask[P, R], Generic[P, R, C]):
    """A task of an AsyncTaskQueue: called like its function, and submits are awaited; see `Task`.

    A call gives `C`: what the function returns, or for an async function what is to be awaited.
    """

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> C:
        """Call the function itself, here and now."""
        result: C = self._definition.func(*args, **kwargs)
        return result

    async def submit(self, *args: P.args, **kwargs: P.kwargs) -> AsyncJobHandle[R]:
        """Run this call in the background."""
        handle = await self._submitting.asubmit_call(
            self, args, kwargs, block=self._block, connection=self._connection
        )
        return AsyncJobHandle(handle, self._submitting.bridge)


class AwaitedDecorator:
    """What `@queue.task(...)` of an AsyncTaskQueue is; see `Decorator`."""

    def __init__(self, decorator: Decorator) -> None:
        self._decorator = decorator

    @overload
    def __call__(
        self, func: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AwaitedTask[P, R, Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(self, func: Callable[P, R], /) -> AwaitedTask[P, R, R]: ...
    def __call__(self, func: Callable[..., Any], /) -> Any:
        """The function as a task."""
        return _awaited(self._decorator(func))


@refused_in_plain_code("run.{name}()", "queue.queue.wait(job.id)")
class AsyncWorkflowRun(Awaited, Mapping[str, AsyncJobHandle[Any]]):
    """A workflow that was submitted: its jobs' handles by name; see `WorkflowRun`."""

    def __init__(self, run: WorkflowRun, bridge: Callable[[], Bridge]) -> None:
        super().__init__(bridge)
        self._run = run

    def __repr__(self) -> str:
        return f"Async{self._run!r}"

    def __getitem__(self, name: str) -> AsyncJobHandle[Any]:
        return AsyncJobHandle(self._run[name], self._bridge)

    def __iter__(self) -> Iterator[str]:
        return iter(self._run)

    def __len__(self) -> int:
        return len(self._run)

    @property
    def id(self) -> str:
        """The `parent_id` of its jobs."""
        return self._run.id

    @property
    def last(self) -> AsyncJobHandle[Any]:
        """The job added last: the end of a chain, or the callback of a group."""
        return AsyncJobHandle(self._run.last, self._bridge)

    async def statuses(self) -> dict[str, Status]:
        """The status of each job, by name."""
        return await self._call(self._run.statuses)

    async def graph(self) -> Graph:
        """Its jobs, and all others that they depend on or that depend on them."""
        return await self._call(self._run.graph)

    async def wait(self, timeout: Seconds | None = None) -> dict[str, Job]:
        """Wait until every job has ended, well or badly; their last snapshots, by name."""
        return await self._run.await_end(timeout)

    async def cancel(self, reason: str = "") -> int:
        """Cancel all its jobs that have not ended; returns how many."""
        return await self._call(lambda: self._run.cancel(reason))

    async def replay(self, *, reset_attempts: bool = False) -> int:
        """Replay the failed jobs, and all that ended because of them; returns how many jobs."""
        return await self._call(lambda: self._run.replay(reset_attempts=reset_attempts))


@refused_in_plain_code("queue.schedules.{name}()", "queue.queue.schedules.{name}(...)")
class AsyncSchedules(Awaited):
    """`queue.schedules` with everything to be awaited; see `Schedules`."""

    def __init__(self, queue: TaskQueue) -> None:
        super().__init__(queue.bridge)
        self._queue = queue

    def __aiter__(self) -> AsyncIterator[Schedule]:
        return aiter(self._each(lambda: iter(self._queue.schedules)))

    async def count(self) -> int:
        """How many there are: `len(...)` of the blocking one."""
        return await self._call(lambda: len(self._queue.schedules))

    async def list(self) -> list[Schedule]:
        """Every schedule, by name."""
        return await self._call(self._queue.schedules.list)

    async def get(self, name: str) -> Schedule:
        """A snapshot; raises ScheduleNotFoundError for an unknown name, as all of these do."""
        return await self._call(lambda: self._queue.schedules.get(name))

    async def pause(self, name: str) -> Schedule:
        """Pause it until `resume`: ticks that pass meanwhile are skipped."""
        return await self._call(lambda: self._queue.schedules.pause(name))

    async def resume(self, name: str) -> Schedule:
        """Resume it, with its next tick."""
        return await self._call(lambda: self._queue.schedules.resume(name))

    async def run(self, name: str, *, job_id: str | None = None) -> AsyncJobHandle[Any]:
        """Submit its job now, out of turn, even while it is paused. Its ticks do not change.

        See `Schedules.run`.
        """
        return AsyncJobHandle(
            await self._call(lambda: self._queue.schedules.run(name, job_id=job_id)), self._bridge
        )

    async def remove(self, name: str) -> Schedule:
        """Forget it; the jobs it has submitted stay. Returns its last snapshot."""
        return await self._call(lambda: self._queue.schedules.remove(name))


@refused_in_plain_code("queue.settings.{name}()", "queue.queue.settings.{name}(...)")
class AsyncSettings(Awaited):
    """`queue.settings` with everything to be awaited; see `Settings`."""

    def __init__(self, queue: TaskQueue) -> None:
        super().__init__(queue.bridge)
        self._queue = queue

    def __aiter__(self) -> AsyncIterator[SettingInfo]:
        return aiter(self._each(lambda: iter(self._queue.settings)))

    async def get(self, name: str) -> SettingValue:
        """The value in force in this process; raises InvalidSettingError for an unknown name."""
        return await self._call(lambda: self._queue.settings.get(name))

    async def info(self, name: str) -> SettingInfo:
        """A setting with its value, where that comes from, its default, bounds and meaning."""
        return await self._call(lambda: self._queue.settings.info(name))

    async def list(self) -> list[SettingInfo]:
        """All settings."""
        return await self._call(self._queue.settings.list)

    async def set(self, name: str, value: SettingValue | timedelta | str) -> SettingInfo:
        """Set it for all processes. A timedelta or a string ("90s", "5m", "none") is accepted too.

        See `Settings.set`.
        """
        return await self._call(lambda: self._queue.settings.set(name, value))

    async def unset(self, name: str) -> SettingInfo:
        """Return it to its default."""
        return await self._call(lambda: self._queue.settings.unset(name))


@refused_in_plain_code("queue.dead_letters.{name}()", "queue.queue.dead_letters.{name}(...)")
class AsyncDeadLetters(Awaited):
    """`queue.dead_letters` with everything to be awaited; see `DeadLetters`."""

    def __init__(self, queue: TaskQueue) -> None:
        super().__init__(queue.bridge)
        self._queue = queue

    def __aiter__(self) -> AsyncIterator[Job]:
        return aiter(self._each(lambda: iter(self._queue.dead_letters)))

    async def count(self) -> int:
        """How many there are: `len(...)` of the blocking one."""
        return await self._call(lambda: len(self._queue.dead_letters))

    def list(
        self, where: JobFilter | None = None, /, **fields: Unpack[FilterFields]
    ) -> AsyncItems[Job]:
        """The matching dead letters, last submitted first."""
        return self._each(lambda: self._queue.dead_letters.list(where, **fields))

    async def replay(
        self,
        where: JobFilter | JobRef | Iterable[JobRef] | None = None,
        /,
        *,
        reset_attempts: bool = False,
        **fields: Unpack[FilterFields],
    ) -> int:
        """Give dead letters another chance: one, several, or all that match; returns how many.

        See `DeadLetters.replay`.
        """
        return await self._call_long(
            lambda: self._queue.dead_letters.replay(where, reset_attempts=reset_attempts, **fields)
        )

    async def discard(self, *jobs: JobRef) -> int:
        """Delete these dead letters with all their records; returns how many.

        See `DeadLetters.discard`.
        """
        return await self._call_long(lambda: self._queue.dead_letters.discard(*jobs))

    async def purge(self, where: JobFilter | None = None, /, **fields: Unpack[FilterFields]) -> int:
        """Delete every matching dead letter (without a filter, all of them); returns how many."""
        return await self._call_long(lambda: self._queue.dead_letters.purge(where, **fields))


@refused_in_plain_code("queue.operations.{name}()", "queue.queue.operations.{name}(...)")
class AsyncOperations(Awaited):
    """`queue.operations` with everything to be awaited; see `Operations`."""

    def __init__(self, queue: TaskQueue) -> None:
        super().__init__(queue.bridge)
        self._queue = queue

    def __aiter__(self) -> AsyncIterator[Operation]:
        return aiter(self._each(lambda: iter(self._queue.operations)))

    async def plan(
        self, order: Order, where: JobFilter | None = None, /, **fields: Unpack[FilterFields]
    ) -> Plan:
        """Count the jobs that an order would apply to, by status; nothing is changed.

        See `Operations.plan`.
        """
        return await self._call_long(lambda: self._queue.operations.plan(order, where, **fields))

    async def samples(self, plan: Plan, limit: int = SAMPLES) -> list[Job]:
        """Some of the jobs of a plan, last submitted first, without payload and result."""
        return await self._call(lambda: self._queue.operations.samples(plan, limit))

    async def begin(self, plan: Plan) -> Operation:
        """Begin an operation; no job is changed until it is carried out.

        See `Operations.begin`.
        """
        return await self._call(lambda: self._queue.operations.begin(plan))

    async def undo(self, operation_id: str) -> Operation:
        """Begin to undo an operation; carry out the operation that this returns.

        See `Operations.undo`.
        """
        return await self._call(lambda: self._queue.operations.undo(operation_id))

    async def carry_out(
        self, operation: Operation, *, on_progress: Callable[[Advance], None] | None = None
    ) -> Operation:
        """Wait until an operation has ended, wherever it is carried out.

        See `Operations.carry_out`.
        """
        return await self._call_long(
            lambda: self._queue.operations.carry_out(operation, on_progress=on_progress)
        )

    async def stop(self, operation_id: str) -> Operation:
        """Stop an operation where it is; its changes stay, and can be undone."""
        return await self._call(lambda: self._queue.operations.stop(operation_id))

    async def resume(self, operation_id: str) -> Operation:
        """Take over an operation whose process is gone, to be carried out from where it is.

        See `Operations.resume`.
        """
        return await self._call(lambda: self._queue.operations.resume(operation_id))

    async def get(self, operation_id: str) -> Operation:
        """An operation as it is now; raises OperationNotFoundError for an unknown id."""
        return await self._call(lambda: self._queue.operations.get(operation_id))


@refused_in_plain_code("queue.archive.{name}()", "queue.queue.archive.{name}(...)")
class AsyncArchive(Awaited):
    """`queue.archive` with everything to be awaited; see `Archive`."""

    def __init__(self, queue: TaskQueue) -> None:
        super().__init__(queue.bridge)
        self._queue = queue

    async def get(self, job: JobRef) -> ArchivedJob:
        """The summary of a pruned job; raises JobNotFoundError if there is none."""
        return await self._call(lambda: self._queue.archive.get(job))

    def search(
        self,
        where: JobFilter | None = None,
        /,
        *,
        first_day: date | None = None,
        last_day: date | None = None,
        run_seconds_min: float | None = None,
        run_seconds_max: float | None = None,
        slowest_first: bool = False,
        **fields: Unpack[FilterFields],
    ) -> AsyncItems[ArchivedJob]:
        """All archived jobs that match, latest archived first; fetched page by page as you go.

        See `Archive.search`.
        """
        return self._each(
            lambda: self._queue.archive.search(
                where,
                first_day=first_day,
                last_day=last_day,
                run_seconds_min=run_seconds_min,
                run_seconds_max=run_seconds_max,
                slowest_first=slowest_first,
                **fields,
            )
        )


@refused_in_plain_code("queue.{name}()", "queue.queue.{name}(...)")
class AsyncQueueCalls(Awaited):
    """What of an `AsyncTaskQueue` is derived from `TaskQueue`."""

    def __init__(
        self,
        url: str | os.PathLike[str] | Store,
        *,
        num_workers: int = 4,
        autostart: bool | None = None,
        queues: str | Sequence[str] | None = None,
        poll_interval: Seconds | None = None,
        lease_seconds: Seconds | Literal["auto"] | None = None,
        heartbeat_interval: Seconds | None = None,
        heartbeat_failure_threshold: int | None = None,
        sweep_interval: Seconds | None = None,
        enable_recovery: bool = True,
        durability: Durability | None = None,
        retention: RetentionPolicy | None = None,
        blobs: BlobPlace = None,
        import_tasks: Iterable[str] = (),
        allow_commands: bool = False,
        output_dir: str | os.PathLike[str] | None = None,
        pickle_key: bytes | None = None,
        actor: str = "python",
        client: str | None = None,
        env: Env = SYSTEM,
        on_submit: Callable[[Draft], None] | None = None,
        on_start: Callable[[Lease], None] | None = None,
        on_success: Callable[[Lease, Settled], None] | None = None,
        on_failure: Callable[[Lease, Settled, JobError], None] | None = None,
        on_dead: Callable[[Lease, Settled, JobError], None] | None = None,
        on_lease_lost: Callable[[Lease, LeaseLostError | StoreError], None] | None = None,
        on_progress: Callable[[Lease, dict[str, Any]], None] | None = None,
    ) -> None:
        queue = TaskQueue(
            url,
            num_workers=num_workers,
            autostart=autostart,
            queues=queues,
            poll_interval=poll_interval,
            lease_seconds=lease_seconds,
            heartbeat_interval=heartbeat_interval,
            heartbeat_failure_threshold=heartbeat_failure_threshold,
            sweep_interval=sweep_interval,
            enable_recovery=enable_recovery,
            durability=durability,
            retention=retention,
            blobs=blobs,
            import_tasks=import_tasks,
            allow_commands=allow_commands,
            output_dir=output_dir,
            pickle_key=pickle_key,
            actor=actor,
            client=client,
            env=env,
            on_submit=on_submit,
            on_start=on_start,
            on_success=on_success,
            on_failure=on_failure,
            on_dead=on_dead,
            on_lease_lost=on_lease_lost,
            on_progress=on_progress,
        )
        super().__init__(queue.bridge)
        self.queue = queue
        """The queue underneath, for what blocks for good reason (`run_worker`)."""
        self.load_tasks = queue.load_tasks
        self.start = queue.start
        self.keep_alive = queue.keep_alive
        self.schedules = AsyncSchedules(queue)
        self.settings = AsyncSettings(queue)
        self.dead_letters = AsyncDeadLetters(queue)
        self.operations = AsyncOperations(queue)
        self.archive = AsyncArchive(queue)

    @overload
    def task(
        self, func: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AwaitedTask[P, R, Coroutine[Any, Any, R]]: ...
    @overload
    def task(self, func: Callable[P, R], /) -> AwaitedTask[P, R, R]: ...
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
    ) -> AwaitedDecorator: ...
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

        See `TaskQueue.task`.
        """
        make: Any = self.queue.task
        made: Any = _awaited(
            make(
                func,
                name=name,
                aliases=aliases,
                retry=retry,
                executor=executor,
                permanent=permanent,
                retryable=retryable,
                breaker=breaker,
                **options,
            )
        )
        return made

    @overload
    async def submit(
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
    ) -> AsyncJobHandle[R]: ...
    @overload
    async def submit(
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
    ) -> AsyncJobHandle[R]: ...
    @overload
    async def submit(
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
    ) -> AsyncJobHandle[Any]: ...
    async def submit(self, func: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Run `func(*args, **kwargs)` in the background, as soon as its options allow.

        See `TaskQueue.submit`.
        """
        return AsyncJobHandle(await self.queue.asubmit(func, *args, **kwargs), self._bridge)

    @overload
    async def submit_many(
        self,
        jobs: Iterable[NewJob],
        *,
        partial: Literal[False] = False,
        block: Block = False,
        connection: OwnConnection | None = None,
    ) -> list[AsyncJobHandle[Any]]: ...
    @overload
    async def submit_many(
        self,
        jobs: Iterable[NewJob],
        *,
        partial: Literal[True],
        connection: OwnConnection | None = None,
    ) -> list[AsyncJobHandle[Any] | LeaseholdError]: ...
    async def submit_many(
        self,
        jobs: Iterable[NewJob],
        *,
        partial: bool = False,
        block: Block = False,
        connection: OwnConnection | None = None,
    ) -> list[Any]:
        """Submit many jobs in one write: all or nothing.

        See `TaskQueue.submit_many`.
        """
        if not partial:
            handles = await self.queue.asubmit_many(jobs, block=block, connection=connection)
            return [AsyncJobHandle(handle, self._bridge) for handle in handles]
        answers = await self._call_within(
            connection, lambda: self.queue.submit_many(jobs, partial=True, connection=connection)
        )
        return [
            answer if isinstance(answer, LeaseholdError) else AsyncJobHandle(answer, self._bridge)
            for answer in answers
        ]

    async def submit_command(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str | None = None,
        connection: OwnConnection | None = None,
        **options: Unpack[JobOptions],
    ) -> AsyncJobHandle[Any]:
        """Run a command in the background: a list of arguments, or a string for the shell.

        See `TaskQueue.submit_command`.
        """
        return AsyncJobHandle(
            await self._call_within(
                connection,
                lambda: self.queue.submit_command(
                    command, cwd=cwd, env=env, stdin=stdin, connection=connection, **options
                ),
            ),
            self._bridge,
        )

    async def check_job(self, job: NewJob) -> None:
        """Raise the errors that submitting this job alone would raise; store nothing.

        See `TaskQueue.check_job`.
        """
        await self._call(lambda: self.queue.check_job(job))

    async def own_id(self, queue: str, name: str) -> str:
        """An id generated here for the job."""
        return await self._call(lambda: self.queue.own_id(queue, name))

    async def schedule(
        self,
        name: str,
        task: BaseTask[..., Any] | Callable[..., Any] | str,
        timing: Timing,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> Schedule:
        """Run a task at every tick of `timing`: `Cron(...)` or `Every(...)`.

        See `TaskQueue.schedule`.
        """
        return await self._call(
            lambda: self.queue.schedule(name, task, timing, args, kwargs, **options)
        )

    async def schedule_command(
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

        See `TaskQueue.schedule_command`.
        """
        return await self._call(
            lambda: self.queue.schedule_command(
                name, command, timing, cwd=cwd, env=env, stdin=stdin, **options
            )
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
    ) -> AwaitedDecorator:
        """Make a function a task that runs at an interval: `@queue.every(60)`, `every("1h")`.

        See `TaskQueue.every`.
        """
        make: Any = self.queue.every
        made: AwaitedDecorator = _awaited(
            make(seconds, starting=starting, name=name, args=args, kwargs=kwargs, **options)
        )
        return made

    def cron(
        self,
        expression: str,
        *,
        zone: str | ZoneInfo = "UTC",
        name: str | None = None,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> AwaitedDecorator:
        """Make a function a task that runs by a cron expression; see `every` and `Cron`."""
        make: Any = self.queue.cron
        made: AwaitedDecorator = _awaited(
            make(expression, zone=zone, name=name, args=args, kwargs=kwargs, **options)
        )
        return made

    async def prune_schedules(self) -> list[Schedule]:
        """Remove the schedules that code declared and no longer declares; returns them.

        See `TaskQueue.prune_schedules`.
        """
        return await self._call(self.queue.prune_schedules)

    async def submit_workflow(
        self, workflow: Workflow, *, block: Block = False, connection: OwnConnection | None = None
    ) -> AsyncWorkflowRun:
        """Submit all jobs of a workflow in one write, all or nothing.

        See `TaskQueue.submit_workflow`.
        """
        run = await self.queue.asubmit_workflow(workflow, block=block, connection=connection)
        return AsyncWorkflowRun(run, self._bridge)

    async def graph(self, *jobs: JobRef) -> Graph:
        """These jobs and all jobs linked with them by dependencies, with their statuses.

        See `TaskQueue.graph`.
        """
        return await self._call(lambda: self.queue.graph(*jobs))

    async def cancel_graph(self, *jobs: JobRef, reason: str = "", linked: bool = True) -> int:
        """Cancel these jobs and all jobs linked with them, unless they have ended.

        See `TaskQueue.cancel_graph`.
        """
        return await self._call_long(
            lambda: self.queue.cancel_graph(*jobs, reason=reason, linked=linked)
        )

    async def replay_graph(self, *jobs: JobRef, reset_attempts: bool = False) -> int:
        """Replay a failed job, and all jobs that are cancelled or dead because of it.

        See `TaskQueue.replay_graph`.
        """
        return await self._call_long(
            lambda: self.queue.replay_graph(*jobs, reset_attempts=reset_attempts)
        )

    @overload
    async def wait(  # type: ignore[overload-overlap]  # A string is one id, not many letters.
        self, jobs: JobRef, timeout: Seconds | None = None
    ) -> Job: ...
    @overload
    async def wait(self, jobs: Iterable[JobRef], timeout: Seconds | None = None) -> list[Job]: ...
    async def wait(
        self, jobs: JobRef | Iterable[JobRef], timeout: Seconds | None = None
    ) -> Job | list[Job]:
        """Wait until a job, or each of several, has ended, completed or not.

        See `TaskQueue.wait`.
        """
        if isinstance(jobs, str) or not isinstance(jobs, Iterable):
            return await self.queue.await_end(jobs, timeout)
        return await self.queue.await_ends(jobs, timeout)

    async def get_result(self, job: JobRef, timeout: Seconds | None = None) -> Any:
        """The return value of the job's task. Waits for it.

        See `TaskQueue.get_result`.
        """
        return await self.queue.aget_result(job, timeout)

    async def result_of(self, job: Job, codec: CallCodec | None = None) -> Any:
        """The result in a job that has ended, or the error that says why there is none."""
        return await self.queue.aresult_of(job, codec)

    async def dependency_results(self, job: JobRef) -> dict[str, Any]:
        """The results of the job's dependencies, by id, in the order of `depends_on`.

        See `TaskQueue.dependency_results`.
        """
        return await self._call(lambda: self.queue.dependency_results(job))

    async def join(self, timeout: Seconds | None = None) -> None:
        """Wait until no job in the queues of this TaskQueue waits or runs.

        See `TaskQueue.join`.
        """
        await self.queue.ajoin(timeout)

    async def get(self, job: JobRef) -> Job:
        """A snapshot of a job; raises JobNotFoundError for an unknown id, or an archived job's."""
        return await self._call(lambda: self.queue.get(job))

    async def get_status(self, job: JobRef) -> Status:
        return await self._call(lambda: self.queue.get_status(job))

    async def payload_of(self, job: Job) -> Any:
        """A job's payload as plain JSON data, also one that is kept in a blob store."""
        return await self._call(lambda: self.queue.payload_of(job))

    async def position(self, job: JobRef) -> int | None:
        """How many pending jobs of its queue are served before this one; None if it is not pending.

        See `TaskQueue.position`.
        """
        return await self._call(lambda: self.queue.position(job))

    def search(
        self,
        where: JobFilter | None = None,
        /,
        *,
        without: Collection[HeavyField] = (),
        **fields: Unpack[FilterFields],
    ) -> AsyncItems[Job]:
        """All matching jobs, the last submitted first; fetched page by page as you iterate.

        See `TaskQueue.search`.
        """
        return self._each(lambda: self.queue.search(where, without=without, **fields))

    async def search_page(
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

        See `TaskQueue.search_page`.
        """
        return await self._call(
            lambda: self.queue.search_page(
                where, limit=limit, cursor=cursor, without=without, total=total, **fields
            )
        )

    async def count(
        self, where: JobFilter | None = None, /, **fields: Unpack[FilterFields]
    ) -> Count:
        """How many jobs match: exactly up to 10,000, beyond that "at least 10,000".

        See `TaskQueue.count`.
        """
        return await self._call(lambda: self.queue.count(where, **fields))

    async def find_ids(self, prefix: str, limit: int = 10) -> list[str]:
        """Ids of jobs with this prefix, in order, to complete a partly typed id."""
        return await self._call(lambda: self.queue.find_ids(prefix, limit))

    async def attempts(self, job: JobRef) -> list[Attempt]:
        """The job's attempts, oldest first, the running one included."""
        return await self._call(lambda: self.queue.attempts(job))

    async def history(self, job: JobRef) -> list[HistoryEvent]:
        """Everything that happened to the job, oldest first."""
        return await self._call(lambda: self.queue.history(job))

    async def history_page(
        self, job: JobRef, *, limit: int = 100, cursor: str | None = None
    ) -> HistoryPage:
        """A part of its history, and the cursor with which to ask for the next.

        See `TaskQueue.history_page`.
        """
        return await self._call(lambda: self.queue.history_page(job, limit=limit, cursor=cursor))

    async def log(self, job: JobRef) -> list[str]:
        """The lines that the job's task logged by `current_job().log(...)`: the last 1000."""
        return await self._call(lambda: self.queue.log(job))

    async def job_log(self, job: JobRef) -> JobLog:
        """The same lines with the time of each, and the number of dropped lines before them."""
        return await self._call(lambda: self.queue.job_log(job))

    async def log_page(
        self, job: JobRef, *, limit: int = 100, cursor: str | None = None
    ) -> LogPage:
        """A part of its log lines, and the cursor with which to ask for the next."""
        return await self._call(lambda: self.queue.log_page(job, limit=limit, cursor=cursor))

    async def get_queue_stats(self, queue: str | None = None) -> dict[str, int]:
        """A count per status, and the lifetime totals as `total_...`, of one queue or of all.

        See `TaskQueue.get_queue_stats`.
        """
        return await self._call(lambda: self.queue.get_queue_stats(queue))

    async def queues(self) -> list[str]:
        """The names of all queues that were created or ever held a job."""
        return await self._call(self.queue.queues)

    async def workers(self) -> list[WorkerInfo]:
        """The registered workers, of this process and of others, each with its current jobs."""
        return await self._call(self.queue.workers)

    async def audit_log(
        self,
        limit: int = 100,
        *,
        since: datetime | None = None,
        before: datetime | None = None,
    ) -> list[AuditRecord]:
        """The latest administrative actions, newest first, archived ones included.

        See `TaskQueue.audit_log`.
        """
        return await self._call(lambda: self.queue.audit_log(limit, since=since, before=before))

    async def audit_page(
        self,
        *,
        since: datetime | None = None,
        before: datetime | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> AuditPage:
        """A part of the audit log, newest first, and the cursor with which to ask for the next.

        See `TaskQueue.audit_page`.
        """
        return await self._call(
            lambda: self.queue.audit_page(since=since, before=before, limit=limit, cursor=cursor)
        )

    async def changes(self, cursor: str | None = None, *, limit: int = 1000) -> Changes:
        """The changes after a cursor, in order; without one, only the cursor to begin with.

        See `TaskQueue.changes`.
        """
        return await self._call(lambda: self.queue.changes(cursor, limit=limit))

    async def output_paths(self, job: JobRef, attempt: int | None = None) -> tuple[str, str] | None:
        """The files with a command's stdout and stderr, of its latest attempt or an earlier one.

        See `TaskQueue.output_paths`.
        """
        return await self._call(lambda: self.queue.output_paths(job, attempt))

    async def cancel(self, job: JobRef, reason: str = "") -> Job:
        """Cancel a job: at once if it waits; if it runs, as soon as its code stops.

        See `TaskQueue.cancel`.
        """
        return await self._call(lambda: self.queue.cancel(job, reason))

    async def cancel_many(
        self,
        where: JobFilter | None = None,
        /,
        *,
        reason: str = "",
        everything: bool = False,
        **fields: Unpack[FilterFields],
    ) -> int:
        """Cancel every waiting or running job that matches; returns how many.

        See `TaskQueue.cancel_many`.
        """
        return await self._call_long(
            lambda: self.queue.cancel_many(where, reason=reason, everything=everything, **fields)
        )

    async def reprioritize(self, job: JobRef, priority: PriorityLike) -> Job:
        """Change a waiting job's priority; it keeps its place in time."""
        return await self._call(lambda: self.queue.reprioritize(job, priority))

    async def replay(self, job: JobRef, *, reset_attempts: bool = False) -> Job:
        """Give a dead or cancelled job another chance: one more attempt, or all of them again."""
        return await self._call(lambda: self.queue.replay(job, reset_attempts=reset_attempts))

    retry = replay

    async def discard(self, job: JobRef) -> Job:
        """Delete a job that has ended, with all its records; returns its last snapshot."""
        return await self._call(lambda: self.queue.discard(job))

    async def cancel_each(self, jobs: Iterable[JobRef], reason: str = "") -> list[Answer]:
        """`cancel` several jobs, in bounded writes; one answer each, in order."""
        return await self._call_long(lambda: self.queue.cancel_each(jobs, reason))

    async def replay_each(
        self, jobs: Iterable[JobRef], *, reset_attempts: bool = False
    ) -> list[Answer]:
        """`replay` several jobs, in bounded writes; one answer each, in order."""
        return await self._call_long(
            lambda: self.queue.replay_each(jobs, reset_attempts=reset_attempts)
        )

    async def discard_each(self, jobs: Iterable[JobRef]) -> list[Answer]:
        """`discard` several jobs, in bounded writes; one answer each, in order."""
        return await self._call_long(lambda: self.queue.discard_each(jobs))

    async def reprioritize_each(
        self, jobs: Iterable[JobRef], priority: PriorityLike
    ) -> list[Answer]:
        """`reprioritize` several jobs; one answer each, in order."""
        return await self._call_long(lambda: self.queue.reprioritize_each(jobs, priority))

    async def lease(
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

        See `TaskQueue.lease`.
        """
        leases = await self.lease_many(
            1, queue, worker, tasks, wait, lease_seconds=lease_seconds, parent=parent
        )
        return leases[0] if leases else None

    async def lease_many(
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
        request = self.queue.lease_request(limit, queue, worker, tasks, lease_seconds, parent)
        return await wait_for_leases(
            self._bridge(),
            self.queue.ready,
            self.queue.try_lease,
            self.queue.hand_back,
            request,
            wait,
        )

    async def arguments(self, lease: Lease) -> tuple[Sequence[Any], dict[str, Any]]:
        """The call a leased job asks for, rebuilt by its task's hints where the code is here."""
        return await self._call(lambda: self.queue.arguments(lease))

    async def ack(self, lease: Lease, result: Any = None, *, note: Any = None) -> Settled:
        """The job is done. Raises LeaseLostError if the lease is no longer yours."""
        return await self._call(lambda: self.queue.ack(lease, result, note=note))

    async def nack(
        self,
        lease: Lease,
        error: BaseException | str = "",
        *,
        requeue: bool | None = None,
        retry_after: Seconds | None = None,
    ) -> Settled:
        """The attempt failed; the answer says whether, and when, there will be another one.

        See `TaskQueue.nack`.
        """
        return await self._call(
            lambda: self.queue.nack(lease, error, requeue=requeue, retry_after=retry_after)
        )

    async def extend(self, lease: Lease, seconds: Seconds | None = None) -> Renewed:
        """Keep a lease for this many seconds from now (by default, its own length).

        See `TaskQueue.extend`.
        """
        return await self._call(lambda: self.queue.extend(lease, seconds))

    async def heartbeat(self, leases: Iterable[Lease]) -> list[Renewed | LeaseLostError]:
        """Keep many leases of one worker alive in one write; one answer each, in order."""
        return await self._call(lambda: self.queue.heartbeat(leases))

    async def peek(self, queue: str | None = None, limit: int = 1) -> list[Job]:
        """The jobs that would be leased next, without leasing them.

        See `TaskQueue.peek`.
        """
        return await self._call_long(lambda: self.queue.peek(queue, limit))

    async def requeue(self, job: Lease | JobRef, *, delay: Seconds = 0.0, reason: str = "") -> None:
        """Hand a leased job back, with no attempt spent; or replay a dead or cancelled one."""
        await self._call(lambda: self.queue.requeue(job, delay=delay, reason=reason))

    async def create_queue(
        self, name: str, *, if_exists: IfExists = "error", **options: Unpack[QueueOptions]
    ) -> QueueInfo:
        """Give a new queue its rules: `create_queue("mail", max_concurrency=5)`.

        See `TaskQueue.create_queue`.
        """
        return await self._call(
            lambda: self.queue.create_queue(name, if_exists=if_exists, **options)
        )

    async def update_queue(self, name: str, **changes: Unpack[QueueOptions]) -> QueueInfo:
        """Change the named rules of a queue; None removes a rule.

        See `TaskQueue.update_queue`.
        """
        return await self._call(lambda: self.queue.update_queue(name, **changes))

    async def queue_config(self, name: str) -> QueueConfig:
        """A queue's rules; raises QueueNotFoundError for an unknown queue."""
        return await self._call(lambda: self.queue.queue_config(name))

    async def queue_info(self, name: str) -> QueueInfo:
        """A queue's rules and state, and how many of its jobs are pending and running."""
        return await self._call(lambda: self.queue.queue_info(name))

    async def key_info(self, name: str, limit_key: str) -> KeyInfo:
        """How many jobs of a limit key run in a queue, and when the next of them may start."""
        return await self._call(lambda: self.queue.key_info(name, limit_key))

    async def list_queues(self) -> list[QueueInfo]:
        """Every queue that was created or ever held a job: rules, state and counts, by name."""
        return await self._call(self.queue.list_queues)

    async def pause_queue(self, name: str) -> QueueInfo:
        """Stop leasing jobs of a queue. It still accepts jobs, and running jobs continue."""
        return await self._call(lambda: self.queue.pause_queue(name))

    async def resume_queue(self, name: str) -> QueueInfo:
        """Resume leasing from a paused queue, or let a draining one accept jobs again."""
        return await self._call(lambda: self.queue.resume_queue(name))

    async def drain_queue(self, name: str) -> QueueInfo:
        """Stop accepting jobs in a queue; the jobs in it still run."""
        return await self._call(lambda: self.queue.drain_queue(name))

    async def purge_queue(
        self, name: str, where: JobFilter | None = None, /, **fields: Unpack[FilterFields]
    ) -> int:
        """Delete the waiting jobs of a queue, or the matching ones; returns their number.

        See `TaskQueue.purge_queue`.
        """
        return await self._call_long(lambda: self.queue.purge_queue(name, where, **fields))

    async def delete_queue(self, name: str, *, force: bool = False) -> int:
        """Delete a queue, with its rules and state. Raises QueueNotEmptyError if it has jobs.

        See `TaskQueue.delete_queue`.
        """
        return await self._call_long(lambda: self.queue.delete_queue(name, force=force))

    async def why(self, job: JobRef) -> Reason:
        """Why a job is not running: the first reason that applies.

        See `TaskQueue.why`.
        """
        return await self._call(lambda: self.queue.why(job))

    async def metrics(
        self, queue: str | None = None, window_seconds: Seconds = WINDOW_SECONDS
    ) -> QueueMetrics:
        """The present state of a queue, or of all of them, and what happened in the window before.

        See `TaskQueue.metrics`.
        """
        return await self._call(lambda: self.queue.metrics(queue, window_seconds))

    async def metrics_by_queue(
        self,
        window_seconds: Seconds = WINDOW_SECONDS,
        *,
        durations: Sequence[DurationName] | None = None,
    ) -> list[QueueMetrics]:
        """The same for every queue, by name: one call, however many there are.

        See `TaskQueue.metrics_by_queue`.
        """
        return await self._call(
            lambda: self.queue.metrics_by_queue(window_seconds, durations=durations)
        )

    async def series(self, queue: str | None = None, minutes: int = 60) -> list[MinutePoint]:
        """The figures of each of the latest minutes, oldest first, ending with the current one."""
        return await self._call(lambda: self.queue.series(queue, minutes))

    async def daily(self, queue: str | None = None, days: int = 30) -> list[DayPoint]:
        """The figures of each of the latest days (UTC), oldest first; the last is today."""
        return await self._call(lambda: self.queue.daily(queue, days))

    async def timeline(
        self,
        metrics: str | Sequence[str],
        queue: str | None = None,
        *,
        since: datetime | timedelta = timedelta(hours=1),
        until: datetime | None = None,
        resolution: ResolutionName = "minute",
    ) -> Timeline:
        """Any metrics, by name, for each minute or day of a period, oldest first.

        See `TaskQueue.timeline`.
        """
        return await self._call(
            lambda: self.queue.timeline(
                metrics, queue, since=since, until=until, resolution=resolution
            )
        )

    async def failures(
        self, queue: str | None = None, *, task: str | None = None, limit: int = 20
    ) -> list[Failure]:
        """The failures, the most frequent first: how often, since when, and in which jobs.

        See `TaskQueue.failures`.
        """
        return await self._call(lambda: self.queue.failures(queue, task=task, limit=limit))

    async def worker_totals(self, *, limit: int = 100) -> list[WorkerTotals]:
        """The totals of each worker, alive or gone, ordered by leases, most first.

        See `TaskQueue.worker_totals`.
        """
        return await self._call(lambda: self.queue.worker_totals(limit=limit))

    async def estimated_start(self, job: JobRef) -> datetime | None:
        """When a waiting job will probably be leased, at the rate of the latest minutes.

        See `TaskQueue.estimated_start`.
        """
        return await self._call(lambda: self.queue.estimated_start(job))

    async def prune(
        self,
        *,
        force: bool = False,
        emergency: bool = False,
        dead: bool = False,
        on_progress: Callable[[CleanUp], None] | None = None,
    ) -> CleanUp | None:
        """Archive and delete jobs that ended longer ago than the retention policy keeps them.

        See `TaskQueue.prune`.
        """
        return await self._call_long(
            lambda: self.queue.prune(
                force=force, emergency=emergency, dead=dead, on_progress=on_progress
            )
        )

    async def cleanups(self, limit: int = 100) -> list[CleanUp]:
        """The records of the latest clean-ups, newest first: who, when, how many, how long."""
        return await self._call(lambda: self.queue.cleanups(limit))

    async def now(self) -> datetime:
        """The store's clock, which never steps back; every time in a job is one of its times."""
        return await self._call(self.queue.now)

    async def sweep(self) -> SweepReport:
        """Take back every job whose lease has expired or whose holder is proved dead, now.

        See `TaskQueue.sweep`.
        """
        return await self._call(self.queue.sweep)

    async def stop_worker(self, worker: str) -> WorkerInfo:
        """Ask a worker on any machine to stop.

        See `TaskQueue.stop_worker`.
        """
        return await self._call(lambda: self.queue.stop_worker(worker))

    async def mark_deploy(self, version: str, text: str = "") -> Pin:
        """Record that a version was deployed now: the dashboard marks it, and failures since then.

        See `TaskQueue.mark_deploy`.
        """
        return await self._call(lambda: self.queue.mark_deploy(version, text))

    async def deploys(self) -> list[Pin]:
        """The deploy marks, the oldest first; the latest 200 are kept."""
        return await self._call(self.queue.deploys)

    async def forget_deploy(self, version: str) -> bool:
        """Delete a deploy mark; False if there is none of that version."""
        return await self._call(lambda: self.queue.forget_deploy(version))

    async def stuck(
        self, silent_seconds: Seconds | None = 120.0, running_seconds: Seconds | None = None
    ) -> list[StuckJob]:
        """Running jobs without a heartbeat for this long, or running for this long.

        See `TaskQueue.stuck`.
        """
        return await self._call(lambda: self.queue.stuck(silent_seconds, running_seconds))

    async def requeue_stuck(
        self,
        silent_seconds: Seconds | None = 120.0,
        running_seconds: Seconds | None = None,
        *,
        reset_attempts: bool = False,
    ) -> RequeueReport:
        """Take the stuck jobs from their holders, so that they run again; see `Supervisor`.

        See `TaskQueue.requeue_stuck`.
        """
        return await self._call(
            lambda: self.queue.requeue_stuck(
                silent_seconds, running_seconds, reset_attempts=reset_attempts
            )
        )

    async def lost_workers(self) -> list[str]:
        """Workers that are proved dead and whose jobs the next sweep takes back, by id.

        See `TaskQueue.lost_workers`.
        """
        return await self._call(self.queue.lost_workers)

    async def check(self) -> list[str]:
        """Look for damage and broken invariants; returns the problems found."""
        return await self._call_long(self.queue.check)

    async def repair_clock(self) -> ClockRepair:
        """Set the store's clock back to the wall clock, which was once far ahead.

        See `TaskQueue.repair_clock`.
        """
        return await self._call_long(self.queue.repair_clock)

    async def backup(self, path: str | os.PathLike[str], *, replace: bool = False) -> None:
        """Write a consistent copy of the store while it is in use.

        See `TaskQueue.backup`.
        """
        await self._call_long(lambda: self.queue.backup(path, replace=replace))

    async def describe(self) -> Mapping[str, Any]:
        """A description of the store: kind, place, durability, versions."""
        return await self._call(self.queue.describe)

    async def shutdown(self, wait: bool = True, timeout: Seconds = SHUTDOWN_SECONDS) -> None:
        """Stop leasing, let running jobs finish within `timeout`, hand back the rest, and close.

        See `TaskQueue.shutdown`.
        """
        await self.queue.ashutdown(wait, timeout)

    @overload
    async def connect(self, kind: None = None) -> Connection: ...
    @overload
    async def connect(self, kind: type[C]) -> C: ...
    async def connect(self, kind: type[Any] | None = None) -> Any:
        """A connection to this queue's own database, for your own tables beside the jobs.

        See `TaskQueue.connect`.
        """
        return await self._call(lambda: self.queue.connect(kind))


def _awaited(made: Any) -> Any:
    """A task, or what makes one, as the awaitable face gives it."""
    if isinstance(made, Decorator):
        return AwaitedDecorator(made)
    return made if isinstance(made, AwaitedTask) else AwaitedTask.like(made)
