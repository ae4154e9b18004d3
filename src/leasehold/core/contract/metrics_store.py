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
    - MET-2  Figures outlive the jobs: to discard or prune jobs changes no minute but the one in
             which it happens.
    - MET-3  A wait lasts from when a job became available until it was leased, a run from the lease
             until the attempt completed or failed. An attempt that was handed back, snoozed,
             cancelled or recovered did not run. Means are exact, percentiles are within 10 %.
    - MET-4  Minutes are kept for 48 hours, days for 400 days; to ask for more, or for a window that
             makes no sense, raises InvalidWindowError. An unknown queue has zeros.
    - MET-11  Submitted jobs and waits are told by bands of priority too: by the job's own priority
             when it is submitted, and when it is leased. The bands add up to the whole.
    - MET-12  `held` is about every lease that ended, in any way, from the lease to its end.
    - MET-13  `retries` tells of each attempt number how often it failed and was followed by
             another one; numbers above RETRY_ATTEMPT_MAX count as that. They add up to `retried`.
    - MET-14  Every lease that is taken from its holder is `lost`, independent of the job's further
             fate; every renewal that is granted is `renewed`.
    - MET-15  `rejected` counts jobs that were refused; `rate_limited` are those of them that came
             too fast, the others met a full queue or store.
    """

    def metrics(
        self, queue: str | None = None, *, window_seconds: float = WINDOW_SECONDS
    ) -> QueueMetrics:
        """One queue, or all, as it stands now, and what happened in the window before.

        - MET-5  Counts and totals are those of `stats`. The window begins with the minute in which
                 it would begin: it may be up to a minute longer than asked for.
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

        - MET-26  One for each queue of `queues`, as `metrics` tells it, all of one moment. More
                 queues do not make it ask a database more often.
        - MET-27  With `durations`, only those are told, and the others are empty: with hundreds of
                 queues, to add all of them up takes most of the time. A name that is none raises
                 InvalidWindowError.
        """

    def series(self, queue: str | None = None, *, minutes: int = 60) -> list[MinutePoint]:
        """One point per minute, oldest first, the last one for the minute that is not over yet.

        - MET-9  A minute in which nothing happened has a point too, with the depth as it was.
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
        """Any metrics, by name, for each minute or day of a stretch of time, oldest first.

        - MET-16  One value of each metric for every minute or day that has begun, from the one of
                 `since` to the one before `until`, or the present one: those of `series` and
                 `daily`.
        - MET-17  A forgotten minute or day has no value (None), and `known_since` says since when
                 there are values. A percentile or mean of nothing has none either; a count of
                 nothing is 0, and so is the age of the oldest pending job while none is pending.
        - MET-18  A name that is no metric, a stretch that ends before it begins, and more than
                 POINTS_MAX points raise InvalidWindowError.
        """

    def failures(
        self, queue: str | None = None, *, task: str | None = None, limit: int = 20
    ) -> list[Failure]:
        """What fails, the most frequent first: attempts counted by the fingerprint of their error.

        - MET-19  Each failed attempt counts once, and so does each whose worker was lost; a
                 cancelled one does not. Two are the same failure if they agree in queue, task,
                 error type, message and innermost own frame, without numbers, ids and addresses.
        - MET-20  It tells when it happened first and last, the latest SAMPLE_MAX jobs, and how
                 often it happened in each of the HOURS_KEPT hours up to the last time. It outlives
                 the jobs.
        - MET-21  A store keeps at most FAILURES_MAX of them. Beyond, failures that happened once
                 are forgotten first, the oldest before others; then those that did not happen for
                 longest.
        """

    def worker_totals(self, *, limit: int = 100) -> list[WorkerTotals]:
        """The lifetime counts of each worker, the one that leased most first.

        - MET-22  Every worker that leases counts, registered or not: every lease, and its end if
                 that was a completion, a failure or a loss, together with the change of the job
                 itself. Its first and last time are told to the minute.
        - MET-23  The WORKERS_KEPT that worked last are kept, a worker that leases from several
                 queues once for each; others may be forgotten.
        """

    def lifetimes(self) -> list[QueueLifetime]:
        """The counts and measurements of each queue since the store was made, by name.

        - MET-24  Counts are those of `stats`, and all waits, runs and holds are in the histograms,
                 however long ago: they only grow, through restarts and clean-ups.
        - MET-25  Leases are told by worker, for those of MET-23; attempts that failed or were lost
                 by the type of their error. At most ERROR_TYPES_MAX types, each in one queue, have
                 names; further ones count as OTHER, and one that did not occur for ERROR_TYPE_KEPT
                 gives its place, and its count, up to a new one.
        """
