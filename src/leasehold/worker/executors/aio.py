"""Async functions, as tasks on one event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from functools import partial

from leasehold.core.blob import BLOB_CODEC
from leasehold.core.outcome import Outcome, Release
from leasehold.env import SYSTEM, Env
from leasehold.worker.attempt import conclude, outcome_of_error, outcome_of_value
from leasehold.worker.context import enter_context
from leasehold.worker.large import is_large, with_payload, with_result_kept
from leasehold.worker.run import Run

CLOSE_SECONDS_MAX = 5.0


class AsyncExecutor:
    """Runs every async function as a task of one event loop. Stopping one cancels its task."""

    def __init__(self, *, env: Env = SYSTEM, name: str = "leasehold") -> None:
        self._clock = env.clock
        self._waiting: deque[Run] = deque()
        self._tasks: dict[Run, asyncio.Task[Outcome]] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name=f"{name}-asyncio", daemon=True)
        self._thread.start()

    def start(self, run: Run) -> None:
        self._waiting.append(run)
        self._loop.call_soon_threadsafe(self._begin)

    def stop(self, run: Run) -> None:
        self._loop.call_soon_threadsafe(self._cancel, run)

    def take_back(self) -> list[Run]:
        runs: list[Run] = []
        try:
            while True:
                runs.append(self._waiting.popleft())
        except IndexError:
            return runs

    def close(self) -> None:
        """Cancel every task and end the loop; a task that refuses dies with the process."""
        self._loop.call_soon_threadsafe(self._loop.create_task, self._shut_down())
        self._thread.join(CLOSE_SECONDS_MAX)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()

    def _begin(self) -> None:
        try:
            run = self._waiting.popleft()
        except IndexError:
            return  # It was taken back.
        task = self._tasks[run] = self._loop.create_task(self._drive(run))
        task.add_done_callback(partial(self._finish, run))

    def _cancel(self, run: Run) -> None:
        task = self._tasks.get(run)
        if task is not None:
            task.cancel(run.context.cancel_reason)

    async def _drive(self, run: Run) -> Outcome:
        if (refusal := run.refusal()) is not None:
            return refusal
        lease, task, context = run.lease, run.task, run.context
        enter_context(context)
        run.started = self._clock.monotonic()
        try:
            called = lease
            if lease.codec == BLOB_CODEC:
                called = await asyncio.to_thread(with_payload, lease, context)
            args, kwargs = task.codec.decode_call(called.payload, called.codec)
            value = await task.func(*args, **kwargs)
            outcome = outcome_of_value(value, lease, task, context)
            if is_large(outcome):
                outcome = await asyncio.to_thread(with_result_kept, outcome, lease, task, context)
        except BaseException as error:  # noqa: BLE001 - whatever it raises is its job's failure.
            outcome = outcome_of_error(error, lease, task, context)
        # Not awaited: a commit that somebody could cancel half-way would leave it in doubt.
        return conclude(outcome, context)

    def _finish(self, run: Run, task: asyncio.Task[Outcome]) -> None:
        del self._tasks[run]
        run.finished = self._clock.monotonic()
        if task.cancelled():  # It was cancelled before its first step.
            cancelled = asyncio.CancelledError()
            run.finish(outcome_of_error(cancelled, run.lease, run.task, run.context))
        else:
            run.finish(task.result())

    async def _shut_down(self) -> None:
        for run in self.take_back():
            run.finish(Release(reason="its worker stopped before it began"))
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel("the worker stops")
        await asyncio.gather(*tasks, return_exceptions=True)
        self._loop.stop()
