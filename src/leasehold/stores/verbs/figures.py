"""Figures: counters, rates and failures, without a scan of jobs; `core.rules.metrics` decides."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Protocol

from leasehold.core.model.failure import Failure
from leasehold.core.model.records import Stats, WorkerTotals
from leasehold.core.model.refusals import check_page
from leasehold.core.rules import failures, metrics
from leasehold.core.rules.lifetime import LifetimeReader, QueueLifetime, lifetimes
from leasehold.core.rules.metrics import (
    WINDOW_SECONDS,
    DayPoint,
    DurationName,
    MinutePoint,
    QueueMetrics,
)
from leasehold.core.rules.timeline import ResolutionName, Timeline, timeline
from leasehold.stores.verbs.atomic import AtomicStore


class FigureReader(LifetimeReader, Protocol):
    """The figures of a store, as one look finds them."""

    def stats(self, queue: str | None) -> Stats:
        """The counters of a queue, or of all."""

    def failures(self) -> Iterable[Failure]:
        """All failures that are kept."""

    def worker_totals(self) -> Iterable[tuple[str, WorkerTotals]]:
        """The totals of each worker, by queue."""


class FigureVerbs(AtomicStore):
    """Verbs for figures; none of them scans jobs."""

    @abstractmethod
    def _figures(self, look: Any) -> FigureReader: ...

    def stats(self, queue: str | None = None) -> Stats:
        return self._look(lambda look: self._figures(look).stats(queue))

    def metrics(
        self, queue: str | None = None, *, window_seconds: float = WINDOW_SECONDS
    ) -> QueueMetrics:
        return self._look(lambda look: metrics.metrics(self._figures(look), queue, window_seconds))

    def metrics_by_queue(
        self,
        *,
        window_seconds: float = WINDOW_SECONDS,
        durations: Sequence[DurationName] | None = None,
    ) -> list[QueueMetrics]:
        return self._look(
            lambda look: metrics.metrics_by_queue(self._figures(look), window_seconds, durations)
        )

    def series(self, queue: str | None = None, *, minutes: int = 60) -> list[MinutePoint]:
        return self._look(lambda look: metrics.series(self._figures(look), queue, minutes))

    def daily(self, queue: str | None = None, *, days: int = 30) -> list[DayPoint]:
        return self._look(lambda look: metrics.daily(self._figures(look), queue, days))

    def timeline(
        self,
        metrics: Sequence[str],
        queue: str | None = None,
        *,
        since: datetime,
        until: datetime | None = None,
        resolution: ResolutionName = "minute",
    ) -> Timeline:
        return self._look(
            lambda look: timeline(
                self._figures(look),
                metrics,
                queue,
                since=since,
                until=until,
                resolution=resolution,
            )
        )

    def lifetimes(self) -> list[QueueLifetime]:
        return self._look(lambda look: lifetimes(self._figures(look)))

    def failures(
        self, queue: str | None = None, *, task: str | None = None, limit: int = 20
    ) -> list[Failure]:
        check_page(limit)
        return self._look(
            lambda look: failures.in_order(self._figures(look).failures(), queue, task)[:limit]
        )

    def worker_totals(self, *, limit: int = 100) -> list[WorkerTotals]:
        check_page(limit)
        return self._look(
            lambda look: metrics.in_order(self._figures(look).worker_totals())[:limit]
        )
