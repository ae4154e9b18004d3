"""The store's clock is the server's, so that every machine agrees about it.

It is `clock_timestamp()`, never `now()`, which stands still for a whole transaction. The clock in
`store_state` is a floor under it, so that it never steps back when the server's is set back. Then
it goes on at half the pace of the server's: the first write that finds it standing still notes in
`store_state` from where. A clock that is passed in (in tests) replaces the server's.
"""

from __future__ import annotations

from typing import Final

from leasehold.core.rules.clock import Pace, paced_time, stands_still
from leasehold.env import Env, SystemClock

SERVER_MICROS: Final = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"


class StoreClock:
    """The time, for all reads and writes."""

    def __init__(self, env: Env) -> None:
        self._clock = env.clock
        self.is_the_servers = isinstance(env.clock, SystemClock)

    def read(self, server: int) -> int:
        """The wall clock, given the reading of the server's."""
        return server if self.is_the_servers else self._clock.time_micros()

    def time(self, floor: int, server: int, pace: Pace) -> int:
        """The time now, given the stored time and the reading of the server's clock."""
        return max(floor, paced_time(pace, self.read(server)))

    def new_pace(self, floor: int, server: int, pace: Pace) -> Pace | None:
        """From where to go on if the clock was set back, so that it would stand still."""
        wall = self.read(server)
        return Pace(floor, wall) if stands_still(floor, pace, wall) else None
