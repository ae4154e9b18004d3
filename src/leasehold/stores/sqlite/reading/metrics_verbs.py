"""The store's verbs about metrics; what they read is in metrics.py, what is kept in sampling.py."""

from __future__ import annotations

from leasehold.core.metrics import (
    WINDOW_SECONDS,
    DayPoint,
    MinutePoint,
    QueueMetrics,
    check_days,
    check_minutes,
    check_window,
    day_points,
    metrics_of,
    minute_points,
)
from leasehold.core.span import all_in_all, first_minute, side_by_side
from leasehold.stores.sqlite.reading import metrics
from leasehold.stores.sqlite.reading.sampling import DAYS, MINUTES
from leasehold.stores.sqlite.writing.foundation import Foundation


class KeepsMetrics(Foundation):
    """Figures of queues over time."""

    def metrics(
        self, queue: str | None = None, *, window_seconds: float = WINDOW_SECONDS
    ) -> QueueMetrics:
        check_window(window_seconds)
        with self._read() as db:
            moment = metrics.moment(db, queue, self._clock(db))
            first = first_minute(moment.now, window_seconds)
            records = metrics.records(db, queue, MINUTES, first)
        return metrics_of(queue, first, all_in_all(records, first), moment)

    def series(self, queue: str | None = None, *, minutes: int = 60) -> list[MinutePoint]:
        check_minutes(minutes)
        with self._read() as db:
            last = self._clock(db) // MINUTES.micros
            first = last - minutes + 1
            records = metrics.records(db, queue, MINUTES, first)
        return minute_points(side_by_side(records, first, last), first)

    def daily(self, queue: str | None = None, *, days: int = 30) -> list[DayPoint]:
        check_days(days)
        with self._read() as db:
            last = self._clock(db) // DAYS.micros
            first = last - days + 1
            records = metrics.records(db, queue, DAYS, first)
        return day_points(side_by_side(records, first, last), first)
