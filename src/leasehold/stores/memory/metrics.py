"""Metrics: reading the figures that the queues keep. Jobs are never scanned."""

from __future__ import annotations

from collections import Counter

from leasehold.core.metrics import (
    DayPoint,
    MinutePoint,
    Moment,
    QueueMetrics,
    active_workers,
    check_days,
    check_minutes,
    check_window,
    day_points,
    metrics_of,
    minute_points,
)
from leasehold.core.span import (
    COUNTED,
    DAY_MICROS,
    MINUTE_MICROS,
    Record,
    all_in_all,
    band_of,
    first_minute,
    side_by_side,
)
from leasehold.core.status import Status
from leasehold.env import to_micros
from leasehold.stores.memory.figures import MINUTES_PER_DAY
from leasehold.stores.memory.state import MemoryQueue, State


def metrics(state: State, name: str | None, window_seconds: float) -> QueueMetrics:
    check_window(window_seconds)
    first = first_minute(state.now, window_seconds)
    total = all_in_all([_minutes(state, queue) for queue in _chosen(state, name)], first)
    return metrics_of(name, first, total, _moment(state, name))


def series(state: State, name: str | None, minutes: int) -> list[MinutePoint]:
    check_minutes(minutes)
    last = state.now // MINUTE_MICROS
    first = last - minutes + 1
    records = [_minutes(state, queue) for queue in _chosen(state, name)]
    return minute_points(side_by_side(records, first, last), first)


def daily(state: State, name: str | None, days: int) -> list[DayPoint]:
    check_days(days)
    last = state.now // DAY_MICROS
    first = last - days + 1
    records = [_days(state, queue) for queue in _chosen(state, name)]
    return day_points(side_by_side(records, first, last), first)


def _chosen(state: State, name: str | None) -> list[MemoryQueue]:
    return [queue for each, queue in state.queues.items() if name is None or each == name]


def _minutes(state: State, queue: MemoryQueue) -> Record:
    latest = queue.since_last_look()
    spans = dict(queue.figures.minutes)
    if latest.happened:
        spans[state.open_minute] = latest
    return Record(spans, latest.pending)


def _days(state: State, queue: MemoryQueue) -> Record:
    latest = queue.since_last_look()
    spans = dict(queue.figures.days)
    if latest.happened:
        today = state.open_minute // MINUTES_PER_DAY
        earlier = spans.get(today)
        spans[today] = latest if earlier is None else earlier.then(latest)
    return Record(spans, latest.pending)


def _moment(state: State, name: str | None) -> Moment:
    queues = _chosen(state, name)
    totals: Counter[str] = Counter(dict.fromkeys(COUNTED, 0))
    by_band: Counter[str] = Counter()
    for queue in queues:
        totals.update(queue.all_totals())
        for priority, jobs in enumerate(queue.lanes.pending_by_priority):
            by_band[band_of(priority)] += jobs
    oldest = [queue.lanes.oldest_available_at() for queue in queues]
    workers = ((info.queues, to_micros(info.heartbeat_at)) for info in state.workers.values())
    return Moment(
        now=state.now,
        counts={status: sum(queue.counts[status] for queue in queues) for status in Status},
        totals=totals,
        oldest_available_at=min((at for at in oldest if at is not None), default=None),
        pending_by_priority=by_band,
        active_workers=active_workers(workers, name, state.now),
    )
