"""Figures of queues over time, for people."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from leasehold.core.contract.looking import looking
from leasehold.core.contract.store import Store
from leasehold.core.model import checked
from leasehold.core.model.durations import Seconds, given_seconds
from leasehold.core.model.failure import Failure
from leasehold.core.model.queue_config import QueueState
from leasehold.core.model.records import WorkerTotals
from leasehold.core.model.status import Status
from leasehold.core.model.text import shown
from leasehold.core.rules.metrics import (
    RATE_MINUTES,
    WINDOW_SECONDS,
    DayPoint,
    DurationName,
    MinutePoint,
    QueueMetrics,
    estimated_start,
)
from leasehold.core.rules.timeline import ResolutionName, Timeline
from leasehold.errors import InvalidWindowError
from leasehold.queue.looking import Looking
from leasehold.queue.missing import check_queue
from leasehold.queue.options import JobRef


class Metrics:
    """The part of a TaskQueue that reports figures of its queues.

    >>> from leasehold import TaskQueue
    >>> queue = TaskQueue("memory://", num_workers=0)
    >>> jobs = [queue.submit("resize", name) for name in ("cat.png", "dog.png")]
    >>> _ = queue.ack(queue.lease())
    >>> figures = queue.metrics()
    >>> figures.completed, figures.pending, figures.error_rate, figures.run.count
    (1, 1, 0.0, 1)
    >>> sum(point.submitted for point in queue.series(minutes=10))
    2
    """

    def __init__(self, store: Store, jobs: Looking) -> None:
        self.store = store
        self._jobs = jobs

    def metrics(
        self, queue: str | None = None, window_seconds: Seconds = WINDOW_SECONDS
    ) -> QueueMetrics:
        """The present state of a queue, or of all of them, and what happened in the window before.

        Raises InvalidWindowError for more than 48 hours, and QueueNotFoundError for a queue that
        does not exist. No job is scanned for it.
        """
        check_queue(self.store, queue)
        seconds = given_seconds("window_seconds", window_seconds)
        return looking(self.store).metrics(queue, window_seconds=seconds)

    def metrics_by_queue(
        self,
        window_seconds: Seconds = WINDOW_SECONDS,
        *,
        durations: Sequence[DurationName] | None = None,
    ) -> list[QueueMetrics]:
        """The same for every queue, by name: one call, however many there are.

        With `durations`, only those are returned (`["wait"]`), which is faster with hundreds of
        queues.
        """
        seconds = given_seconds("window_seconds", window_seconds)
        return looking(self.store).metrics_by_queue(window_seconds=seconds, durations=durations)

    def series(self, queue: str | None = None, minutes: int = 60) -> list[MinutePoint]:
        """The figures of each of the latest minutes, oldest first, ending with the current one."""
        check_queue(self.store, queue)
        return looking(self.store).series(queue, minutes=minutes)

    def daily(self, queue: str | None = None, days: int = 30) -> list[DayPoint]:
        """The figures of each of the latest days (UTC), oldest first; the last is today."""
        check_queue(self.store, queue)
        return looking(self.store).daily(queue, days=days)

    def timeline(
        self,
        metrics: str | Sequence[str],
        queue: str | None = None,
        *,
        since: datetime | timedelta = timedelta(hours=1),
        until: datetime | None = None,
        resolution: ResolutionName = "minute",
    ) -> Timeline:
        """Any metrics, by name, for each minute or day of a period, oldest first.

        `since` is a time, or how long before now. A value is None if it is unknown: before
        `known_since`, and for a percentile of a minute in which nothing was measured. Raises
        InvalidWindowError for an unknown metric and for more than 2,880 points.
        """
        names = (metrics,) if isinstance(metrics, str) else metrics
        checked.text("resolution", resolution)
        if not isinstance(since, datetime | timedelta):
            raise TypeError(f"since must be a datetime or a timedelta, not {shown(since)}")
        try:
            begin = self.store.now() - since if isinstance(since, timedelta) else since
        except OverflowError:
            raise InvalidWindowError(f"since is too long ago: {since}") from None
        return looking(self.store).timeline(
            names, queue, since=begin, until=until, resolution=resolution
        )

    def failures(
        self, queue: str | None = None, *, task: str | None = None, limit: int = 20
    ) -> list[Failure]:
        """The failures, the most frequent first: how often, since when, and in which jobs.

        Errors that differ only in numbers, ids and addresses are the same failure. Failures outlive
        their jobs; the 1,000 most significant failures of a store are kept.
        """
        return looking(self.store).failures(queue, task=task, limit=limit)

    def worker_totals(self, *, limit: int = 100) -> list[WorkerTotals]:
        """The totals of each worker, alive or gone, ordered by leases, most first.

        The 500 most recently active workers are kept.
        """
        return looking(self.store).worker_totals(limit=limit)

    def estimated_start(self, job: JobRef) -> datetime | None:
        """When a waiting job will probably be leased, at the rate of the latest minutes.

        For a pending job it uses the position, which it has to count, so do not call it in a loop.
        A delayed job starts when it is due at the earliest. None for a job that is not waiting or
        is blocked, while its queue is paused, and if no job of the queue was leased recently.
        """
        snapshot = self._jobs.get(job)
        if snapshot.status in (Status.SCHEDULED, Status.FAILED):
            return snapshot.run_at
        position = self.store.position(snapshot.id)
        info = self.store.queue_info(snapshot.queue)
        if position is None or info is None or info.state is QueueState.PAUSED:
            return None
        points = self.store.series(snapshot.queue, minutes=RATE_MINUTES)
        return estimated_start(position, points, self.store.now())
