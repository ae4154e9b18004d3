"""The testing kit: no workers, no threads, no waiting.

With a `memory_queue` nothing runs until you `drain` it; with an `InlineQueue` every job runs as it
is submitted. Both go by a clock that stands still until you turn it:

>>> clock = ManualClock()
>>> queue = memory_queue(clock)
>>> @queue.task(name="remind")
... def remind(who: str) -> str:
...     return f"{who} was reminded"
>>> job = remind.options(delay=3600).submit("Ada")
>>> drain(queue).completed
0
>>> clock.advance(3600)
>>> drain(queue).completed
1
"""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any, Final, Unpack

import msgspec

from leasehold.aio import AsyncTaskQueue
from leasehold.core.contract.store import Store
from leasehold.core.model import checked
from leasehold.core.model.durations import Seconds
from leasehold.core.model.job import Job
from leasehold.core.model.joblog import LogLine
from leasehold.core.model.lease import Lease, Settled
from leasehold.core.model.outcome import Fail, JobError, Outcome
from leasehold.core.model.status import Event, Status
from leasehold.env import Env, ManualClock
from leasehold.errors import ResultTimeoutError, UnknownTaskError
from leasehold.queue.facade import TaskQueue
from leasehold.queue.filters import FilterFields
from leasehold.queue.large import inline
from leasehold.queue.lifecycle import Lifecycle
from leasehold.queue.results import Results
from leasehold.queue.task import BaseTask, TaskLike, name_of
from leasehold.worker.attempt import attempt
from leasehold.worker.backing import PlainBacking
from leasehold.worker.context import JobContext
from leasehold.worker.dependencies import fetch_results
from leasehold.worker.leases import LeaseManager
from leasehold.worker.modules import attribute, module_here

JOBS_MAX: Final = 10_000


def memory_queue(clock: ManualClock | None = None, **options: Any) -> TaskQueue:
    """A queue in memory that runs nothing by itself, on a clock that stands still.

    Waiting for a job that has not ended raises ResultTimeoutError at once: `drain` it first. In
    pytest:

        @pytest.fixture
        def queue() -> Iterator[TaskQueue]:
            with memory_queue() as queue:
                yield queue
    """
    return _StillQueue("memory://", num_workers=0, env=Env(clock or ManualClock()), **options)


class Drained(msgspec.Struct, frozen=True, kw_only=True):
    """What draining a queue did, counted by how the attempts ended."""

    completed: int = 0
    failed: int = 0
    """Failed and will be retried: advance the clock and drain again."""
    dead: int = 0
    cancelled: int = 0
    snoozed: int = 0
    errors: tuple[JobError, ...] = ()
    """Why attempts failed, in order."""

    @property
    def attempts(self) -> int:
        """How many attempts ran in all."""
        return self.completed + self.failed + self.dead + self.cancelled + self.snoozed


def drain(queue: TaskQueue | AsyncTaskQueue, *, jobs_max: int = JOBS_MAX) -> Drained:
    """Run every due job, and all jobs that these submit, in this thread, to the end.

    What fails, fails as with a worker: the error is in the answer and in the job. Timeouts are not
    enforced: nothing can stop code in its own thread. Called on an event loop, it runs the jobs in
    another thread, with a loop of their own, and the loop of the caller stands still meanwhile.
    """
    queue = _blocking(queue)
    jobs_max = checked.at_least(0, "jobs_max", jobs_max)
    leases = LeaseManager(queue.store, "drain")
    ended: Counter[Event] = Counter()
    errors: list[JobError] = []
    # A schedule may be the first to put a job into its queue.
    queue.store.fire_schedules()
    while True:
        queues = queue.store.queues()
        leased = leases.acquire(queues) if queues else []
        if not leased:
            break
        [lease] = leased
        if ended.total() >= jobs_max:
            leases.release(lease)
            raise RuntimeError(
                f"{jobs_max} jobs were run and there are more: is there an end to it?"
            )
        outcome, settled = _run(queue, leases, lease)
        if isinstance(outcome, Fail):
            errors.append(outcome.error)
        settled = settled or leases.settle(lease, outcome)
        ended[settled.event] += 1
    return Drained(
        completed=ended[Event.COMPLETED],
        failed=ended[Event.FAILED],
        dead=ended[Event.DEAD],
        cancelled=ended[Event.CANCELLED],
        snoozed=ended[Event.SNOOZED],
        errors=tuple(errors),
    )


class _StillQueue(TaskQueue):
    """What `memory_queue` makes: its clock stands still, so no timeout would ever be over."""

    def _open(self) -> None:
        super()._open()
        self._results = _still_results(self, self._lifecycle)


class InlineQueue(TaskQueue):
    """A queue in memory that runs every job as it is submitted, before `submit` returns.

    >>> queue = InlineQueue()
    >>> queue.submit(max, 3, 7).result()
    7

    A job that is due later, or will be retried, runs when the clock is turned and the next job is
    submitted or `drain` is called. Waiting for one raises ResultTimeoutError at once.
    """

    def __init__(self, clock: ManualClock | None = None, **options: Any) -> None:
        super().__init__("memory://", num_workers=0, env=Env(clock or ManualClock()), **options)
        self._is_draining = False
        self._tasks.runs_here = True

    def _open(self) -> None:
        super()._open()
        self._storing.on_stored = self._drain
        lifecycle = Lifecycle(self._check_open, self._drain, self.bridge)
        self._results = _still_results(self, lifecycle)

    def _drain(self) -> None:
        # A job that submits others only stores them: the drain that runs it runs them next.
        if self._is_draining:
            return
        self._is_draining = True
        try:
            drain(self)
        finally:
            self._is_draining = False


def _still_results(queue: TaskQueue, lifecycle: Lifecycle) -> Results:
    return _StillResults(
        queue._looking,  # noqa: SLF001 - the kit is a part of the queue.
        queue._waiters,  # noqa: SLF001
        queue._codecs,  # noqa: SLF001
        queue.blobs,
        lifecycle,
        queue.why,
    )


class _StillResults(Results):
    """Waits for nothing: a job that has not ended never will by itself."""

    def wait_for(
        self,
        job_ids: list[str],
        timeout: Seconds | None,  # noqa: ARG002 - nothing is worth waiting for here.
        whole: float | None = None,  # noqa: ARG002
    ) -> list[Job]:
        self._ensure_workers()
        jobs = [self._looking.get(job_id) for job_id in job_ids]
        for job in jobs:
            if not job.is_terminal:
                is_due = job.status is Status.PENDING
                raise ResultTimeoutError(
                    f"job {job.id} is {job.status.value}{'' if is_due else f' until {job.run_at}'},"
                    " and nothing runs by itself here: "
                    f"{'' if is_due else 'advance the clock, then '}drain(queue)"
                )
        return jobs

    async def await_for(
        self,
        job_ids: list[str],
        timeout: Seconds | None,  # noqa: ASYNC109 - as in the queue it stands for.
        whole: float | None = None,
    ) -> list[Job]:
        return await self._bridge().call(self.wait_for, job_ids, timeout, whole)


def submitted(
    queue: TaskQueue | AsyncTaskQueue,
    task: TaskLike,
    /,
    *,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    **fields: Unpack[FilterFields],
) -> list[Job]:
    """The submitted jobs of a task, first to last, in any status.

    With `args` or `kwargs`, only those with that very call, however each argument was passed. The
    other filters are those of `queue.search`.
    """
    queue = _blocking(queue)
    checked.several_or_none("args", args)
    checked.mapping_or_none("kwargs", kwargs)
    fields["task"] = name_of(task)
    jobs = list(queue.search(**fields))[::-1]
    if args is None and kwargs is None:
        return jobs
    wanted = _bound(queue, name_of(task), tuple(args or ()), dict(kwargs or {}))
    return [job for job in jobs if _call_of(queue, job) == wanted]


def assert_submitted(
    queue: TaskQueue | AsyncTaskQueue,
    task: TaskLike,
    /,
    *,
    count: int | None = None,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    **fields: Unpack[FilterFields],
) -> list[Job]:
    """Assert that such a job was submitted (exactly `count` times, if given); answers with them."""
    __tracebackhide__ = True  # pytest shows the test's own line.
    checked.whole_or_none("count", count)
    jobs = submitted(queue, task, args=args, kwargs=kwargs, **fields)
    if (count is None and jobs) or len(jobs) == count:
        return jobs
    matching = "" if args is None and kwargs is None and not fields else "matching "
    wanted = {None: "a", 0: "no"}.get(count, str(count))
    expected = (
        f"expected {wanted} {matching}job{'s' if count and count > 1 else ''} of {name_of(task)}, "
        f"found {len(jobs) or 'none'}"
    )
    queue = _blocking(queue)
    if count == 0:
        raise AssertionError(f"{expected}:{_lines(queue, jobs)}")
    raise AssertionError(f"{expected}. {_overview(queue, task)}")


def refute_submitted(
    queue: TaskQueue | AsyncTaskQueue,
    task: TaskLike,
    /,
    *,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    **fields: Unpack[FilterFields],
) -> None:
    """Assert that no such job was submitted."""
    __tracebackhide__ = True
    assert_submitted(queue, task, count=0, args=args, kwargs=kwargs, **fields)


def _blocking(queue: TaskQueue | AsyncTaskQueue) -> TaskQueue:
    if isinstance(queue, AsyncTaskQueue):
        return queue.queue
    return checked.instance("queue", queue, TaskQueue)


class _Reports:
    """A task's reports, written at once."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def progress(self, lease: Lease, document: bytes) -> None:
        self._store.report_progress(lease.job_id, lease.version, document)

    def log(self, lease: Lease, line: LogLine) -> None:
        self._store.append_log(lease.job_id, lease.version, [line])


def _run(queue: TaskQueue, leases: LeaseManager, lease: Lease) -> tuple[Outcome, Settled | None]:
    """Run it; answers also the store's reply if it was completed in its own transaction."""
    try:
        task = queue.registry.find(lease.task)
    except UnknownTaskError as error:
        leases.release(lease, reason="its code is not here")
        raise UnknownTaskError(_not_here(lease.task, error)) from error.__cause__
    fetch = partial(fetch_results, queue.store, large=queue.blobs)
    context = JobContext(
        lease,
        _Reports(queue.store),
        fetch=fetch,
        large=queue.blobs,
        backing=PlainBacking(queue.store),
    )
    # `attempt` runs it in a copy of the context variables, so that nothing of it stays behind.
    outcome = task.judge(_beside_a_loop(partial(attempt, lease, task, context)))
    return outcome, context.settled


def _not_here(name: str, error: UnknownTaskError) -> str:
    """Advice about workers would be of no use in a test, where this queue runs its own jobs."""
    module_name, _, path = name.partition(":")
    module = module_here(module_name)
    if module is not None and path and isinstance(attribute(module, path, None), BaseTask):
        return (
            f"task {name!r} belongs to another queue object, and this one does not have its code: "
            "use the task's own queue in the test, or make the task with this one "
            "(docs/testing.md)"
        )
    return f"{error}. A task belongs to the queue object that made it: see docs/testing.md"


def _beside_a_loop(run: Callable[[], Outcome]) -> Outcome:
    """Run it here; if an event loop runs here, elsewhere: no other loop can run in this thread."""
    if not _is_on_a_loop():
        return run()
    with ThreadPoolExecutor(1, thread_name_prefix="leasehold-drain") as thread:
        return thread.submit(copy_context().run, run).result()


def _is_on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _call_of(queue: TaskQueue, job: Job) -> Any:
    payload, codec = inline(queue.blobs, job.payload_data, job.codec)
    args, kwargs = queue.codec_for(job.task).decode_call(payload, codec)
    return _bound(queue, job.task, tuple(args), kwargs)


def _bound(queue: TaskQueue, task: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call in one form, whether its arguments were given by place or by name."""
    if task not in queue.registry:
        return args, kwargs
    func: Callable[..., Any] = queue.registry.find(task).func
    try:
        bound = inspect.signature(func).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return args, kwargs
    bound.apply_defaults()
    return bound.arguments


def _overview(queue: TaskQueue, task: TaskLike) -> str:
    jobs = submitted(queue, task)
    if not jobs:
        others = sorted({job.task for job in queue.search()})
        return f"Jobs of other tasks: {', '.join(others) or 'none'}."
    return f"All jobs of that task, {len(jobs)}:{_lines(queue, jobs)}"


def _lines(queue: TaskQueue, jobs: list[Job]) -> str:
    return "".join(
        f"\n  {queue.payload_of(job)} priority={job.priority} {job.metadata or ''}"
        for job in jobs[:10]
    )
