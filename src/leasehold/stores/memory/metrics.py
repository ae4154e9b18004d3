"""Figures: counters, rates and failures, read without scanning jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from leasehold.core.model.failure import Failure
from leasehold.core.model.records import Stats, WorkerInfo, WorkerTotals
from leasehold.core.model.span import band_of
from leasehold.core.model.status import Status
from leasehold.core.rules.failures import ErrorType
from leasehold.core.rules.metrics import QueueStanding
from leasehold.env import from_micros
from leasehold.stores.memory import registry
from leasehold.stores.memory.heaps import HeapFigures
from leasehold.stores.memory.locked import LockedState
from leasehold.stores.memory.meter import SpanShelf
from leasehold.stores.memory.queue_record import MemoryQueue, QueueTotals
from leasehold.stores.memory.state import State
from leasehold.stores.verbs.figures import FigureVerbs


class MemoryFigureVerbs(LockedState, FigureVerbs):
    """What these figures are read from."""

    def _figures(self, look: State) -> MetricsReader:
        return MetricsReader(look)

    def heap(self, queue: str | None = None) -> HeapFigures:
        """The health of the heaps of a queue, or of all, and when they are rebuilt."""
        return self._look(heap_figures, queue)


class MetricsReader(SpanShelf):
    """See `leasehold.stores.verbs.figures.FigureReader`."""

    def __init__(self, state: State) -> None:
        super().__init__(state)
        self.now = state.now

    def stats(self, queue: str | None) -> Stats:
        return stats(self._state, queue)

    def failures(self) -> Iterable[Failure]:
        return self._state.failures.by_fingerprint.values()

    def worker_totals(self) -> Iterable[tuple[str, WorkerTotals]]:
        return self._state.worked.totals()

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
