"""The store's clock is the server's, so that every machine agrees about it.

It is `clock_timestamp()`, never `now()`, which stands still for a whole transaction. The clock in
`store_state` is a floor under it, so that it never steps back when the server's is set back. A
clock that is passed in (in tests) replaces the server's.
"""

from __future__ import annotations

from typing import Final

from leasehold.env import Env, SystemClock

SERVER_MICROS: Final = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"


class StoreClock:
    """The time, for all reads and writes."""

    def __init__(self, env: Env) -> None:
        self._clock = env.clock
        self.is_the_servers = isinstance(env.clock, SystemClock)

    def time(self, floor: int, server: int) -> int:
        """The time now, given the stored time and the reading of the server's clock."""
        return max(floor, server if self.is_the_servers else self._clock.time_micros())
