"""Figures: counters, rates, failures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Any, Protocol

from leasehold.core.model.failure import Failure
from leasehold.core.model.records import Stats, WorkerTotals
from leasehold.core.model.refusals import check_page
from leasehold.core.rules import failures, metrics
from leasehold.core.rules.lifetime import LifetimeReader, QueueLifetime, lifetimes
from leasehold.core.rules.metrics import WINDOW_SECONDS, DayPoint, MinutePoint, QueueMetrics
from leasehold.core.rules.timeline import ResolutionName, Timeline, timeline
from leasehold.stores.tables.database import TableDatabase
from leasehold.stores.tables.figures import TableFailures, stats, worker_totals
from leasehold.stores.tables.statements import Reader, SqlConnection


class MetricsOf(Protocol):
    """The class of a store's `TableMetrics` over its `Spans`."""

    stats: str

    def __call__(self, db: Any, now: int, lost: Collection[str] = (), /) -> LifetimeReader: ...


class FigureVerbs(ABC):
    """None of them scans jobs."""

    _database: TableDatabase
    _reader: Callable[[Any], Reader]
    _failures: Callable[[Any], TableFailures]
    _metrics: MetricsOf

    @abstractmethod
    def _lost_workers(self, db: Any) -> Collection[str]:
        """Workers proved dead whose jobs are not taken back yet."""

    def stats(self, queue: str | None = None) -> Stats:
        return self._database.look(lambda db: stats(db, self._metrics.stats, queue))

    def metrics(
        self, queue: str | None = None, *, window_seconds: float = WINDOW_SECONDS
    ) -> QueueMetrics:
        return self._database.look(
            lambda db: metrics.metrics(
                self._measured(db, self._lost_workers(db)), queue, window_seconds
            )
        )

    def metrics_by_queue(self, *, window_seconds: float = WINDOW_SECONDS) -> list[QueueMetrics]:
        return self._database.look(
            lambda db: metrics.metrics_by_queue(
                self._measured(db, self._lost_workers(db)), window_seconds
            )
        )

    def series(self, queue: str | None = None, *, minutes: int = 60) -> list[MinutePoint]:
        return self._database.look(lambda db: metrics.series(self._measured(db), queue, minutes))

    def daily(self, queue: str | None = None, *, days: int = 30) -> list[DayPoint]:
        return self._database.look(lambda db: metrics.daily(self._measured(db), queue, days))

    def timeline(
        self,
        metrics: Sequence[str],
        queue: str | None = None,
        *,
        since: datetime,
        until: datetime | None = None,
        resolution: ResolutionName = "minute",
    ) -> Timeline:
        return self._database.look(
            lambda db: timeline(
                self._measured(db), metrics, queue, since=since, until=until, resolution=resolution
            )
        )

    def lifetimes(self) -> list[QueueLifetime]:
        return self._database.look(lambda db: lifetimes(self._measured(db, self._lost_workers(db))))

    def _measured(self, db: SqlConnection, lost: Collection[str] = ()) -> LifetimeReader:
        return self._metrics(db, self._database.now(db), lost)

    def failures(
        self, queue: str | None = None, *, task: str | None = None, limit: int = 20
    ) -> list[Failure]:
        check_page(limit)
        return self._database.look(
            lambda db: failures.in_order(self._failures(db).all(), queue, task)[:limit]
        )

    def worker_totals(self, *, limit: int = 100) -> list[WorkerTotals]:
        check_page(limit)

        def look(db: SqlConnection) -> list[WorkerTotals]:
            totals = worker_totals(self._reader(db), self._measured(db).open_minute())
            return metrics.in_order(totals)[:limit]

        return self._database.look(look)
