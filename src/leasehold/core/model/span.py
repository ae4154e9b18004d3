"""Spans: what happened in a queue during a minute, a day or any period, as stores keep it.

A store keeps lifetime counts and reads them once a minute: the difference of two readings is what
happened in between. Spans of one queue are added along time, spans of several queues side by side.
Minutes in which nothing happened are not kept; `filled` puts them back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import IntEnum
from operator import attrgetter
from typing import Final, NamedTuple

import msgspec

from leasehold.core.model.histogram import Histogram, Measurements, sum_of
from leasehold.core.model.job import Priority
from leasehold.core.model.totals import Totals

MINUTE_MICROS: Final = 60_000_000
DAY_MICROS: Final = 24 * 60 * MINUTE_MICROS
MINUTES_KEPT: Final = 48 * 60
DAYS_KEPT: Final = 400
WORKERS_KEPT: Final = 500
"""How many workers have counts kept: those that worked last.

A worker that leases from several queues counts once for each of them.
"""

COUNTED: Final = (
    "submitted",
    "leased",
    "completed",
    "failed",
    "retried",
    "dead",
    "cancelled",
    "lost",
    "recovered",
    "renewed",
    "rejected",
    "rate_limited",
    "cleaned",
)
"""The lifetime counts, from which those of each minute follow."""

BANDS: Final = ("low", "medium", "high", "critical")
"""Bands of priority, each from the priority of that name up to the next one's; low from 0."""
SUBMITTED_IN: Final = {band: f"submitted_{band}" for band in BANDS}
"""The counts kept for each band."""
SUMMED: Final = (*COUNTED, *SUBMITTED_IN.values())
counts_of: Final = attrgetter(*SUMMED)
"""The counts of totals or a span, in the order of SUMMED."""


class Measure(IntEnum):
    """The measurements of each attempt. The numbers are stored."""

    WAIT_LOW = 0
    """How long jobs of a band waited for their lease."""
    WAIT_MEDIUM = 1
    WAIT_HIGH = 2
    WAIT_CRITICAL = 3
    RUN = 4
    """How long completed and failed attempts ran."""
    NO_RUN = 5
    """How long the other leases were held: handed back, cancelled or lost."""
    RETRY = 6
    """Not a duration: the number of an attempt that failed and is followed by another one."""


WAIT_IN: Final = {band: Measure(number) for number, band in enumerate(BANDS)}
RETRY_ATTEMPT_MAX: Final = 20
"""Attempts beyond this number are counted under it."""


def band_of(priority: int) -> str:
    """The band of a priority.

    >>> [band_of(priority) for priority in (0, 49, 50, 75, 99, 100)]
    ['low', 'low', 'medium', 'high', 'high', 'critical']
    """
    above = (priority >= each for each in (Priority.MEDIUM, Priority.HIGH, Priority.CRITICAL))
    return BANDS[sum(above)]


WAIT_OF_PRIORITY: Final = tuple(WAIT_IN[band_of(priority)] for priority in range(101))


class Span(Totals, frozen=True, gc=False):
    """What happened in one queue, or in several, during some time."""

    submitted_low: int = 0
    submitted_medium: int = 0
    submitted_high: int = 0
    submitted_critical: int = 0
    pending_before: int = 0
    """Pending jobs at its beginning, and at its end."""
    pending: int = 0
    deepest: int = 0
    """The most pending jobs at the beginning or end of a minute; for several queues, the deepest
    one's.
    """
    oldest_micros: int = 0
    """The longest wait of an available job at the end of a minute."""
    measures: dict[int, Measurements] = msgspec.field(default_factory=dict)
    """The measurements that are not empty, by `Measure`."""

    @classmethod
    def idle(cls, pending: int) -> Span:
        """A span in which nothing happened."""
        return cls(pending_before=pending, pending=pending, deepest=pending)

    @property
    def happened(self) -> bool:
        """Whether anything happened, so that the span is worth keeping."""
        return self.pending != self.pending_before or bool(self.measures) or any(counts_of(self))

    def measured(self, *measures: Measure) -> Measurements:
        """All measurements of these kinds, merged."""
        found = [self.measures[each] for each in measures if each in self.measures]
        return found[0] if len(found) == 1 else sum_of(found)

    @property
    def waits(self) -> Measurements:
        return self.measured(*WAIT_IN.values())

    @property
    def runs(self) -> Measurements:
        return self.measured(Measure.RUN)

    @property
    def holds(self) -> Measurements:
        """How long leases were held, however they ended."""
        return self.measured(Measure.RUN, Measure.NO_RUN)

    @property
    def retries(self) -> Histogram:
        """By number of attempt, how often it failed and was followed by another one."""
        return self.measured(Measure.RETRY).buckets

    def with_measures(self, measures: Collection[int]) -> Span:
        """The same span with only these measures."""
        found = {each: self.measures[each] for each in measures if each in self.measures}
        return msgspec.structs.replace(self, measures=found)

    def with_measures_of(self, other: Span) -> Span:
        """The same counts with the measurements of both spans."""
        return msgspec.structs.replace(self, measures=_measures_of((other, self)))

    def then(self, later: Span) -> Span:
        """This span merged with the next one of the same queue."""
        return one_after_another((self, later))

    def beside(self, other: Span) -> Span:
        """This span merged with one of another queue at the same time."""
        return together((self, other))


span_of_counts: Final[Callable[..., Span]] = Span
"""A span from counts by position, in the order of SUMMED, since thousands are made at once."""


def growth(before: Span, totals: Span) -> Span:
    """What happened between two readings of totals; the later ones have its measurements.

    Totals never shrink: a total lower than before was damaged and has been restarted.
    """
    counts = zip(counts_of(totals), counts_of(before), strict=True)
    return span_of_counts(
        *[now - then if now > then else 0 for now, then in counts],
        pending_before=before.pending,
        pending=totals.pending,
        deepest=max(before.pending, totals.pending),
        measures=totals.measures,
    )


def first_minute(now: int, window_seconds: float) -> int:
    """The number of the first minute of a window that ends now."""
    return (now - round(window_seconds * 1e6)) // MINUTE_MICROS


class QueueSpans(NamedTuple):
    """The figures of one queue, or of several: the spans by number (of the minute, or day), and the
    depth.
    """

    spans: Mapping[int, Span]
    pending: int
    deepest: int | None = None
    """The depth of the deepest queue, if there are several."""


def filled(each: QueueSpans, first: int, last: int) -> list[Span]:
    """One span for each number from `first` to `last`, which is now; idle where nothing happened.

    Spans are filled from the end, where the depth is known; each span has the depth before it.
    """
    pending = each.pending
    spans = []
    for number in range(last, first - 1, -1):
        span = each.spans.get(number) or Span.idle(pending)
        pending = span.pending_before
        spans.append(span)
    return spans[::-1]


def side_by_side(queues: Iterable[QueueSpans], first: int, last: int) -> list[Span]:
    """One span for each number, of all these queues together.

    Most queues are idle most of the time: then only their depths are added up.
    """
    busy: list[list[Span]] = [[] for _ in range(last - first + 1)]
    depth, deepest = [0] * len(busy), [0] * len(busy)
    for each in queues:
        pending, end = each.pending, len(busy)
        for number in sorted(each.spans, reverse=True):
            place = number - first
            if not 0 <= place < end:
                continue
            _add_depth(depth, deepest, range(place + 1, end), pending)
            busy[place].append(each.spans[number])
            pending, end = each.spans[number].pending_before, place
        _add_depth(depth, deepest, range(end), pending)
    idle = (
        Span(pending_before=sum_of, pending=sum_of, deepest=most)
        for sum_of, most in zip(depth, deepest, strict=True)
    )
    return [together((*spans, rest)) for spans, rest in zip(busy, idle, strict=True)]


def together(spans: Sequence[Span]) -> Span:
    """Spans of several queues at the same time, merged."""
    if len(spans) == 1:
        return spans[0]
    return _added_up(
        spans,
        pending_before=sum(each.pending_before for each in spans),
        pending=sum(each.pending for each in spans),
    )


def as_one(totals: Iterable[Span]) -> Span:
    """The totals of several queues together; `deepest` is the depth of the deepest."""
    several = list(totals)
    deepest = max((each.pending for each in several), default=0)
    return msgspec.structs.replace(together(several), deepest=deepest)


def one_after_another(spans: Sequence[Span]) -> Span:
    """Consecutive spans of one queue, earliest first, merged."""
    if len(spans) == 1:
        return spans[0]
    return _added_up(spans, pending_before=spans[0].pending_before, pending=spans[-1].pending)


def _added_up(spans: Sequence[Span], *, pending_before: int, pending: int) -> Span:
    return span_of_counts(
        *map(sum, zip(*map(counts_of, spans), strict=True)),
        pending_before=pending_before,
        pending=pending,
        deepest=max((each.deepest for each in spans), default=0),
        oldest_micros=max((each.oldest_micros for each in spans), default=0),
        measures=_measures_of(spans),
    )


def _measures_of(spans: Sequence[Span]) -> dict[int, Measurements]:
    kinds: dict[int, list[Measurements]] = {}
    for each in spans:
        for measure, found in each.measures.items():
            kinds.setdefault(measure, []).append(found)
    return {
        measure: sum_of(several) if len(several) > 1 else several[0]
        for measure, several in kinds.items()
    }


def _add_depth(depth: list[int], deepest: list[int], places: range, pending: int) -> None:
    if pending:
        for place in places:
            depth[place] += pending
            deepest[place] = max(deepest[place], pending)


def all_in_all(queues: Iterable[QueueSpans], first: int) -> Span:
    """One span for everything since `first`, of all these queues together."""
    return together([_all_of(each, first) for each in queues])


def _all_of(each: QueueSpans, first: int) -> Span:
    spans = [each.spans[number] for number in sorted(each.spans) if number >= first]
    return one_after_another(spans) if spans else _idle(each)


def _idle(each: QueueSpans) -> Span:
    idle = Span.idle(each.pending)
    return idle if each.deepest is None else msgspec.structs.replace(idle, deepest=each.deepest)
