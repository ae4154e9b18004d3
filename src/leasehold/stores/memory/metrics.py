"""Metrics: reading what the queues keep, without a look at any job. The rules: rules.metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from leasehold.core.model.records import WorkerInfo
from leasehold.core.model.span import band_of
from leasehold.core.model.status import Status
from leasehold.core.rules.failures import ErrorType
from leasehold.stores.memory import registry
from leasehold.stores.memory.meter import Spans
from leasehold.stores.memory.state import State


class Look(Spans):
    """The state as core.rules.metrics asks for it."""

    def __init__(self, state: State) -> None:
        super().__init__(state)
        self.now = state.now

    def counts(self, queue: str | None) -> Mapping[Status, int]:
        return self._state.stats(queue).counts

    def pending_by_priority(self, queue: str | None) -> Mapping[str, int]:
        by_band: Counter[str] = Counter()
        for _, each in self.chosen(queue):
            for priority, jobs in enumerate(each.lanes.pending_by_priority):
                by_band[band_of(priority)] += jobs
        return by_band

    def oldest_available_at(self, queue: str | None) -> int | None:
        oldest = [each.lanes.oldest_available_at() for _, each in self.chosen(queue)]
        return min((at for at in oldest if at is not None), default=None)

    def leased_by(self) -> Mapping[tuple[str, str], int]:
        return self._state.worked.leased()

    def failed_with(self) -> Mapping[ErrorType, int]:
        return self._state.failures.attempts_by_type

    def workers(self) -> list[WorkerInfo]:
        return registry.workers(self._state)
