"""Async functions, as tasks on one event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from asyncio import Task
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from leasehold.codec import passes_results
from leasehold.core.model.blob import BLOB_CODEC
from leasehold.core.model.outcome import Fail, JobError, Outcome, Release
from leasehold.env import SYSTEM, Env
from leasehold.observe.tracing import begin_run
from leasehold.worker.attempt import (
    BROKE_OFF,
    broke_off,
    conclude,
    outcome_of_error,
    outcome_of_value,
)
from leasehold.worker.context import current_attempt
from leasehold.worker.copies import here, leave_copy
from leasehold.worker.describe import guarded
from leasehold.worker.executors.sharedloop import SharedLoop
from leasehold.worker.large import is_large, with_payload, with_result_kept
from leasehold.worker.run import Run
from leasehold.worker.safelog import safe_logger

logger = safe_logger("leasehold.worker")

CLOSE_SECONDS_MAX: Final = 2.0

_LOOP_DIED: Final = Fail(
    JobError(
        "EventLoopDied",
        "the event loop on which the job ran was closed or broken, by this job or by another async "
        "one beside it",
    )
)


_broken_loops: Final[list[SharedLoop]] = []
"""Kept here so that they are never closed or garbage-collected: if a task has closed their
descriptors, the numbers may belong to other files by now.
"""


class AsyncExecutor:
    """Runs every async function as a task of one event loop. Stopping one cancels its task.

    A loop that dies is replaced, and the runs on it have failed.
    """

    def __init__(self, *, env: Env = SYSTEM, name: str = "leasehold") -> None:
        self._clock = env.clock
        self._waiting: deque[Run] = deque()
        self._tasks: dict[Run, Task[Outcome]] = {}
        self._closing = False
        self._over = False
        self._ending: Task[None] | None = None
        self._loop = SharedLoop()
        self._thread = threading.Thread(target=self._serve, name=f"{name}-asyncio", daemon=True)
        self._thread.start()

    # -- called from other threads -----------------------------------------------------------

    def start(self, run: Run) -> None:
        self._waiting.append(run)
        self._call(self._begin)

    def stop(self, run: Run) -> None:
        self._call(partial(self._cancel, run))

    def take_back(self) -> list[Run]:
        runs: list[Run] = []
        try:
            while True:
                runs.append(self._waiting.popleft())
        except IndexError:
            return runs

    def close(self) -> None:
        """Cancel every task and end the loop; a task that refuses dies with the process."""
        self._closing = True
        self._call(self._begin_to_shut_down)
        self._thread.join(CLOSE_SECONDS_MAX)

    def _call(self, callback: Callable[[], None]) -> None:
        # A closed loop is about to be replaced, and its replacement handles every waiting run.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(callback)

    # -- the loop's own thread ---------------------------------------------------------------

    def _serve(self) -> None:
        while True:
            loop = self._loop
            guarded(partial(asyncio.set_event_loop, loop), None)
            loop.turn(lambda: not self._over)
            if self._over or self._closing:
                break
            self._replace_loop()
        # The remaining tasks were asked to end and did not.
        self._fail_what_runs()
        guarded(lambda: loop.run_until_complete(loop.shutdown_asyncgens()), None)
        guarded(loop.close, None)

    def _replace_loop(self) -> None:
        logger.error("the event loop of async tasks died; its jobs have failed")
        _broken_loops.append(self._loop)
        self._loop = SharedLoop()
        self._fail_what_runs()
        for _ in range(len(self._waiting)):
            self._call(self._begin)

    def _fail_what_runs(self) -> None:
        while self._tasks:
            run, _ = self._tasks.popitem()
            broke_off(run.context)
            run.finish(_LOOP_DIED)

    def _begin(self) -> None:
        try:
            run = self._waiting.popleft()
        except IndexError:
            return  # It was taken back.
        try:
            self._loop.reset()
            task = self._tasks[run] = Task(self._drive(run), loop=self._loop)
            task.add_done_callback(partial(self._finish, run))
        except BaseException:
            self._tasks.pop(run, None)
            run.finish(broke_off(run.context))
            raise

    def _cancel(self, run: Run) -> None:
        task = self._tasks.get(run)
        if task is not None:
            task.cancel(run.context.cancel_reason)

    async def _drive(self, run: Run) -> Outcome:
        if (refusal := run.refusal()) is not None:
            return refusal
        lease, task, context = run.lease, run.task, run.context
        end_span = None
        args: Sequence[Any] | None = None
        kwargs: dict[str, Any] = {}
        try:
            current_attempt.set(run)
            end_span = begin_run(lease)
            run.started = self._clock.monotonic()
            called = lease
            if lease.codec == BLOB_CODEC:
                called = await asyncio.to_thread(with_payload, lease, context)
            passed = None
            if passes_results(called.payload):
                passed = await asyncio.to_thread(context.passed_results)
            args, kwargs = task.codec.decode_call(called.payload, called.codec, passed)
            value = await task.func(*args, **kwargs)
            if here() != context.pid:
                leave_copy()
            outcome = outcome_of_value(value, task, run)
            if is_large(outcome):
                outcome = await asyncio.to_thread(with_result_kept, outcome, lease, task, context)
        except BaseException as error:  # noqa: BLE001 - whatever it raises is its job's failure.
            if here() != context.pid:
                leave_copy(error)
            outcome = outcome_of_error(error, lease, task, context, args, kwargs)
        if here() != context.pid:
            leave_copy()
        # Not awaited: a commit that could be cancelled half-way would leave its outcome in doubt.
        outcome = conclude(outcome, context)
        if end_span is not None:
            end_span(outcome)
        return outcome

    def _finish(self, run: Run, task: Task[Outcome]) -> None:
        if self._tasks.pop(run, None) is None:
            return
        run.finished = self._clock.monotonic()
        outcome: Outcome = BROKE_OFF
        if task.cancelled():  # It was cancelled before its first step.
            cancelled = asyncio.CancelledError()
            outcome = outcome_of_error(cancelled, run.lease, run.task, run.context)
        elif task.exception() is None:
            outcome = task.result()
        run.finish(conclude(outcome, run.context))

    def _begin_to_shut_down(self) -> None:
        self._ending = Task(self._shut_down(), loop=self._loop)

    async def _shut_down(self) -> None:
        for run in self.take_back():
            run.finish(Release(reason="its worker stopped before it began"))
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel("the worker stops")
        if tasks:
            await asyncio.wait(tasks)
        self._over = True
        self._loop.stop()
