"""Workers that are killed (`kill -9`) in the middle of their jobs, and what becomes of those.

A new worker is started for each, and then all are waited for at the same time: a queue that takes
a minute to find its lost jobs does nothing in that minute which others could feel.
"""

from __future__ import annotations

import time
from contextlib import ExitStack

from benchmarks.contest import Fresh, kill
from benchmarks.rivals.effects import Effect
from benchmarks.rounds import Figures, Sizes

JOB_SECONDS = 0.02


class Killed:
    """A contender whose worker was killed when it had done a third of its jobs."""

    def __init__(self, fresh: Fresh, sizes: Sizes, stack: ExitStack) -> None:
        self._fresh = fresh
        self._sizes = sizes
        # One job is submitted before those that are timed.
        self._jobs = sizes.killed + 1
        fresh.submit(sizes.killed, "submit", JOB_SECONDS)
        with fresh.worker() as first:
            fresh.wait_for(sizes.killed // 3, sizes.seconds_max)
            kill(first)
        self._killed_at = time.time()
        stack.enter_context(fresh.worker())

    def is_over(self) -> bool:
        """Whether all have run, or have had their time."""
        waited = time.time() - self._killed_at
        return waited > self._sizes.recovery_seconds_max or len(self._first_runs()) == self._jobs

    def figures(self) -> Figures:
        first_runs = self._first_runs()
        figures: Figures = {
            "kill -9, jobs not run again": self._jobs - len(first_runs),
            "kill -9, jobs run twice": len(self._fresh.effects()) - len(first_runs),
        }
        if len(first_runs) == self._jobs:
            last = max(each.ran for each in first_runs.values())
            figures["kill -9, seconds until all have run"] = max(0.0, last - self._killed_at)
        return figures

    def _first_runs(self) -> dict[int, Effect]:
        """By the number of the job."""
        return {each.number: each for each in reversed(self._fresh.effects())}
