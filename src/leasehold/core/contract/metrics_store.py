"""The part of the store contract that is about metrics; `core.contract.store` explains the rest."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from leasehold.core.model.failure import Failure
from leasehold.core.model.records import WorkerTotals
from leasehold.core.rules.lifetime import QueueLifetime
from leasehold.core.rules.metrics import (
    WINDOW_SECONDS,
    DayPoint,
    DurationName,
    MinutePoint,
    QueueMetrics,
)
from leasehold.core.rules.timeline import ResolutionName, Timeline


class MetricsStore(Protocol):
    """Figures of queues over time, kept beside the jobs.

    Nothing here scans jobs: the cost depends on the number of queues and tasks and on the time
    asked for. These clauses hold for all of them:

    - MET-1  Every event counts once, in the minute of the store's clock in which it was written:
             the minutes of a queue add up to its lifetime totals. A write that was rolled back
             counts nowhere.
    - MET-2  Figures outlive the jobs: discarding or pruning jobs changes only the minute in which
             it happens.
    - MET-3  A wait lasts from when a job became available until it was leased, a run from the lease
             until the attempt completed or failed. An attempt that was handed back, snoozed,
             cancelled or recovered counts as no run. Means are exact; percentiles are within 10 %.
    - MET-4  Minutes are kept for 48 hours, days for 400 days; a longer or an invalid window raises
             InvalidWindowError. An unknown queue has zeros.
    - MET-11  Submitted jobs and waits are also reported by bands of priority: by the job's own
             priority when it is submitted, and when it is leased. The bands add up to the total.
    - MET-12  `held` measures every lease that ended, in any way, from its grant to its end.
    - MET-13  `retries` has for each attempt number how often it failed and was followed by another
             one; numbers above RETRY_ATTEMPT_MAX count as that. They add up to `retried`.
    - MET-14  Every lease taken from its holder is `lost`, whatever happens to the job afterwards;
             every granted renewal is `renewed`.
    - MET-15  `rejected` counts jobs that were refused; `rate_limited` counts those of them that
             came too fast; the others met a full queue or store.
    """

    def metrics(
        self, queue: str | None = None, *, window_seconds: float = WINDOW_SECONDS
    ) -> QueueMetrics:
        """The present state of one queue, or of all, and what happened in the window before.

        - MET-5  Counts and totals are those of `stats`. The window is extended to the start of its
                 first minute: it may be up to a minute longer than requested.
        - MET-6  Pending jobs are counted by bands of priority, exactly.
        - MET-7  The age of the oldest pending job counts from when it became available. In strict
                 order (`fifo_mode`), it may be the age of a younger job while delayed or retried
                 jobs stand before it.
        - MET-8  A worker is active for its queues while its latest heartbeat is no older than
                 SILENT_SECONDS.
        """

    def metrics_by_queue(
        self,
        *,
        window_seconds: float = WINDOW_SECONDS,
        durations: Sequence[DurationName] | None = None,
    ) -> list[QueueMetrics]:
        """The metrics of every queue, by name.

        - MET-26  One for each queue of `queues`, as `metrics` returns it, all at one moment. More
                 queues do not mean more queries to a database.
        - MET-27  With `durations`, only those are returned, and the others are empty: with hundreds
                 of queues, adding all of them up takes most of the time. An unknown name raises
                 InvalidWindowError.
        """

    def series(self, queue: str | None = None, *, minutes: int = 60) -> list[MinutePoint]:
        """One point per minute, oldest first, ending with the current minute.

        - MET-9  A minute without events has a point too, with the unchanged depth.
        """

    def daily(self, queue: str | None = None, *, days: int = 30) -> list[DayPoint]:
        """One point per day (UTC), oldest first, the last one for today.

        - MET-10  A day is the sum of its minutes.
        """

    def timeline(
        self,
        metrics: Sequence[str],
        queue: str | None = None,
        *,
        since: datetime,
        until: datetime | None = None,
        resolution: ResolutionName = "minute",
    ) -> Timeline:
        """Any metrics, by name, for each minute or day of a period, oldest first.

        - MET-16  One value of each metric for every minute or day that has begun, from the one of
                 `since` to the one before `until`, or the present one: those of `series` and
                 `daily`.
        - MET-17  A forgotten minute or day has no value (None); `known_since` says since when
                 values are known. A percentile or mean of nothing has no value either; a count of
                 nothing is 0, and so is the age of the oldest pending job while none is pending.
        - MET-18  An unknown metric, a period that ends before it begins, and more than POINTS_MAX
                 points raise InvalidWindowError.
        """

    def failures(
        self, queue: str | None = None, *, task: str | None = None, limit: int = 20
    ) -> list[Failure]:
        """Failures, most frequent first: failed attempts counted by the fingerprint of their error.

        - MET-19  Each attempt that failed or whose worker was lost counts once; a cancelled one
                 does not count. Two are the same failure if they agree in queue, task, error type,
                 message and innermost own frame, without numbers, ids and addresses.
        - MET-20  A failure has its first and last time, the latest SAMPLE_MAX jobs, and how often
                 it happened in each of the HOURS_KEPT hours up to the last time. It outlives the
                 jobs.
        - MET-21  A store keeps at most FAILURES_MAX of them. Beyond that, failures that happened
                 once are forgotten first, oldest first; then those whose last occurrence is longest
                 ago.
        """

    def worker_totals(self, *, limit: int = 100) -> list[WorkerTotals]:
        """The lifetime counts of each worker, ordered by leases, most first.

        - MET-22  Every worker that leases counts, registered or not: every lease, and its end if
                 that was a completion, a failure or a loss, together with the change of the job
                 itself. Its first and last time are exact to the minute.
        - MET-23  The WORKERS_KEPT that worked last are kept, a worker that leases from several
                 queues once for each; others may be forgotten.
        """

    def lifetimes(self) -> list[QueueLifetime]:
        """The counts and measurements of each queue since the store was made, by name.

        - MET-24  Of each queue that has or had jobs or rules. Counts are those of `stats`, and all
                 waits, runs and holds are in the histograms, however long ago: they only grow,
                 through restarts and clean-ups.
        - MET-25  Leases are told by worker, for those of MET-23; attempts that failed or were lost
                 by the type of their error. At most ERROR_TYPES_MAX types, each in one queue, have
                 names; further ones count as OTHER, and one that did not occur for ERROR_TYPE_KEPT
                 gives its place, and its count, up to a new one.
        """
