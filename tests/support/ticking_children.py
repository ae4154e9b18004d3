"""What the processes do that fire schedules until they are killed.

All of them go by a clock that runs faster than the wall's, so that a night passes in seconds.
"""

from __future__ import annotations

import threading
import time
from random import Random

from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete
from leasehold.env import ClockReading, Env
from leasehold.stores.sqlite import SQLiteStore


class FastClock:
    """The wall's clock from `start`, but `factor` times as fast; the same in every process."""

    def __init__(self, start_micros: int, begun_ns: int, factor: int) -> None:
        self._start_micros = start_micros
        self._begun_ns = begun_ns
        self._factor = factor

    def time_micros(self) -> int:
        return self._start_micros + (time.time_ns() - self._begun_ns) * self._factor // 1000

    def monotonic(self) -> float:
        return time.monotonic()

    def reading(self) -> ClockReading:
        now = self.time_micros()
        return ClockReading(now, now, now, "fast")

    def wait(self, condition: threading.Condition, seconds: float | None) -> bool:
        return condition.wait(seconds)

    def pause(self, seconds: float) -> None:
        time.sleep(seconds)


def fire_for_ever(path: str, name: str, seed: int, clock: tuple[int, int, int]) -> None:
    """Fire, lease and settle, as workers do."""
    store = SQLiteStore(path, env=Env(FastClock(*clock), Random(seed)))
    random = Random(seed)
    request = LeaseRequest(worker=name, limit=5)
    done: list[Settlement] = []
    while True:
        if random.random() < 0.2:
            store.fire_schedules()
            continue
        leases = store.exchange(done, request).leases
        done = [Settlement(lease.job_id, lease.version, Complete()) for lease in leases]
