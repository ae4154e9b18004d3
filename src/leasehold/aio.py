# ruff: noqa: ASYNC109 - a timeout means the same here as in the calls that block.
"""AsyncTaskQueue: the same queue for asyncio programs. Nothing is written twice underneath.

async with AsyncTaskQueue("jobs.db") as queue:
    job = await queue.submit(resize, "cat.png", priority="high")
    await job.result(timeout=30)
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from types import TracebackType
from typing import Any, Generic, ParamSpec, Self, TypeVar, Unpack, overload

from leasehold.core.archive import ArchivedJob
from leasehold.core.graph import Graph
from leasehold.core.job import Attempt, HistoryEvent, Job, PriorityLike
from leasehold.core.joblog import JobLog
from leasehold.core.lease import Lease, Renewed, Settled, SweepReport
from leasehold.core.records import WorkerInfo
from leasehold.core.retention import CleanUp
from leasehold.core.schedule import Schedule
from leasehold.core.search import JobFilter, Page
from leasehold.core.status import Status
from leasehold.core.timing import Timing
from leasehold.core.transactions import Connection
from leasehold.errors import LeaseholdError, LeaseLostError
from leasehold.queue.asyncmetrics import AsyncMetrics
from leasehold.queue.asyncqueues import AsyncQueues
from leasehold.queue.awaiting import wait_for_leases
from leasehold.queue.consumer import WAIT_SECONDS, TaskLike
from leasehold.queue.facade import SHUTDOWN_SECONDS, TaskQueue
from leasehold.queue.filters import PAGE_SIZE, FilterFields, filter_of
from leasehold.queue.handle import JobHandle
from leasehold.queue.options import JobOptions, JobRef, NewJob
from leasehold.queue.producer import AsyncFunction, Function
from leasehold.queue.room import Block
from leasehold.queue.scheduling import ScheduleOptions
from leasehold.queue.settings import AsyncSettings
from leasehold.queue.workflow import Workflow

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")


class AsyncJobHandle(Generic[R]):
    """A job that was submitted, with everything about it to be awaited."""

    __slots__ = ("_handle",)

    def __init__(self, handle: JobHandle[R]) -> None:
        self._handle = handle

    def __repr__(self) -> str:
        return f"AsyncJobHandle({self.id!r})"

    @property
    def id(self) -> str:
        return self._handle.id

    @property
    def is_duplicate(self) -> bool:
        """True when an earlier job with the same idempotency key was found: this is that one."""
        return self._handle.is_duplicate

    async def job(self) -> Job:
        """A snapshot; raises JobNotFoundError if the job is gone."""
        return await self._handle.ajob()

    async def status(self) -> Status:
        return await self._handle.astatus()

    async def progress(self) -> dict[str, Any] | None:
        """What the task last reported."""
        return (await self.job()).progress

    async def wait(self, timeout: float | None = None) -> Job:
        """Wait until the job has ended, well or badly; see `JobHandle.wait`."""
        return await self._handle.await_end(timeout)

    async def result(self, timeout: float | None = None) -> R:
        """What the task returned; see `JobHandle.result`."""
        return await self._handle.aresult(timeout)

    async def estimated_start(self) -> datetime | None:
        """When it will probably be leased; see `TaskQueue.estimated_start`."""
        return await self._handle.aestimated_start()

    async def cancel(self, reason: str = "") -> Job:
        """Stop the job; see `JobHandle.cancel`."""
        return await self._handle.acancel(reason)


class AsyncSchedules:
    """`queue.schedules` with everything to be awaited; see `Schedules`."""

    def __init__(self, queue: TaskQueue) -> None:
        self._queue = queue

    async def list(self) -> list[Schedule]:
        return await self._queue.bridge().call(self._queue.schedules.list)

    async def get(self, name: str) -> Schedule:
        return await self._queue.bridge().call(self._queue.schedules.get, name)

    async def pause(self, name: str) -> Schedule:
        return await self._queue.bridge().call(self._queue.schedules.pause, name)

    async def resume(self, name: str) -> Schedule:
        return await self._queue.bridge().call(self._queue.schedules.resume, name)

    async def run(self, name: str) -> AsyncJobHandle[Any]:
        return AsyncJobHandle(await self._queue.bridge().call(self._queue.schedules.run, name))

    async def remove(self, name: str) -> Schedule:
        return await self._queue.bridge().call(self._queue.schedules.remove, name)


class AsyncTaskQueue(AsyncQueues, AsyncMetrics):
    """A TaskQueue whose calls are awaited. It takes the same arguments; see `TaskQueue`."""

    def __init__(self, url: Any, **options: Any) -> None:
        self.queue = TaskQueue(url, **options)
        """The queue underneath, for what blocks for good reason (`run_worker`)."""
        self.task = self.queue.task
        """`@queue.task(...)`, the same as `TaskQueue.task`; a task has `asubmit`."""
        self.every = self.queue.every
        self.cron = self.queue.cron
        self.schedules = AsyncSchedules(self.queue)
        self.settings = AsyncSettings(self.queue)
        self.start = self.queue.start

    async def __aenter__(self) -> Self:
        await self._call(self.queue.start)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.shutdown()

    async def _call(self, func: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.queue.bridge().call(func, *args, **kwargs)

    async def connect(self) -> Connection:
        """See `TaskQueue.connect`. Its own calls are not awaited: they are short."""
        return await self._call(self.queue.connect)

    # -- submitting --------------------------------------------------------------------------

    @overload
    async def submit(
        self, func: AsyncFunction[R], /, *args: Any, **kwargs: Any
    ) -> AsyncJobHandle[R]: ...
    @overload
    async def submit(
        self, func: Function[R], /, *args: Any, **kwargs: Any
    ) -> AsyncJobHandle[R]: ...
    @overload
    async def submit(self, func: str, /, *args: Any, **kwargs: Any) -> AsyncJobHandle[Any]: ...
    async def submit(self, func: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Have `func(*args, **kwargs)` run in the background; options as in `TaskQueue.submit`."""
        return AsyncJobHandle(await self.queue.asubmit(func, *args, **kwargs))

    async def submit_many(
        self,
        jobs: Iterable[NewJob],
        *,
        block: Block = False,
        connection: Connection | None = None,
    ) -> list[AsyncJobHandle[Any]]:
        """Submit many jobs in one write: all or nothing; `block` waits until there is room."""
        handles = await self.queue.asubmit_many(jobs, block=block, connection=connection)
        return [AsyncJobHandle(handle) for handle in handles]

    async def submit_partly(
        self, jobs: Iterable[NewJob]
    ) -> list[AsyncJobHandle[Any] | LeaseholdError]:
        """Submit many jobs in one write; each bad one is answered by its error."""
        answers = await self._call(lambda: self.queue.submit_many(jobs, partial=True))
        return [
            answer if isinstance(answer, LeaseholdError) else AsyncJobHandle(answer)
            for answer in answers
        ]

    async def submit_command(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str | None = None,
        **options: Unpack[JobOptions],
    ) -> AsyncJobHandle[Any]:
        """Have a command run; see `TaskQueue.submit_command`."""
        handle = await self._call(
            lambda: self.queue.submit_command(command, cwd=cwd, env=env, stdin=stdin, **options)
        )
        return AsyncJobHandle(handle)

    async def schedule(
        self,
        name: str,
        task: TaskLike,
        timing: Timing,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> Schedule:
        """Have a task run at every tick of `timing`; see `TaskQueue.schedule`."""
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
        """Have a command run at every tick; see `TaskQueue.schedule_command`."""
        return await self._call(
            lambda: self.queue.schedule_command(
                name, command, timing, cwd=cwd, env=env, stdin=stdin, **options
            )
        )

    async def submit_workflow(
        self, workflow: Workflow, *, block: Block = False, connection: Connection | None = None
    ) -> dict[str, AsyncJobHandle[Any]]:
        """Submit all jobs of a workflow in one write; their handles by name."""
        run = await self.queue.asubmit_workflow(workflow, block=block, connection=connection)
        return {name: AsyncJobHandle(handle) for name, handle in run.items()}

    # -- looking and waiting -----------------------------------------------------------------

    async def get(self, job: JobRef) -> Job:
        return await self.queue.aget(job)

    async def get_status(self, job: JobRef) -> Status:
        return await self.queue.aget_status(job)

    async def get_result(self, job: JobRef, timeout: float | None = None) -> Any:
        return await self.queue.aget_result(job, timeout)

    async def wait(self, job: JobRef, timeout: float | None = None) -> Job:
        return await self.queue.await_end(job, timeout)

    async def wait_all(self, jobs: Iterable[JobRef], timeout: float | None = None) -> list[Job]:
        return await self.queue.await_ends(jobs, timeout)

    async def search(
        self, where: JobFilter | None = None, /, **fields: Unpack[FilterFields]
    ) -> AsyncIterator[Job]:
        """All jobs that fit, the last submitted first; fetched page by page as you go."""
        cursor: str | None = None
        while True:
            page = await self.search_page(where, cursor=cursor, **fields)
            for job in page.jobs:
                yield job
            cursor = page.next_cursor
            if cursor is None:
                return

    async def search_page(
        self,
        where: JobFilter | None = None,
        /,
        *,
        limit: int = 100,
        cursor: str | None = None,
        **fields: Unpack[FilterFields],
    ) -> Page:
        return await self._call(
            lambda: self.queue.search_page(where, limit=limit, cursor=cursor, **fields)
        )

    async def attempts(self, job: JobRef) -> list[Attempt]:
        return await self._call(self.queue.attempts, job)

    async def history(self, job: JobRef) -> list[HistoryEvent]:
        return await self._call(self.queue.history, job)

    async def log(self, job: JobRef) -> list[str]:
        return await self._call(self.queue.log, job)

    async def job_log(self, job: JobRef) -> JobLog:
        return await self._call(self.queue.job_log, job)

    async def get_queue_stats(self, queue: str | None = None) -> dict[str, int]:
        return await self._call(self.queue.get_queue_stats, queue)

    async def workers(self) -> list[WorkerInfo]:
        return await self._call(self.queue.workers)

    async def dependency_results(self, job: JobRef) -> dict[str, Any]:
        return await self._call(self.queue.dependency_results, job)

    async def graph(self, *jobs: JobRef) -> Graph:
        return await self._call(self.queue.graph, *jobs)

    # -- orders ------------------------------------------------------------------------------

    async def cancel(self, job: JobRef, reason: str = "") -> Job:
        return await self.queue.acancel(job, reason)

    async def reprioritize(self, job: JobRef, priority: PriorityLike) -> Job:
        return await self._call(self.queue.reprioritize, job, priority)

    async def replay(self, job: JobRef, *, reset_attempts: bool = False) -> Job:
        return await self._call(self.queue.replay, job, reset_attempts=reset_attempts)

    async def cancel_graph(self, *jobs: JobRef, reason: str = "") -> int:
        return await self._call(self.queue.cancel_graph, *jobs, reason=reason)

    async def replay_graph(self, *jobs: JobRef, reset_attempts: bool = False) -> int:
        return await self._call(self.queue.replay_graph, *jobs, reset_attempts=reset_attempts)

    # -- upkeep ------------------------------------------------------------------------------

    async def sweep(self) -> SweepReport:
        """Take back the jobs of lost holders, once, now; see `TaskQueue.sweep`."""
        return await self._call(self.queue.sweep)

    # -- retention ---------------------------------------------------------------------------

    async def prune(
        self, *, force: bool = False, emergency: bool = False, dead: bool = False
    ) -> CleanUp | None:
        """See `TaskQueue.prune`. It may take minutes, in a thread of its own."""
        return await asyncio.to_thread(
            self.queue.prune, force=force, emergency=emergency, dead=dead
        )

    async def cleanups(self, limit: int = 100) -> list[CleanUp]:
        return await self._call(self.queue.cleanups, limit)

    async def archived(self, job: JobRef) -> ArchivedJob:
        """What is remembered of a job that was pruned; see `TaskQueue.archive`."""
        return await self._call(self.queue.archive.get, job)

    async def search_archive(
        self,
        where: JobFilter | None = None,
        /,
        *,
        first_day: date | None = None,
        last_day: date | None = None,
        **fields: Unpack[FilterFields],
    ) -> AsyncIterator[ArchivedJob]:
        """All archived jobs that fit, those archived last first; fetched page by page as you go."""
        cursor: str | None = None
        while True:
            page = await self._call(
                self.queue.store.search_archive,
                filter_of(where, fields),
                first_day=first_day,
                last_day=last_day,
                limit=PAGE_SIZE,
                cursor=cursor,
            )
            for job in page.jobs:
                yield job
            cursor = page.next_cursor
            if cursor is None:
                return

    # -- consuming ---------------------------------------------------------------------------

    async def lease(
        self,
        queue: str | Sequence[str] | None = None,
        worker: str = "consumer",
        tasks: Sequence[TaskLike] | None = None,
        wait: float = WAIT_SECONDS,
    ) -> Lease | None:
        """Take the best available job; see `TaskQueue.lease`. No thread waits."""
        leases = await self.lease_many(1, queue, worker, tasks, wait)
        return leases[0] if leases else None

    async def lease_many(
        self,
        limit: int,
        queue: str | Sequence[str] | None = None,
        worker: str = "consumer",
        tasks: Sequence[TaskLike] | None = None,
        wait: float = WAIT_SECONDS,
    ) -> list[Lease]:
        """Take up to `limit` of the best available jobs; see `TaskQueue.lease_many`."""
        request = self.queue.lease_request(limit, queue, worker, tasks)
        return await wait_for_leases(
            self.queue.bridge(), self.queue.ready, self.queue.try_lease, request, wait
        )

    async def arguments(self, lease: Lease) -> tuple[Sequence[Any], dict[str, Any]]:
        """The call a leased job asks for; see `TaskQueue.arguments`."""
        return await self._call(self.queue.arguments, lease)

    async def ack(self, lease: Lease, result: Any = None, *, note: Any = None) -> Settled:
        return await self._call(self.queue.ack, lease, result, note=note)

    async def nack(
        self,
        lease: Lease,
        error: BaseException | str = "",
        *,
        requeue: bool = True,
        retry_after: float | None = None,
    ) -> Settled:
        return await self._call(
            self.queue.nack, lease, error, requeue=requeue, retry_after=retry_after
        )

    async def extend(self, lease: Lease, seconds: float | None = None) -> Renewed:
        return await self._call(self.queue.extend, lease, seconds)

    async def heartbeat(self, leases: Iterable[Lease]) -> list[Renewed | LeaseLostError]:
        return await self._call(self.queue.heartbeat, leases)

    async def shutdown(self, wait: bool = True, timeout: float = SHUTDOWN_SECONDS) -> None:
        """See `TaskQueue.shutdown`."""
        await self.queue.ashutdown(wait, timeout)
