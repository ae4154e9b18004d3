"""Timeouts are kept while the worker's loop waits for the store.

The loop ends attempts that run too long, between two calls to the store. A call may take seconds:
on SQLite nobody writes while a task has its transaction open, and that may be the very task whose
time is up. So the loop gives its turn away for the duration of such a call, and a thread takes it
when the time of an attempt is up.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from leasehold.env import Clock
from leasehold.worker.safelog import safe_logger
from leasehold.worker.threads import OwnThread

logger = safe_logger("leasehold.worker")

GRACE_SECONDS: Final = 0.05
"""How long after a timeout the thread looks: by then a loop that is not waiting has ended it."""


class Away:
    """Gives a lock away that the caller holds, until the end of the block."""

    __slots__ = ("_lock",)

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock

    def __enter__(self) -> None:
        self._lock.release()

    def __exit__(self, *_: object) -> None:
        self._lock.acquire()


class Overtime(OwnThread):
    """The thread, which is started when the first attempt with a timeout is in hand."""

    def __init__(
        self,
        worker: str,
        stop_what_timed_out: Callable[[float], None],
        next_timeout: Callable[[float], float],
        clock: Clock,
    ) -> None:
        super().__init__(f"leasehold-overtime-{worker}")
        self._stop_what_timed_out = stop_what_timed_out
        self._next_timeout = next_timeout
        self._clock = clock
        self._looks_at = float("inf")
        self.turn: Final = threading.Lock()
        """Held by who decides: the loop during its tick, or this thread."""
        self.away: Final = Away(self.turn)
        """Entered by the loop, in its turn, for a call that may wait for the store."""
        self.is_on = False
        """Whether there may be a thread; a simulator has none."""

    def expect(self, moment: float) -> None:
        """Said by the loop, in its turn: the time of an attempt may be up then."""
        if moment + GRACE_SECONDS >= self._looks_at or not self.is_on:
            return
        with self._condition:
            self._looks_at = moment + GRACE_SECONDS
            self._condition.notify()
        if self._thread is None:
            self.start()

    def _run(self) -> None:
        while True:
            with self._condition:
                left = self._looks_at - self._clock.monotonic()
                while left > 0 and not self._stopping:
                    self._clock.wait(self._condition, left if left < float("inf") else None)
                    left = self._looks_at - self._clock.monotonic()
                if self._stopping:
                    return
            with self.turn:
                now = self._clock.monotonic()
                try:
                    self._stop_what_timed_out(now)
                except Exception:
                    # The loop tries it again; this thread goes on, as the loop would.
                    logger.exception("%s: unexpected error; it continues", self._thread_name)
                # Never at once again, whatever is left: that would take a processor for itself.
                self._looks_at = max(now, self._next_timeout(now)) + GRACE_SECONDS
