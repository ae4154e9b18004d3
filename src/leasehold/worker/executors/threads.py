"""Plain functions, on long-lived threads fed by one queue."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

from leasehold.env import SYSTEM, Env
from leasehold.worker.attempt import attempt_of, broke_off
from leasehold.worker.run import Run
from leasehold.worker.safelog import safe_logger

logger = safe_logger("leasehold.worker")


class ThreadExecutor:
    """Runs code on `slots` daemon threads.

    A thread cannot be killed: code that should stop is told through its context, and its thread is
    busy until the code obeys or ends.
    """

    def __init__(self, slots: int, *, env: Env = SYSTEM, name: str = "leasehold") -> None:
        self._clock = env.clock
        self._name = name
        self._waiting: SimpleQueue[Run | None] = SimpleQueue()
        # The queue's own function: a wrapper call for every job would cost noticeable time.
        self.start: Callable[[Run], None] = self._waiting.put
        self._replaced: set[Run] = set()
        self._threads = 0
        for _ in range(slots):
            self._add_thread()

    def stop(self, run: Run) -> None:
        """Does nothing: the worker has already told the context, and no more can be done."""

    def take_back(self) -> list[Run]:
        runs: list[Run] = []
        ends = 0
        try:
            while True:
                run = self._waiting.get_nowait()
                if run is None:
                    ends += 1
                else:
                    runs.append(run)
        except Empty:
            for _ in range(ends):
                self._waiting.put(None)
        return runs

    def replace(self, run: Run) -> None:
        """Abandon the thread of this run: start another one, and let the old one end if it ever
        can.
        """
        self._replaced.add(run)
        self._add_thread()

    def close(self) -> None:
        """Let every thread end after its run; threads that never end die with the process."""
        for _ in range(self._threads):
            self._waiting.put(None)

    def _add_thread(self) -> None:
        self._threads += 1
        threading.Thread(
            target=self._work, name=f"{self._name}-thread-{self._threads}", daemon=True
        ).start()

    def _work(self) -> None:
        while True:
            # An idle thread must not keep its last job's data alive.
            run: Run | None = None
            try:
                run = self._waiting.get()
                if run is None or self._execute(run):
                    return
            except BaseException:
                # An attempt never raises, but code may have sent this thread an exception that
                # arrives late, or left a tracing function behind. The thread continues.
                logger.exception("a thread of %s was interrupted between two jobs", self._name)
                if run is not None and not run.ended:
                    run.finish(broke_off(run.context))

    def _execute(self, run: Run) -> bool:
        """Run one to its end; returns whether this thread was replaced meanwhile."""
        if (refusal := run.refusal()) is not None:
            run.finish(refusal)
            return False
        monotonic = self._clock.monotonic
        run.started = monotonic()
        outcome = attempt_of(run.lease, run.task, run)
        run.finished = monotonic()
        run.finish(outcome)
        if self._replaced and run in self._replaced:
            self._replaced.discard(run)
            return True
        return False
