"""How many jobs to lease ahead of the free slots.

Leasing ahead keeps the threads busy while the store commits, but an urgent job then waits behind
jobs leased before it. So only jobs of a few milliseconds are leased ahead, and only a few
milliseconds' worth of them. For the shortest jobs that is many, and JOBS_MAX are enough. But if the
slots run out of jobs during one exchange, as with a distant store, more are leased ahead until they
no longer do.
"""

from __future__ import annotations

from typing import Final

RUN_SECONDS_MAX: Final = 0.003
"""With longer jobs than this, leasing ahead is not worth the wait that it causes."""
WORK_SECONDS: Final = 0.015
"""How much work to hold ready for each slot."""
JOBS_MAX: Final = 256
JOBS_MAX_OF_SLOW_STORE: Final = 1024
EASE: Final = 0.98
"""The decay of a raised bound after an exchange in which the slots did not run out of jobs."""
WEIGHT: Final = 0.3
"""The weight of the latest measurement against all earlier ones."""
SLOW_SECONDS: Final = 0.05
"""A run that takes this long makes those behind it wait needlessly, however short they are."""
SLOW_SECONDS_MAX: Final = 1.0
FORGET: Final = 0.99
"""The decay of the memory of a slow run: after 300 runs little is left."""


class Prefetch:
    """Tracks the measured run times and decides how far ahead to lease.

    >>> prefetch = Prefetch(slots=4)
    >>> prefetch.jobs_ahead
    0
    >>> prefetch.measured(total_seconds=0.01, runs=10, slowest_seconds=0.002)
    >>> prefetch.jobs_ahead
    60
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._run_seconds: float | None = None
        self._slow_seconds = 0.0
        self._jobs_max = float(JOBS_MAX)
        self.jobs_ahead = 0

    def more_came(self, *, ran_dry: bool) -> None:
        """Handle an exchange that returned as many jobs as requested, and whether slots ran out
        meanwhile.
        """
        raised = self._jobs_max * (2 if ran_dry else EASE)
        self._jobs_max = min(max(raised, JOBS_MAX), JOBS_MAX_OF_SLOW_STORE)

    def measured(self, total_seconds: float, runs: int, slowest_seconds: float) -> None:
        """Record a number of runs, their total time, and the time of the slowest."""
        self._slow_seconds = max(
            min(slowest_seconds, SLOW_SECONDS_MAX), self._slow_seconds * FORGET**runs
        )
        sample = max(total_seconds / runs, 1e-6)
        before = self._run_seconds
        self._run_seconds = sample if before is None else before + WEIGHT * (sample - before)
        self.jobs_ahead = self._reckon(self._run_seconds)

    def reset(self) -> None:
        """Jobs leased ahead did not get their turn: stop leasing ahead for some hundred runs."""
        self._slow_seconds = SLOW_SECONDS_MAX
        self.jobs_ahead = 0

    def _reckon(self, run_seconds: float) -> int:
        if run_seconds > RUN_SECONDS_MAX or self._slow_seconds > SLOW_SECONDS:
            return 0
        return int(min(self._jobs_max, self._slots * WORK_SECONDS / run_seconds))
