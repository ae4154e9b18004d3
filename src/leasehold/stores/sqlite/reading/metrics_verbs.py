"""The store's verbs about metrics; what they say is made in core.metrics."""

from __future__ import annotations

from leasehold.core import metrics
from leasehold.core.metrics import WINDOW_SECONDS, DayPoint, MinutePoint, QueueMetrics
from leasehold.stores.sqlite.reading.metrics import Look
from leasehold.stores.sqlite.writing.foundation import Foundation


class KeepsMetrics(Foundation):
    """Figures of queues over time."""

    def metrics(
        self, queue: str | None = None, *, window_seconds: float = WINDOW_SECONDS
    ) -> QueueMetrics:
        with self._read() as db:
            return metrics.metrics(Look(db, self._clock(db)), queue, window_seconds)

    def series(self, queue: str | None = None, *, minutes: int = 60) -> list[MinutePoint]:
        with self._read() as db:
            return metrics.series(Look(db, self._clock(db)), queue, minutes)

    def daily(self, queue: str | None = None, *, days: int = 30) -> list[DayPoint]:
        with self._read() as db:
            return metrics.daily(Look(db, self._clock(db)), queue, days)
