"""Slots: the common part of the two executors that start processes.

Runs wait in line for one of a fixed number of slots. All slots of an executor are coroutines on one
event loop in one thread: a hundred children do not need a hundred threads. And since the kernel
ties a child's life to the *thread* that started it, one thread that lives as long as the executor
starts them all.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from functools import partial

from leasehold.core.model.outcome import Fail, JobError, Outcome, Release
from leasehold.worker.describe import clean_text, guarded, message_of, type_name
from leasehold.worker.run import Run
from leasehold.worker.safelog import safe_logger

logger = safe_logger(__name__)

_CLOSED = Release(reason="the worker was stopped before the job had ended")
_DIED = Fail(JobError("ExecutorDied", "the process that ran the job stopped unexpectedly"))


class Slot(ABC):
    """Room for one run at a time. All methods are called on the executor's event loop."""

    @abstractmethod
    async def prepare(self, candidate: Run, /) -> Fail | None:
        """Get ready to execute; if that fails, returns the outcome with which the candidate fails.

        The candidate is first in line, but another run may be executed instead.
        """

    @abstractmethod
    async def execute(self, run: Run) -> Outcome:
        """Run the code and return its outcome, once it is no longer running."""

    @abstractmethod
    def halt(self) -> None:
        """Stop the code that `execute` waits for; `execute` returns when it has ended."""

    @abstractmethod
    async def close(self) -> None:
        """Kill every running process. `prepare` may follow; closing twice is harmless."""


class SlotExecutor:
    """An `Executor` of `size` slots. Its thread begins with the first run and ends with `close`."""

    def __init__(self, size: int, new_slot: Callable[[], Slot], *, thread_name: str) -> None:
        if size < 1:
            raise ValueError(f"an executor needs at least one slot, not {size}")
        self._size = size
        self._new_slot = new_slot
        self._thread_name = thread_name
        self._lock = threading.Lock()
        self._waiting: deque[Run] = deque()
        self._busy: dict[Run, Slot] = {}
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._arrived: asyncio.Semaphore
        self._closing: asyncio.Event

    # -- the executor protocol: called from any thread -----------------------------------------

    def start(self, run: Run) -> None:
        with self._lock:
            if not self._closed:
                self._waiting.append(run)
                self._tell(self._running_loop(), self._arrived.release)
                return
        run.finish(_CLOSED)

    def stop(self, run: Run) -> None:
        with self._lock:
            withdrawn = run in self._waiting
            if withdrawn:
                self._waiting.remove(run)
            elif self._loop is not None and not self._closed:
                self._tell(self._loop, partial(self._halt, run))
        if withdrawn:
            run.finish(Release(reason="stopped before it began"))

    def take_back(self) -> list[Run]:
        with self._lock:
            withdrawn = list(self._waiting)
            self._waiting.clear()
        return withdrawn

    def close(self) -> None:
        withdrawn = []
        with self._lock:
            if not self._closed:
                self._closed = True
                withdrawn = list(self._waiting)
                self._waiting.clear()
                if self._loop is not None:
                    self._tell(self._loop, self._closing.set)
        for run in withdrawn:
            run.finish(_CLOSED)
        thread = self._thread
        if thread is not None:
            thread.join()

    def _tell(self, loop: asyncio.AbstractEventLoop, callback: Callable[[], object]) -> None:
        # A loop that has just died takes no messages; its thread handles waiting runs in `_bury`.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(callback)

    # -- the thread ----------------------------------------------------------------------------

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            # Made here, not by a policy, which the application may replace at any time.
            self._loop = asyncio.SelectorEventLoop()
            self._arrived = asyncio.Semaphore(0)
            self._closing = asyncio.Event()
            # A daemon thread: a program that forgets to close must still be able to exit, and its
            # children end with it.
            self._thread = threading.Thread(
                target=self._main, args=(self._loop,), name=self._thread_name, daemon=True
            )
            self._thread.start()
        return self._loop

    def _main(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            loop.run_until_complete(self._serve())
        except BaseException:
            # The executor's processes are tied to this thread and die with it.
            logger.exception("%s stopped unexpectedly; its jobs have failed", self._thread_name)
        finally:
            guarded(loop.close, None)
            self._bury()

    def _bury(self) -> None:
        """Leave nothing waiting for an ended thread; runs that have not begun get another."""
        with self._lock:
            broken = list(self._busy)
            self._busy.clear()
            self._loop = None
            if self._waiting and not self._closed:
                loop = self._running_loop()
                for _ in self._waiting:
                    self._tell(loop, self._arrived.release)
        for run in broken:
            run.finish(_DIED)

    async def _serve(self) -> None:
        slots = [asyncio.ensure_future(self._attend(self._new_slot())) for _ in range(self._size)]
        await self._closing.wait()
        for slot in slots:
            slot.cancel()
        await asyncio.gather(*slots, return_exceptions=True)
        await self._close_shared()
        await asyncio.get_running_loop().shutdown_default_executor()

    async def _close_shared(self) -> None:
        """Free shared resources after the last slot has closed; subclasses may override it."""

    async def _attend(self, slot: Slot) -> None:
        try:
            while True:
                await self._arrived.acquire()
                while (candidate := self._first()) is not None:
                    # A run is taken only when the slot is ready for it: until then it can be
                    # withdrawn, and its time has not started.
                    problem = await self._prepare(slot, candidate)
                    run = self._take(None if problem is None else candidate)
                    if run is not None:
                        await self._execute(slot, run, problem)
        finally:
            await slot.close()

    def _first(self) -> Run | None:
        with self._lock:
            return self._waiting[0] if self._waiting else None

    def _take(self, wanted: Run | None) -> Run | None:
        """The run to continue with: this one, or whichever is first; None if it is gone."""
        with self._lock:
            if wanted is None:
                return self._waiting.popleft() if self._waiting else None
            if wanted not in self._waiting:
                return None
            self._waiting.remove(wanted)
            return wanted

    async def _prepare(self, slot: Slot, candidate: Run) -> Fail | None:
        try:
            return await slot.prepare(candidate)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            logger.exception(
                "job %s: no process or thread could be started to run it", candidate.lease.job_id
            )
            await slot.close()
            return _broken(error)

    async def _execute(self, slot: Slot, run: Run, problem: Fail | None) -> None:
        # There is no await between taking a run and this line, so `_halt` finds every run that
        # `stop` no longer found waiting.
        self._busy[run] = slot
        outcome: Outcome = _CLOSED
        try:
            outcome = run.refusal() or problem or await slot.execute(run)
        except asyncio.CancelledError:
            await slot.close()
            raise
        except GeneratorExit:
            outcome = _DIED  # The event loop has ended under it, and nothing can be awaited.
            raise
        except BaseException as error:
            logger.exception("job %s: its executor failed", run.lease.job_id)
            outcome = _broken(error)
            await slot.close()
        finally:
            if self._busy.pop(run, None) is not None:
                run.finish(outcome)

    def _halt(self, run: Run) -> None:
        slot = self._busy.get(run)
        if slot is not None:
            slot.halt()


def _broken(error: BaseException) -> Fail:
    text = clean_text(f"the worker could not run the job: {message_of(error)}")
    return Fail(JobError(type_name(error), text))
