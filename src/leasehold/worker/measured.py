"""Leases from measured run times: `lease_seconds="auto"`.

The lease is twice the expected run time: long enough that a few missed heartbeats do no harm, short
enough that a lost worker's jobs do not wait for an hour. If death cannot be proved, the lease
determines how long they wait.
"""

from __future__ import annotations

from typing import Final

FACTOR: Final = 2.0
LEASE_SECONDS_MIN: Final = 30.0
LEASE_SECONDS_MAX: Final = 3600.0
FORGET: Final = 0.98
"""The decay of the memory of the longest run: after a hundred runs, an eighth is left."""
TASKS_MAX: Final = 10_000


class MeasuredLeases:
    """Tracks how long each task runs, and computes the lease that it needs.

    >>> leases = MeasuredLeases()
    >>> leases.measured("report", 120.0)
    >>> leases.by_task
    {'report': 240.0}
    """

    def __init__(self) -> None:
        self._longest: dict[str, float] = {}
        self.by_task: dict[str, float] = {}

    def measured(self, task: str, run_seconds: float) -> None:
        """Record the duration of one run of this task."""
        longest = max(run_seconds, self._longest.get(task, 0.0) * FORGET)
        if task not in self._longest and len(self._longest) >= TASKS_MAX:
            return
        self._longest[task] = longest
        self.by_task[task] = min(max(FACTOR * longest, LEASE_SECONDS_MIN), LEASE_SECONDS_MAX)
