"""The store's clock is the server's, so that every machine agrees about it.

It is `clock_timestamp()`, never `now()`, which stands still for a whole transaction. The clock in
`store_state` is a floor under it, so that it never steps back when the server's is set back. Then
it goes on at half the pace of the server's: the first write that finds it standing still notes in
`store_state` from where. A clock that is passed in (in tests) replaces the server's.
"""

from __future__ import annotations

import threading
from typing import Final

from leasehold.core.rules.clock import HalfPace, paced_time
from leasehold.env import Env, SystemClock

SERVER_MICROS: Final = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"


class StoreClock:
    """The time, for all reads and writes."""

    def __init__(self, env: Env) -> None:
        self._clock = env.clock
        self.is_the_servers = isinstance(env.clock, SystemClock)
        self._mutex = threading.Lock()
        self._pace: HalfPace | None = None
        """By which this process has told the time last, and that time, and the time since boot."""
        self._latest = self._boot = 0

    def read(self, server: int) -> int:
        """The wall clock, given the reading of the server's."""
        return server if self.is_the_servers else self._clock.time_micros()

    def time(self, floor: int, server: int, pace: HalfPace) -> int:
        """The time now, given the stored time and the reading of the server's clock."""
        wall = self.read(server)
        paced = paced_time(pace, wall)
        return wall if paced == wall >= floor else self._slow_time(floor, wall, paced, pace)

    def _slow_time(self, floor: int, wall: int, paced: int, pace: HalfPace) -> int:
        """The time while the server's clock is behind.

        If that is set right, it jumps ahead. The time since boot of this machine tells.
        """
        boot = self._clock.reading().boot
        with self._mutex:
            if self._pace == pace:
                paced = max(wall, min(paced, self._latest + (boot - self._boot) // 2))
            self._pace, self._latest, self._boot = pace, max(floor, paced), boot
            return self._latest

    def note(self, pace: HalfPace) -> None:
        """From now on, the time may go on from here."""
        with self._mutex:
            self._pace, self._latest, self._boot = pace, pace.clock, self._clock.reading().boot
