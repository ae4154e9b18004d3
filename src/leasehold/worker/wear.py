"""When a worker is worn out: too many jobs, too much memory, slots that do not come back."""

from __future__ import annotations

from typing import Final

from leasehold.worker.memory import resident_mb
from leasehold.worker.stopping import StopReason

HALF_STUCK_SECONDS_MAX: Final = 60.0
"""How long half of the slots may be filled by code that does not stop."""
MEMORY_CHECK_SECONDS: Final = 1.0


class Wear:
    """Watches one worker's limits."""

    def __init__(self, *, slots: int, max_jobs: int | None, max_memory_mb: float | None) -> None:
        self._slots = slots
        self._max_jobs = max_jobs
        self._max_memory_mb = max_memory_mb
        self._memory_checked_at = float("-inf")
        self._half_stuck_since: float | None = None

    def jobs_left(self, started_jobs: int) -> float:
        """How many more jobs may be started."""
        return float("inf") if self._max_jobs is None else self._max_jobs - started_jobs

    def reason(self, now: float, *, started_jobs: int, stuck: int) -> StopReason | None:
        """Why the worker should be started anew; None while it need not be."""
        if self.jobs_left(started_jobs) <= 0:
            return StopReason.MAX_JOBS
        if self._memory_is_used_up(now):
            return StopReason.MAX_MEMORY
        if self._too_many_stuck(now, stuck):
            return StopReason.STUCK
        return None

    def next_moment(self) -> float:
        """When half of the slots will have been stuck for too long."""
        if self._half_stuck_since is None:
            return float("inf")
        return self._half_stuck_since + HALF_STUCK_SECONDS_MAX

    def stuck_were_replaced(self) -> None:
        """There are new slots in place of the stuck ones."""
        self._half_stuck_since = None

    def _memory_is_used_up(self, now: float) -> bool:
        limit_mb = self._max_memory_mb
        if limit_mb is None or now < self._memory_checked_at + MEMORY_CHECK_SECONDS:
            return False
        self._memory_checked_at = now
        return resident_mb() > limit_mb

    def _too_many_stuck(self, now: float, stuck: int) -> bool:
        if stuck == 0 or stuck * 2 < self._slots:
            self._half_stuck_since = None
            return False
        if self._half_stuck_since is None:
            self._half_stuck_since = now
        return stuck >= self._slots or now >= self.next_moment()
