"""Spans: what happened in a queue during a minute, a day or any stretch of time, as stores keep it.

A store counts for ever and looks at its counts once a minute: the difference of two looks is what
happened in between. Spans of one queue are added up along time, those of several queues side by
side. Minutes in which nothing happened are not kept; `filled` puts them back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Final, NamedTuple

import msgspec

from leasehold.core.model.histogram import Histogram, sum_of
from leasehold.core.model.job import Priority

MINUTE_MICROS: Final = 60_000_000
DAY_MICROS: Final = 24 * 60 * MINUTE_MICROS
MINUTES_KEPT: Final = 48 * 60
DAYS_KEPT: Final = 400

COUNTED: Final = (
    "submitted",
    "leased",
    "completed",
    "failed",
    "retried",
    "dead",
    "cancelled",
    "recovered",
    "rejected",
    "cleaned",
)
"""What is counted for ever, and thereby for each minute."""
SUMMED: Final = (*COUNTED, "wait_micros", "run_micros")

BANDS: Final = ("low", "medium", "high", "critical")
"""Bands of priority, each from the priority of that name up to the next one's; low from 0."""


def band_of(priority: int) -> str:
    """The band that a priority belongs to.

    >>> [band_of(priority) for priority in (0, 49, 50, 75, 99, 100)]
    ['low', 'low', 'medium', 'high', 'high', 'critical']
    """
    above = (priority >= each for each in (Priority.MEDIUM, Priority.HIGH, Priority.CRITICAL))
    return BANDS[sum(above)]


class Span(msgspec.Struct, frozen=True):
    """What happened in one queue, or in several, during some time."""

    submitted: int = 0
    leased: int = 0
    completed: int = 0
    failed: int = 0
    retried: int = 0
    dead: int = 0
    cancelled: int = 0
    recovered: int = 0
    rejected: int = 0
    cleaned: int = 0
    wait_micros: int = 0
    run_micros: int = 0
    pending_before: int = 0
    """Pending jobs when it began, and when it ended."""
    pending: int = 0
    deepest: int = 0
    """The most pending jobs at the begin or end of a minute; of several queues the deepest's."""
    waits: Histogram = {}
    runs: Histogram = {}

    @classmethod
    def idle(cls, pending: int) -> Span:
        """A time in which nothing happened."""
        return cls(pending_before=pending, pending=pending, deepest=pending)

    @property
    def happened(self) -> bool:
        """Whether it is worth keeping."""
        return self.pending != self.pending_before or any(getattr(self, name) for name in SUMMED)

    def then(self, later: Span) -> Span:
        """This and what happened next in the same queue, as one."""
        return self._plus(later, pending_before=self.pending_before, pending=later.pending)

    def beside(self, other: Span) -> Span:
        """This and what happened at the same time in another queue, as one."""
        return self._plus(
            other,
            pending_before=self.pending_before + other.pending_before,
            pending=self.pending + other.pending,
        )

    def _plus(self, other: Span, *, pending_before: int, pending: int) -> Span:
        return Span(
            **{name: getattr(self, name) + getattr(other, name) for name in SUMMED},
            pending_before=pending_before,
            pending=pending,
            deepest=max(self.deepest, other.deepest),
            waits=sum_of(self.waits, other.waits),
            runs=sum_of(self.runs, other.runs),
        )


def growth(before: Span, totals: Span) -> Span:
    """What happened between two looks at totals; the later ones have the histograms of it."""
    return Span(
        **{name: getattr(totals, name) - getattr(before, name) for name in SUMMED},
        pending_before=before.pending,
        pending=totals.pending,
        deepest=max(before.pending, totals.pending),
        waits=totals.waits,
        runs=totals.runs,
    )


def first_minute(now: int, window_seconds: float) -> int:
    """The number of the minute in which a window begins that ends now."""
    return (now - round(window_seconds * 1e6)) // MINUTE_MICROS


class QueueSpans(NamedTuple):
    """What is known of one queue: its spans by number (of the minute, or day), and its depth."""

    spans: Mapping[int, Span]
    pending: int


def filled(each: QueueSpans, first: int, last: int) -> list[Span]:
    """One span for each number from `first` to `last`, which is now; idle where nothing happened.

    Filled from the end, where the depth is known; each span knows the depth before it.
    """
    pending = each.pending
    spans = []
    for number in range(last, first - 1, -1):
        span = each.spans.get(number) or Span.idle(pending)
        pending = span.pending_before
        spans.append(span)
    return spans[::-1]


def side_by_side(queues: Iterable[QueueSpans], first: int, last: int) -> list[Span]:
    """One span for each number, of all these queues together."""
    together = [Span()] * (last - first + 1)
    for each in queues:
        spans = filled(each, first, last)
        together = [one.beside(two) for one, two in zip(together, spans, strict=True)]
    return together


def all_in_all(queues: Iterable[QueueSpans], first: int) -> Span:
    """One span for everything from `first` on, of all these queues together."""
    total = Span()
    for each in queues:
        spans = [each.spans[number] for number in sorted(each.spans) if number >= first]
        total = total.beside(reduce(Span.then, spans) if spans else Span.idle(each.pending))
    return total
