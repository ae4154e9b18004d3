"""Child processes: isolation, and a hard stop that really stops.

A pool of interpreters, each running one job at a time, one after the other. They are started,
never forked, each in a process group of its own; they hold the worker's lock and die with the
worker. They cannot reach anything that lives only in the worker's memory.

A subprocess started by a task dies with its child when that is killed or crashes. If the worker is
killed, the kernel kills its children, but their own subprocesses survive.
"""

from __future__ import annotations

import asyncio

from leasehold.core.model.blob import BLOB_CODEC
from leasehold.core.model.limits import PAYLOAD_BYTES_MAX
from leasehold.core.model.outcome import Fail, JobError, Outcome
from leasehold.env import Env
from leasehold.errors import BlobError, TaskNotImportableError
from leasehold.worker.attempt import outcome_of_error
from leasehold.worker.backing import WorkerBacking
from leasehold.worker.describe import describe_error
from leasehold.worker.executors.childprocess import ChildProcess
from leasehold.worker.executors.helper import describe_status
from leasehold.worker.executors.importable import locate
from leasehold.worker.executors.parts import Parts, parts_of, without_payload
from leasehold.worker.executors.slots import Slot, SlotExecutor
from leasehold.worker.executors.wire import (
    Ask,
    Begin,
    ChildReady,
    CodeEnded,
    DependencyAnswer,
    Favour,
    FavourRequest,
    FromChild,
    Keep,
    KeptResult,
    LeaseKey,
    Leave,
    Logged,
    Piece,
    ProgressReport,
    Stop,
    ToChild,
    to_frame,
)
from leasehold.worker.large import with_payload
from leasehold.worker.run import Run
from leasehold.worker.safelog import safe_logger

logger = safe_logger("leasehold.worker")

START_SECONDS_MAX = 60.0
"""How long a child may take to start, the import of its first task's module included."""


class ProcessExecutor(SlotExecutor):
    """Runs functions in up to `size` child processes.

    `lock_fd` is the worker's lock, which every child holds open. A stopped run's child is told
    through the job's context and killed `grace_seconds` later; without grace it is killed at once.
    A child is replaced after `max_jobs_per_child`, so that leaked memory comes back.
    """

    def __init__(
        self,
        size: int,
        *,
        env: Env,
        lock_fd: int | None = None,
        grace_seconds: float = 0.0,
        max_jobs_per_child: int | None = None,
    ) -> None:
        super().__init__(
            size,
            lambda: _ProcessSlot(env, lock_fd, grace_seconds, max_jobs_per_child),
            thread_name="leasehold-processes",
        )

    def start(self, run: Run) -> None:
        try:
            locate(run.task)
        except TaskNotImportableError as error:
            run.finish(Fail(JobError(type(error).__name__, str(error)), retryable=False))
        else:
            super().start(run)


def _answer(run: Run) -> bytes:
    """The results of the job's dependencies as a frame for its child; never raises."""
    about = LeaseKey.of(run.lease)
    try:
        return to_frame(DependencyAnswer(about, run.context.fetch_dependency_results()))
    except BaseException as error:  # noqa: BLE001 - the task is told of any error.
        return to_frame(DependencyAnswer(about, [], describe_error(error)))


def _keep(run: Run, data: bytes, codec: str) -> bytes:
    """Store the task's large result; never raises."""
    about = LeaseKey.of(run.lease)
    large = run.context.large
    try:
        assert large is not None, "without blobs no child takes a result for large"
        return to_frame(KeptResult(about, *large.keep_result(run.lease, data, codec)))
    except BaseException as error:  # noqa: BLE001 - any error fails the task.
        return to_frame(KeptResult(about, b"", codec, describe_error(error)))


def _do_favour(run: Run, favour: Favour) -> bytes:
    """Carry out a request of the task's own transaction here; never raises."""
    about = LeaseKey.of(run.lease)
    backing = run.context.backing
    try:
        assert isinstance(backing, WorkerBacking), "no child has an address without one"
        if favour == "claim":
            return to_frame(Leave(about, backing.claim(run.lease)))
        if favour == "make_way":
            backing.make_way(run.lease)
        else:
            backing.gave_up(run.lease)
        return to_frame(Leave(about, granted=True))
    except BaseException as error:  # noqa: BLE001 - the task is told of any error.
        return to_frame(Leave(about, granted=False, error=describe_error(error)))


def _refusal(message: FromChild) -> ToChild | None:
    """The answer to a question about a job that this child does not run; None for no question."""
    error = JobError("LeaseLostError", "the attempt is over: another job runs in this process now")
    if isinstance(message, Ask):
        return DependencyAnswer(message.about, [], error)
    if isinstance(message, FavourRequest):
        return Leave(message.about, granted=False, error=error)
    if isinstance(message, Keep):
        return KeptResult(message.about, b"", message.codec, error)
    return None


class _ProcessSlot(Slot):
    def __init__(
        self, env: Env, lock_fd: int | None, grace_seconds: float, max_jobs: int | None
    ) -> None:
        self._env = env
        self._lock_fd = lock_fd
        self._grace_seconds = grace_seconds
        self._max_jobs = max_jobs
        self._child: ChildProcess | None = None
        self._jobs = 0
        self._is_worn = False
        """Whether the child must not run another job."""
        self._run: Run | None = None
        self._kill_timer: asyncio.TimerHandle | None = None

    async def prepare(self, candidate: Run) -> Fail | None:
        if self._child is not None and self._child.lost:
            await self.close()
        if self._child is not None:
            return None
        module, _ = locate(candidate.task)
        try:
            self._child = await asyncio.wait_for(
                ChildProcess.start_for(module, self._lock_fd), START_SECONDS_MAX
            )
        except (OSError, TimeoutError) as error:
            message = f"no child process could be started to import {module}: {error}"
            return Fail(JobError("WorkerCrashed", message))
        self._jobs = 0
        self._is_worn = False
        return None

    async def execute(self, run: Run) -> Outcome:
        child = self._child
        assert child is not None
        self._run = run
        self._jobs += 1
        try:
            await self._begin(run, child)
            outcome = await self._follow(run, child)
        except BlobError as error:
            outcome = outcome_of_error(error, run.lease, run.task, run.context)
        except ConnectionError:
            status = await child.end()
            outcome = Fail(
                JobError(
                    "WorkerCrashed",
                    f"its process ended before its task did ({describe_status(status)})",
                )
            )
        finally:
            self._run = None
            if self._kill_timer is not None:
                self._kill_timer.cancel()
                self._kill_timer = None
        if self._is_worn or self._jobs == self._max_jobs:
            await self.close()
        return outcome

    async def _begin(self, run: Run, child: ChildProcess) -> None:
        lease, context = run.lease, run.context
        # Its time counts from here, including the transfer of its payload.
        run.started = self._env.clock.monotonic()
        if lease.codec == BLOB_CODEC:
            # Off the event loop: other children talk to it while the blob is read.
            lease = await asyncio.to_thread(with_payload, lease, context)
        bytes_max = PAYLOAD_BYTES_MAX if context.large is None else context.large.bytes_max
        lease, ahead = without_payload(lease)
        for part in parts_of(LeaseKey.of(lease), ahead):
            child.send(part)
            await child.writer.drain()
        backing = context.backing
        address = backing.address() if isinstance(backing, WorkerBacking) else None
        child.send(Begin(lease, *locate(run.task), run.task.codec.pickle_key, bytes_max, address))

    async def _follow(self, run: Run, child: ChildProcess) -> Outcome:
        about = LeaseKey.of(run.lease)
        parts = Parts()
        while True:
            message = await child.receive()
            if isinstance(message, ChildReady) or message.about != about:
                self._refuse(message, run, child)
            elif isinstance(message, CodeEnded):
                run.context.settled = message.settled
                if message.lasting is not None:
                    self._replace_after(run, message.lasting)
                return message.outcome
            elif isinstance(message, ProgressReport):
                run.context.sink.progress(run.lease, message.document)
            elif isinstance(message, Logged):
                run.context.sink.log(run.lease, message.line)
            elif isinstance(message, Ask):
                # Off the event loop: other children talk to it while the store is read.
                child.send_frame(await asyncio.to_thread(_answer, run))
            elif isinstance(message, Piece):
                parts.add(message)
            elif isinstance(message, Keep):
                child.send_frame(await asyncio.to_thread(_keep, run, parts.take(), message.codec))
            elif isinstance(message, FavourRequest):
                child.send_frame(await asyncio.to_thread(_do_favour, run, message.favour))

    def _replace_after(self, run: Run, lasting: str) -> None:
        logger.info(
            "job %s (%s) left its process with %s, which cannot be undone: it is replaced",
            run.lease.job_id,
            run.lease.task,
            lasting,
            extra={"job_id": run.lease.job_id},
        )
        self._is_worn = True

    def _refuse(self, message: FromChild, run: Run, child: ChildProcess) -> None:
        """Refuse a message about another job, for example one left behind by an earlier job."""
        if not self._is_worn:  # Once only: a thread that was left behind may keep sending.
            logger.warning(
                "job %s: its process sent a message about another attempt (%s), which is refused; "
                "the process is replaced when the job has ended: an earlier task has left a thread "
                "behind there",
                run.lease.job_id,
                type(message).__name__,
                extra={"job_id": run.lease.job_id},
            )
        self._is_worn = True
        answer = _refusal(message)
        if answer is not None:
            child.send(answer)

    def halt(self) -> None:
        child, run = self._child, self._run
        if child is None or run is None:
            return
        if self._grace_seconds <= 0 or run.context.stopped is None:
            child.kill()
        elif self._kill_timer is None:
            child.send(Stop(LeaseKey.of(run.lease), *run.context.stopped))
            loop = asyncio.get_running_loop()
            self._kill_timer = loop.call_later(self._grace_seconds, child.kill)

    async def close(self) -> None:
        if self._child is not None:
            await self._child.end()
            self._child = None
