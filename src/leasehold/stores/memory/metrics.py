"""Figures: counters, rates and failures, read without scanning jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime

from leasehold.core.model.failure import Failure
from leasehold.core.model.records import Stats, WorkerInfo, WorkerTotals
from leasehold.core.model.refusals import check_page
from leasehold.core.model.span import band_of
from leasehold.core.model.status import Status
from leasehold.core.rules import failures, metrics
from leasehold.core.rules.failures import ErrorType
from leasehold.core.rules.lifetime import QueueLifetime, lifetimes
from leasehold.core.rules.metrics import (
    WINDOW_SECONDS,
    DayPoint,
    DurationName,
    MinutePoint,
    QueueMetrics,
    QueueStanding,
)
from leasehold.core.rules.timeline import ResolutionName, Timeline, timeline
from leasehold.env import from_micros
from leasehold.stores.memory import registry
from leasehold.stores.memory.heaps import HeapFigures
from leasehold.stores.memory.locked import LockedState
from leasehold.stores.memory.meter import SpanShelf
from leasehold.stores.memory.queue_record import MemoryQueue, QueueTotals
from leasehold.stores.memory.state import State


class FigureVerbs(LockedState):
    """Verbs for figures; none of them scans jobs."""

    def stats(self, queue: str | None = None) -> Stats:
        return self._look(stats, queue)

    def metrics(
        self, queue: str | None = None, *, window_seconds: float = WINDOW_SECONDS
    ) -> QueueMetrics:
        return self._look(
            lambda state: metrics.metrics(MetricsReader(state), queue, window_seconds)
        )

    def metrics_by_queue(
        self,
        *,
        window_seconds: float = WINDOW_SECONDS,
        durations: Sequence[DurationName] | None = None,
    ) -> list[QueueMetrics]:
        return self._look(
            lambda state: metrics.metrics_by_queue(MetricsReader(state), window_seconds, durations)
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
        """The health of the heaps of a queue, or of all, and when they are rebuilt."""
        return self._look(heap_figures, queue)


class MetricsReader(SpanShelf):
    """The state, for core.rules.metrics."""

    def __init__(self, state: State) -> None:
        super().__init__(state)
        self.now = state.now

    def queues(self) -> list[str]:
        return list(self._state.queues)

    def standings(self, queue: str | None) -> Mapping[str, QueueStanding]:
        return {
            name: QueueStanding(dict(each.counts), _by_band(each), each.lanes.oldest_available_at())
            for name, each in self._state.chosen(queue).items()
        }

    def leased_by(self) -> Mapping[tuple[str, str], int]:
        return self._state.worked.leased()

    def failed_with(self) -> Mapping[ErrorType, int]:
        return self._state.failures.attempts_by_type

    def workers(self) -> list[WorkerInfo]:
        return registry.workers(self._state)


def _by_band(queue: MemoryQueue) -> Mapping[str, int]:
    by_band: Counter[str] = Counter()
    for priority, jobs in enumerate(queue.lanes.pending_by_priority):
        by_band[band_of(priority)] += jobs
    return by_band


def stats(state: State, name: str | None) -> Stats:
    """The counters of a queue, or of all."""
    chosen = state.chosen(name).values()
    return Stats(
        counts={status: sum(queue.counts[status] for queue in chosen) for status in Status},
        **{
            total: sum(getattr(queue.totals, total) for queue in chosen)
            for total in QueueTotals.__struct_fields__
        },
    )


def heap_figures(state: State, name: str | None) -> HeapFigures:
    """The health of the heaps of a queue, or of all."""
    counts = [queue.lanes.count for queue in state.chosen(name).values()]
    rebuilt_at = max((each.rebuilt_at or 0 for each in counts), default=0)
    return HeapFigures(
        size=sum(count.size for count in counts),
        dead=sum(count.dead for count in counts),
        rebuilds=sum(count.rebuilds for count in counts),
        last_rebuild_at=from_micros(rebuilt_at) if rebuilt_at else None,
    )
