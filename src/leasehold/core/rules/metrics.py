"""Metrics: a queue's figures as people see them, and forecasts made from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any, Final, Literal, NamedTuple, Protocol

import msgspec

from leasehold.core.model.histogram import NOTHING, Durations
from leasehold.core.model.phrases import listed
from leasehold.core.model.records import WorkerInfo, WorkerTotals, is_at_work
from leasehold.core.model.span import (
    BANDS,
    COUNTED,
    DAYS_KEPT,
    MINUTE_MICROS,
    MINUTES_KEPT,
    SUBMITTED_IN,
    SUMMED,
    WAIT_IN,
    Measure,
    QueueSpans,
    Span,
    all_in_all,
    counts_of,
    first_minute,
    side_by_side,
    together,
)
from leasehold.core.model.status import Status
from leasehold.core.model.totals import Totals
from leasehold.core.rules.sampling import (
    Resolution,
    SpanReader,
    spans_of,
    spans_of_all,
    summed_of_each,
)
from leasehold.env import EPOCH, from_micros
from leasehold.errors import InvalidWindowError

WINDOW_SECONDS: Final = 3600.0
"""The default window of metrics."""
RATE_MINUTES: Final = 5
"""The minutes over which the rate of leases is measured to estimate a start."""
_STATUSES: Final = tuple(Status)
DurationName = Literal["wait", "run", "held", "wait_by_priority"]
MEASURES_OF: Final[Mapping[str, Collection[Measure]]] = {
    "wait": (*WAIT_IN.values(),),
    "run": (Measure.RUN,),
    "held": (Measure.RUN, Measure.NO_RUN),
    "wait_by_priority": (*WAIT_IN.values(),),
}
"""The measures from which durations are made."""
DURATIONS: Final = (*MEASURES_OF,)
NOTHING_HAPPENED: Final = Span()


class Figures(Totals, frozen=True, kw_only=True):
    """What happened during a period."""

    pending: int = 0
    """How many jobs were pending at its end."""
    pending_before: int = 0
    """How many jobs were pending at its beginning."""
    deepest: int = 0
    """The most pending jobs at a minute's beginning or end; for all queues, the deepest one's."""
    error_rate: float = 0.0
    """The share of failed attempts among completed and failed ones; 0 without any."""
    wait: Durations = Durations()
    """The time from when a job became available until it was leased, for each lease."""
    run: Durations = Durations()
    """The time from the lease to its end, for each attempt that completed or failed."""
    held: Durations = Durations()
    """The same for every lease that ended, including those handed back, cancelled or lost."""
    submitted_by_priority: dict[str, int] = msgspec.field(default_factory=dict)
    """How many jobs of each band of priority were submitted."""
    wait_by_priority: dict[str, Durations] = msgspec.field(default_factory=dict)
    """How long the jobs of each band waited."""
    retries: dict[int, int] = msgspec.field(default_factory=dict)
    """By number of attempt, from 1: how often it failed and was followed by another one."""

    @property
    def refused(self) -> dict[str, int]:
        """How many jobs were refused, by reason."""
        return {
            "queue_full": self.rejected - self.rate_limited,
            "rate_limited": self.rate_limited,
        }


class MinutePoint(Figures, frozen=True, kw_only=True):
    """What happened in one minute."""

    at: datetime
    """When the minute began."""


class DayPoint(Figures, frozen=True, kw_only=True):
    """What happened on one day."""

    day: date
    """The day, in UTC."""


class QueueMetrics(Figures, frozen=True, kw_only=True):
    """The present state of one queue, or of all of them, and what happened before."""

    queue: str | None
    """None for all queues."""
    at: datetime
    since: datetime
    """The start of the window, a full minute."""
    counts: dict[Status, int]
    """How many jobs have each status now."""
    totals: dict[str, int]
    """Lifetime totals, under the names above, with `submitted_low` and so on by band."""
    throughput_per_second: float = 0.0
    """Completed jobs per second, over the window."""
    oldest_pending_age_seconds: float | None = None
    """How long the longest-waiting available job has waited; None if none waits."""
    pending_by_priority: dict[str, int] = msgspec.field(default_factory=dict)
    """The number of pending jobs in each band of priority."""
    active_workers: int = 0
    """Workers of this queue that gave a sign of life within the last two minutes."""


class QueueStanding(NamedTuple):
    """The present state of one queue."""

    counts: Mapping[Status, int]
    """The number of jobs in each status."""
    pending_by_priority: Mapping[str, int]
    """The number of pending jobs in each band."""
    oldest_available_at: int | None
    """When the longest-waiting pending job became available."""


class MetricsReader(SpanReader, Protocol):
    """The present state of a store, in addition to what happened.

    Nothing here scans jobs, and the number of queries does not grow with the number of queues.
    """

    @property
    def now(self) -> int:
        """In microseconds since 1970."""

    def queues(self) -> Iterable[str]:
        """Every queue that has or had jobs or rules."""

    def standings(self, queue: str | None) -> Mapping[str, QueueStanding]:
        """The state of each queue that ever had jobs, or of this queue."""

    def workers(self) -> Iterable[WorkerInfo]:
        """The workers and consumers of the registry that are not proved dead."""


def metrics(reader: MetricsReader, queue: str | None, window_seconds: float) -> QueueMetrics:
    """The present state of a queue, or of all of them, and what happened in the window before."""
    check_window(window_seconds)
    now = reader.now
    first = first_minute(now, window_seconds)
    if queue is None:
        of_all = reader.totals_of_all()
        totals: Collection[Span] = [of_all]
        spans: Collection[QueueSpans] = [spans_of_all(reader, Resolution.MINUTE, first, of_all)]
    else:
        of_each = reader.totals(queue)
        totals = of_each.values()
        spans = spans_of(reader, queue, Resolution.MINUTE, first, of_each).values()
    return _metrics_of(
        queue,
        now,
        first,
        all_in_all(spans, first),
        totals,
        reader.standings(queue).values(),
        active_workers(reader.workers(), queue, now),
    )


def metrics_by_queue(
    reader: MetricsReader, window_seconds: float, durations: Sequence[str] | None
) -> list[QueueMetrics]:
    """The metrics of each queue, by name, from a few reads for all of them."""
    check_window(window_seconds)
    asked = _asked(durations)
    measures = {Measure.RETRY, *(each for name in asked for each in MEASURES_OF[name])}
    now = reader.now
    first = first_minute(now, window_seconds)
    totals = reader.totals(None)
    spans = summed_of_each(reader, first, totals, measures)
    standings = reader.standings(None)
    workers = active_by_queue(reader.workers(), now)
    return [
        _metrics_of(
            queue,
            now,
            first,
            spans.get(queue, NOTHING_HAPPENED),
            [totals[queue]] if queue in totals else [],
            [standings[queue]] if queue in standings else [],
            workers[queue],
            asked,
        )
        for queue in sorted(reader.queues())
    ]


def _metrics_of(
    queue: str | None,
    now: int,
    first: int,
    span: Span,
    totals: Collection[Span],
    standings: Collection[QueueStanding],
    workers: int,
    durations: Collection[str] = DURATIONS,
) -> QueueMetrics:
    seconds = (now - first * MINUTE_MICROS) / 1e6
    stands = _side_by_side(standings)
    oldest = stands.oldest_available_at
    return QueueMetrics(
        queue=queue,
        at=from_micros(now),
        since=from_micros(first * MINUTE_MICROS),
        counts={status: stands.counts[status] for status in _STATUSES},
        totals=dict(zip(SUMMED, counts_of(together([*totals])), strict=True)),
        throughput_per_second=span.completed / seconds if seconds else 0.0,
        oldest_pending_age_seconds=None if oldest is None else (now - oldest) / 1e6,
        pending_by_priority={band: stands.pending_by_priority.get(band, 0) for band in BANDS},
        active_workers=workers,
        **_figures(span, durations),
    )


def _side_by_side(standings: Collection[QueueStanding]) -> QueueStanding:
    """The states of several queues, added up."""
    if len(standings) == 1:
        return next(iter(standings))
    since = [each.oldest_available_at for each in standings]
    return QueueStanding(
        {status: sum(each.counts[status] for each in standings) for status in Status},
        {band: sum(each.pending_by_priority.get(band, 0) for each in standings) for band in BANDS},
        min((at for at in since if at is not None), default=None),
    )


def series(reader: MetricsReader, queue: str | None, minutes: int) -> list[MinutePoint]:
    """One point per minute, ending with the current minute."""
    check_minutes(minutes)
    return [
        MinutePoint(at=from_micros(minute * MINUTE_MICROS), **_figures(span))
        for minute, span in _latest(reader, queue, Resolution.MINUTE, minutes)
    ]


def daily(reader: MetricsReader, queue: str | None, days: int) -> list[DayPoint]:
    """One point per day, the last one for today."""
    check_days(days)
    return [
        DayPoint(day=EPOCH.date() + timedelta(days=day), **_figures(span))
        for day, span in _latest(reader, queue, Resolution.DAY, days)
    ]


def _latest(
    reader: MetricsReader, queue: str | None, resolution: Resolution, number: int
) -> Iterable[tuple[int, Span]]:
    last = reader.now // resolution.micros
    first = last - number + 1
    spans = side_by_side(spans_of(reader, queue, resolution, first).values(), first, last)
    return enumerate(spans, start=first)


def _figures(span: Span, durations: Collection[str] = DURATIONS) -> dict[str, Any]:
    run = span.runs.summary() if "run" in durations or "held" in durations else NOTHING
    by_priority = "wait_by_priority" in durations
    return {
        **dict(zip(COUNTED, counts_of(span), strict=False)),
        "pending": span.pending,
        "pending_before": span.pending_before,
        "deepest": span.deepest,
        "error_rate": error_rate(span),
        "wait": span.waits.summary() if "wait" in durations else NOTHING,
        "run": run if "run" in durations else NOTHING,
        "held": (span.holds.summary() if Measure.NO_RUN in span.measures else run)
        if "held" in durations
        else NOTHING,
        "submitted_by_priority": {band: getattr(span, SUBMITTED_IN[band]) for band in BANDS},
        "wait_by_priority": {
            band: waits.summary()
            if by_priority and (waits := span.measures.get(measure))
            else NOTHING
            for band, measure in WAIT_IN.items()
        },
        "retries": dict(sorted(span.retries.items())),
    }


def error_rate(span: Span) -> float:
    """The share of failed attempts among completed and failed ones; 0 without any."""
    ended = span.completed + span.failed
    return span.failed / ended if ended else 0.0


def active_workers(workers: Iterable[WorkerInfo], queue: str | None, now: int) -> int:
    """How many of these workers are at work for the queue now."""
    at = from_micros(now)
    return sum(is_at_work(each, at) and (queue is None or queue in each.queues) for each in workers)


def active_by_queue(workers: Iterable[WorkerInfo], now: int) -> Counter[str]:
    """How many of these workers are at work for each queue now."""
    at = from_micros(now)
    return Counter(queue for each in workers if is_at_work(each, at) for queue in set(each.queues))


def in_order(totals: Iterable[tuple[str, WorkerTotals]]) -> list[WorkerTotals]:
    """The totals of each worker from its totals by queue, ordered by leases, most first."""
    by_worker: dict[str, WorkerTotals] = {}
    for _, each in totals:
        known = by_worker.get(each.worker)
        by_worker[each.worker] = each if known is None else known.beside(each)
    return sorted(by_worker.values(), key=lambda each: (-each.leased, each.worker))


def estimated_start(position: int, points: Sequence[MinutePoint], now: datetime) -> datetime | None:
    """When a job at this position will be leased, at the rate of the latest minutes.

    Minutes before the first lease do not count: perhaps no worker ran then. None if nothing was
    leased at all.
    """
    served = next((n for n, point in enumerate(points) if point.leased), None)
    if served is None:
        return None
    seconds = max(1.0, (now - points[served].at).total_seconds())
    leased = sum(point.leased for point in points[served:])
    return now + timedelta(seconds=(position + 1) * seconds / leased)


# -- the checks of a request -------------------------------------------------------------------


def check_window(seconds: float) -> None:
    """Refuse a window for which no figures are kept."""
    longest = MINUTES_KEPT * 60
    # The comparison also refuses NaN, which is neither above nor below anything.
    if (
        isinstance(seconds, bool)
        or not isinstance(seconds, int | float)
        or not 1 <= seconds <= longest
    ):
        raise InvalidWindowError(
            f"window_seconds must be from 1 to {longest} (48 hours, for which minutes are kept), "
            f"not {seconds!r}: use daily() to look further back"
        )


def _asked(durations: Sequence[str] | None) -> Sequence[str]:
    """The durations to return; refuses an unknown name."""
    if isinstance(durations, str) or not isinstance(durations, Sequence | None):
        raise InvalidWindowError(f"durations must be a list of names, not {durations!r}")
    for name in durations or ():
        if name not in MEASURES_OF:
            raise InvalidWindowError(
                f"there are no durations {name!r}: choose from {listed(DURATIONS)}"
            )
    return DURATIONS if durations is None else durations


def check_minutes(minutes: int) -> None:
    """Refuse a series for which no figures are kept."""
    if not _is_count(minutes, MINUTES_KEPT):
        raise InvalidWindowError(
            f"minutes must be a whole number from 1 to {MINUTES_KEPT} (48 hours), not {minutes!r}: "
            "use daily() to look further back"
        )


def check_days(days: int) -> None:
    """Refuse a series for which no figures are kept."""
    if not _is_count(days, DAYS_KEPT):
        raise InvalidWindowError(
            f"days must be a whole number from 1 to {DAYS_KEPT}, not {days!r}: older days are "
            f"not kept"
        )


def _is_count(value: object, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most
