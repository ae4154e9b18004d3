"""The part of the store contract that is about metrics; `core.contract.store` explains the rest."""

from __future__ import annotations

from typing import Protocol

from leasehold.core.rules.metrics import WINDOW_SECONDS, DayPoint, MinutePoint, QueueMetrics


class MetricsStore(Protocol):
    """Figures of queues over time, kept beside the jobs.

    Nothing here scans jobs: what it costs depends on the number of queues and tasks and on the time
    asked for. What holds for all of them:

    - MET-1  Whatever is counted counts once, in the minute of the store's clock in which it was
             written: the minutes of a queue add up to its lifetime totals. What was rolled back
             counts nowhere.
    - MET-2  Figures outlive the jobs: to discard or prune jobs changes no minute but the one in
             which it happens.
    - MET-3  A wait lasts from when a job became available until it was leased, a run from the lease
             until the attempt completed or failed. What was handed back, snoozed, cancelled or
             recovered did not run. Means are exact, percentiles are within 10 %.
    - MET-4  Minutes are kept for 48 hours, days for 400 days; to ask for more, or for what makes no
             sense, raises InvalidWindowError. A queue that nobody ever heard of has zeros.
    """

    def metrics(
        self, queue: str | None = None, *, window_seconds: float = WINDOW_SECONDS
    ) -> QueueMetrics:
        """One queue, or all, as it stands now, and what happened in the window before.

        - MET-5  Counts and totals are those of `stats`. The window begins with the minute in which
                 it would begin: it may be up to a minute longer than asked for.
        - MET-6  Pending jobs are counted by bands of priority, exactly.
        - MET-7  The age of the oldest pending job counts from when it became available. In strict
                 order (`fifo_mode`), it may be that of a younger one while jobs that were delayed
                 or retried stand before it.
        - MET-8  A worker is active for its queues while its latest heartbeat is no older than
                 SILENT_SECONDS.
        """

    def series(self, queue: str | None = None, *, minutes: int = 60) -> list[MinutePoint]:
        """One point per minute, oldest first, the last one for the minute that is not over yet.

        - MET-9  A minute in which nothing happened has a point too, with the depth as it was.
        """

    def daily(self, queue: str | None = None, *, days: int = 30) -> list[DayPoint]:
        """One point per day (UTC), oldest first, the last one for today.

        - MET-10  A day is the sum of its minutes.
        """
