"""Figures: counters, rates, failures."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from leasehold.core.model.failure import Failure
from leasehold.core.model.records import (
    Stats,
    WorkerTotals,
)
from leasehold.core.model.refusals import check_page
from leasehold.core.rules import failures, metrics
from leasehold.core.rules.lifetime import QueueLifetime, lifetimes
from leasehold.core.rules.metrics import WINDOW_SECONDS, DayPoint, MinutePoint, QueueMetrics
from leasehold.core.rules.timeline import ResolutionName, Timeline, timeline
from leasehold.stores.memory.heaps import HeapFigures
from leasehold.stores.memory.locked import LockedState
from leasehold.stores.memory.metrics import MetricsReader, heap_figures, stats


class FigureVerbs(LockedState):
    """None of them scans jobs."""

    def stats(self, queue: str | None = None) -> Stats:
        return self._look(stats, queue)

    def metrics(
        self, queue: str | None = None, *, window_seconds: float = WINDOW_SECONDS
    ) -> QueueMetrics:
        return self._look(
            lambda state: metrics.metrics(MetricsReader(state), queue, window_seconds)
        )

    def metrics_by_queue(self, *, window_seconds: float = WINDOW_SECONDS) -> list[QueueMetrics]:
        return self._look(
            lambda state: metrics.metrics_by_queue(MetricsReader(state), window_seconds)
        )

    def series(self, queue: str | None = None, *, minutes: int = 60) -> list[MinutePoint]:
        return self._look(lambda state: metrics.series(MetricsReader(state), queue, minutes))

    def daily(self, queue: str | None = None, *, days: int = 30) -> list[DayPoint]:
        return self._look(lambda state: metrics.daily(MetricsReader(state), queue, days))

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
            lambda state: timeline(
                MetricsReader(state),
                metrics,
                queue,
                since=since,
                until=until,
                resolution=resolution,
            )
        )

    def failures(
        self, queue: str | None = None, *, task: str | None = None, limit: int = 20
    ) -> list[Failure]:
        check_page(limit)
        return self._look(
            lambda state: failures.in_order(state.failures.by_fingerprint.values(), queue, task)[
                :limit
            ]
        )

    def worker_totals(self, *, limit: int = 100) -> list[WorkerTotals]:
        check_page(limit)
        return self._look(lambda state: metrics.in_order(state.worked.totals())[:limit])

    def lifetimes(self) -> list[QueueLifetime]:
        return self._look(lambda state: lifetimes(MetricsReader(state)))

    def heap(self, queue: str | None = None) -> HeapFigures:
        """How healthy the heaps of a queue are, or of all, and when they are rebuilt."""
        return self._look(heap_figures, queue)
