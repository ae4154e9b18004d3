"""Plain functions, on long-lived threads fed by one queue."""

from __future__ import annotations

import threading
from queue import Empty, SimpleQueue

from leasehold.env import SYSTEM, Env
from leasehold.worker.attempt import attempt
from leasehold.worker.run import Run


class ThreadExecutor:
    """Runs code on `slots` daemon threads.

    A thread cannot be killed: code that should stop hears so through its context, and its thread
    is busy until it listens or ends.
    """

    def __init__(self, slots: int, *, env: Env = SYSTEM, name: str = "leasehold") -> None:
        self._clock = env.clock
        self._name = name
        self._waiting: SimpleQueue[Run | None] = SimpleQueue()
        self._replaced: set[Run] = set()
        self._threads = 0
        for _ in range(slots):
            self._add_thread()

    def start(self, run: Run) -> None:
        self._waiting.put(run)

    def stop(self, run: Run) -> None:
        """Nothing more can be done than the worker has done by telling the context."""

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
        """Give up on the thread that runs this: start another, and let it end when it ever can."""
        self._replaced.add(run)
        self._add_thread()

    def close(self) -> None:
        """Let every thread end after its run; those that never end die with the process."""
        for _ in range(self._threads):
            self._waiting.put(None)

    def _add_thread(self) -> None:
        self._threads += 1
        threading.Thread(
            target=self._work, name=f"{self._name}-thread-{self._threads}", daemon=True
        ).start()

    def _work(self) -> None:
        monotonic = self._clock.monotonic
        get = self._waiting.get
        while (run := get()) is not None:
            if (refusal := run.refusal()) is not None:
                run.finish(refusal)
                continue
            run.started = monotonic()
            outcome = attempt(run.lease, run.task, run.context)
            run.finished = monotonic()
            run.finish(outcome)
            if run in self._replaced:
                self._replaced.discard(run)
                return
            # An idle thread must not keep its last job's data alive.
            del run, outcome
