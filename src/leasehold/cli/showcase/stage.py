"""A throw-away store, workers on it in this process and in others, and a way to wait for things."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from leasehold.connect import Durability
from leasehold.env import SYSTEM
from leasehold.queue.facade import TaskQueue

WAIT_SECONDS: Final = 30.0
TASKS: Final = "leasehold.cli.showcase.tasks"
LOGGER: Final = logging.getLogger("leasehold")


class ShowcaseStage:
    """One folder with one store in it. `queue` only submits and looks; workers come as needed."""

    def __init__(self, folder: str, durability: Durability = "full") -> None:
        # Jobs that fail here fail on purpose: the workers' log would only frighten people.
        self._level_before = LOGGER.level
        LOGGER.setLevel(logging.CRITICAL + 1)
        self.folder = folder
        self.durability = durability
        self.queue = TaskQueue(self.store, num_workers=0, durability=durability, actor="showcase")

    @property
    def store(self) -> str:
        return self.path("jobs.db")

    def path(self, name: str) -> str:
        """A file in the folder."""
        return os.path.join(self.folder, name)

    def close(self) -> None:
        self.queue.shutdown()
        LOGGER.setLevel(self._level_before)

    @contextmanager
    def workers(self, slots: int = 4, queue: str = "default", **options: Any) -> Iterator[None]:
        """So many slots for one queue, in this process, while the block is entered."""
        with TaskQueue(
            self.store,
            num_workers=slots,
            queues=queue,
            durability=self.durability,
            import_tasks=[TASKS],
            **options,
        ):
            yield

    @contextmanager
    def worker_process(self, queue: str) -> Iterator[subprocess.Popen[bytes]]:
        """A worker in a process of its own, ready for work when the block is entered."""
        arguments = (self.store, queue, self.durability)
        process = subprocess.Popen(  # noqa: S603 - our own module, and no shell.
            [sys.executable, "-m", "leasehold.cli.showcase.worker", *arguments],
            stderr=subprocess.DEVNULL,
        )
        try:
            self.until(lambda: any(worker.pid == process.pid for worker in self.queue.workers()))
            yield process
        finally:
            process.terminate()
            process.wait(WAIT_SECONDS)

    def until(self, condition: Callable[[], bool], seconds: float = WAIT_SECONDS) -> None:
        """Wait until something is so; raises TimeoutError if it takes too long."""
        clock = SYSTEM.clock
        end = clock.monotonic() + seconds
        tick = threading.Condition()
        while not condition():
            if clock.monotonic() > end:
                raise TimeoutError(f"nothing happened for {seconds:.0f} s")
            with tick:
                clock.wait(tick, 0.005)
