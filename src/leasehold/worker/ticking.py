"""A worker's part in schedules: its exchanges fire them, or the worker itself while its slots are
full.

A worker with free slots asks the store for jobs when the next schedule ticks, and that exchange
fires it. A full worker asks for nothing, perhaps for hours, but must still not miss a tick.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from leasehold.core.contract.store import Store
from leasehold.env import Env

LOOK_SECONDS_MAX: Final = 60.0
"""How long a full worker may take to notice a new schedule."""
TICK_SECONDS_MIN: Final = 0.001


class Ticking:
    """When one worker looks at the schedules next."""

    def __init__(self, store: Store, env: Env) -> None:
        self._store = store
        self._clock = env.clock
        self.look_at = self._clock.monotonic() + LOOK_SECONDS_MAX
        """In monotonic time."""

    def note(self, next_tick_at: datetime | None, at: datetime | None, now: float) -> None:
        """Record the store's answer about the next tick, given at its time `at` and the monotonic
        time `now`.
        """
        seconds = LOOK_SECONDS_MAX
        if next_tick_at is not None and at is not None:
            until = (next_tick_at - at).total_seconds()
            # A store that keeps naming a time in the past must not make the loop spin.
            seconds = min(seconds, max(until, TICK_SECONDS_MIN))
        self.look_at = now + seconds

    def fire_if_due(self, now: float) -> None:
        """Fire the schedules, if no exchange has done so in time."""
        if now >= self.look_at:
            # First of all, so that a store in trouble is not asked again at once.
            self.look_at = now + LOOK_SECONDS_MAX
            next_tick_at = self._store.fire_schedules().next_tick_at
            self.note(next_tick_at, self._store.now(), self._clock.monotonic())
