"""The store's clock: the wall clock, held back from ever stepping back."""

from __future__ import annotations

import threading

from leasehold.env import Env


class StoreClock:
    """The latest of what is stored, what the wall clock says, and what was answered here before.

    Every write stores its time, so all processes agree about what was written. What was only looked
    at is remembered by this process alone: looking writes nothing.
    """

    def __init__(self, env: Env) -> None:
        self._env = env
        self._latest = 0
        self._mutex = threading.Lock()

    def read(self, stored: int) -> int:
        """The time now, given the time of the last write."""
        with self._mutex:
            self._latest = max(self._latest, stored, self._env.now_micros())
            return self._latest
