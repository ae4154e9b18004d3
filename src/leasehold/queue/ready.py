"""Waiting for jobs to become available, for consumers with their own loop."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from typing import Final

from leasehold.core.contract.store import Store
from leasehold.core.model.lease import Exchange
from leasehold.core.model.records import WorkListener
from leasehold.env import Env

POLL_SECONDS: Final = 5.0
"""The interval of the poll that makes up for lost hints."""


class Ready(WorkListener):
    """Counts the store's hints that jobs may be available, and wakes waiters at the next one.

    Read `count` before you look at the store and pass it to `wait`: then no hint in between is
    lost.
    """

    def __init__(self, store: Store, env: Env) -> None:
        self._env = env
        self._store = store
        self._begin()

    def _begin(self) -> None:
        self._count = 0
        self._condition = threading.Condition()
        self._callbacks: list[Callable[[], None]] = []
        self._unsubscribe: Callable[[], None] | None = None

    def begin_anew_in_fork(self) -> None:
        """Called in a forked child: all waiters are the parent's, and locks may be held by its
        threads.
        """
        self._begin()

    @property
    def count(self) -> int:
        """The number of hints since the first call."""
        self._listen()
        return self._count

    def wait(self, seen: int, seconds: float) -> None:
        """Block until there is a new hint beyond `seen`, but no longer than the timeout."""

        def wake() -> None:
            with self._condition:
                self._condition.notify_all()

        self.register(wake)
        try:
            with self._condition:
                if self._count == seen:
                    self._env.clock.wait(self._condition, seconds)
        finally:
            self.forget(wake)

    def pause_seconds(self, nothing: Exchange, left: float) -> float:
        """How long to wait after an exchange that leased nothing, at most `left`."""
        pause = min(left, POLL_SECONDS)
        if nothing.next_due_at is not None and nothing.at is not None:
            pause = min(pause, (nothing.next_due_at - nothing.at).total_seconds())
        return max(pause, 0.0)

    def register(self, callback: Callable[[], None]) -> None:
        """Call back at every hint from now on. Compare `count` after this and before you wait."""
        self._listen()
        self._callbacks.append(callback)

    def forget(self, callback: Callable[[], None]) -> None:
        """Stop calling back."""
        # A waiter whose own thread forked is already forgotten in the child.
        if callback in self._callbacks:
            self._callbacks.remove(callback)

    def close(self) -> None:
        """Wake all waiters, and stop listening."""
        if self._unsubscribe is not None:
            self._unsubscribe()
        self.on_ready()

    def _listen(self) -> None:
        """Start listening on first use: most queues never wait for jobs."""
        if self._unsubscribe is None:
            with self._condition:
                self._unsubscribe = self._unsubscribe or self._store.subscribe(self)

    def on_ready(self) -> None:
        # Counted before any callback: a waiter that registers later sees the count instead.
        self._count += 1
        for callback in tuple(self._callbacks):
            callback()

    def on_cancel_requested(self, job_ids: Collection[str] | None) -> None:
        """Ignored."""
