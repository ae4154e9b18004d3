"""Samples of the counters: once a minute, their growth is kept, and added to its day.

Counters grow for ever. A store takes a sample in the first write of a new minute, before that write
changes anything, so the growth since the last sample all happened in the minute of the writes in
between. `SpanShelf` is the store's part.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple, Protocol

import msgspec

from leasehold.core.model.span import (
    DAY_MICROS,
    DAYS_KEPT,
    MINUTE_MICROS,
    MINUTES_KEPT,
    WORKERS_KEPT,
    QueueSpans,
    Span,
    growth,
    one_after_another,
    together,
)


class Resolution(IntEnum):
    """The kinds of kept spans. The numbers are stored."""

    EVER = 0
    """The totals at the last sample, and all measurements up to it; its number is 0."""
    MINUTE = 1
    """The number is the minute counted from 1970; for days, the day."""
    DAY = 2
    MINUTE_OF_ALL = 3
    """All queues together, so that a chart of the store does not add up those of each queue."""
    DAY_OF_ALL = 4

    @property
    def micros(self) -> int:
        """The length of one span."""
        return DAY_MICROS if self.of_all is Resolution.DAY_OF_ALL else MINUTE_MICROS

    @property
    def of_all(self) -> Resolution:
        """The same for all queues together."""
        return (
            Resolution.DAY_OF_ALL
            if self in (Resolution.DAY, Resolution.DAY_OF_ALL)
            else Resolution.MINUTE_OF_ALL
        )


ALL_QUEUES: Final = ""
"""The name under which spans of all queues together are kept; no queue has it."""
KEPT: Final = {
    Resolution.MINUTE: MINUTES_KEPT,
    Resolution.DAY: DAYS_KEPT,
    Resolution.MINUTE_OF_ALL: MINUTES_KEPT,
    Resolution.DAY_OF_ALL: DAYS_KEPT,
}
"""How many spans of each kind are kept."""


class KeptSpan(NamedTuple):
    """What happened in one queue, in the minute or on the day with that number."""

    resolution: Resolution
    queue: str
    number: int
    span: Span


class SpanReader(Protocol):
    """The counters of a store, and the spans kept from them."""

    def open_minute(self) -> int:
        """The minute of the latest write, in which all growth not yet kept happened."""

    def totals(self, queue: str | None) -> Mapping[str, Span]:
        """The lifetime counts of each queue, or of this queue, and its depth now.

        The measurements are those since the last sample.
        """

    def totals_of_all(self) -> Span:
        """The same for all queues together; `deepest` is the depth of the deepest."""

    def last_counts(self, queue: str | None) -> Mapping[str, Span]:
        """The totals of each queue, or of this queue, at the last sample, without measurements."""

    def last_look_of_all(self) -> Span:
        """The totals of all queues together at the last sample, without measurements; `deepest` is
        the depth of the deepest then.
        """

    def available_since(self, queue: str | None) -> Mapping[str, int]:
        """For each queue with pending jobs, or for this one: when the longest-waiting job became
        available.
        """

    def kept(
        self, resolution: Resolution, queue: str | None, first: int
    ) -> Mapping[str, dict[int, Span]]:
        """The spans of each queue, or of this queue, by number, from a given number on.

        Spans of all queues together have the name ALL_QUEUES.
        """

    def summed(
        self, resolution: Resolution, first: int, measures: Collection[int]
    ) -> Mapping[str, Span]:
        """The spans of each queue from a given number on, merged, with these measures only."""


class SpanShelf(SpanReader, Protocol):
    """The same, with the changes possible inside a write."""

    def keep(self, spans: Sequence[KeptSpan]) -> None:
        """Save spans, each replacing the one before it."""

    def measure_anew(self, minute: int) -> None:
        """Clear the measurements and open a minute."""

    def forget(self, resolution: Resolution, before: int) -> None:
        """Drop spans with lower numbers, as many as one write may."""

    def forget_workers(self, kept: int) -> None:
        """Drop the spans of workers, except those that worked last."""


def end_minute(shelf: SpanShelf, minute: int) -> None:
    """Save what happened in the minute of the latest writes, and open another one."""
    ended = shelf.open_minute()
    day = ended * MINUTE_MICROS // DAY_MICROS
    totals = shelf.totals(None)
    looks = last_looks(shelf, None)
    spans = {queue: growth(looks.get(queue, Span()), total) for queue, total in totals.items()}
    busy = {queue: span for queue, span in spans.items() if span.happened}
    if busy:
        of_all = {ALL_QUEUES: together(list(spans.values()))}
        since = dict(shelf.available_since(None))
        if since:
            since[ALL_QUEUES] = min(since.values())
        end = (ended + 1) * MINUTE_MICROS
        # Nothing has changed since: within the day, jobs grew older than they were in that minute.
        until = max(end, min(minute * MINUTE_MICROS, (day + 1) * DAY_MICROS))
        of_day, all_of_day = _aged(busy, since, until), _aged(of_all, since, until)
        ever = {queue: totals[queue].with_measures_of(looks.get(queue, Span())) for queue in busy}
        shelf.keep(
            [
                *_kept(Resolution.MINUTE, ended, _aged(busy, since, end)),
                *_kept(Resolution.MINUTE_OF_ALL, ended, _aged(of_all, since, end)),
                *_kept(Resolution.DAY, day, _with_earlier(shelf, Resolution.DAY, day, of_day)),
                *_kept(
                    Resolution.DAY_OF_ALL,
                    day,
                    _with_earlier(shelf, Resolution.DAY_OF_ALL, day, all_of_day),
                ),
                *_kept(Resolution.EVER, 0, ever),
            ]
        )
    shelf.measure_anew(minute)
    for resolution, kept in KEPT.items():
        shelf.forget(resolution, minute * MINUTE_MICROS // resolution.micros - kept)
    shelf.forget_workers(WORKERS_KEPT)


def _aged(spans: Mapping[str, Span], since: Mapping[str, int], end: int) -> dict[str, Span]:
    """The spans with the age of the longest-waiting job at a given time."""
    return {
        queue: msgspec.structs.replace(span, oldest_micros=max(0, end - since.get(queue, end)))
        for queue, span in spans.items()
    }


def _kept(resolution: Resolution, number: int, spans: Mapping[str, Span]) -> list[KeptSpan]:
    return [KeptSpan(resolution, queue, number, span) for queue, span in spans.items()]


def _with_earlier(
    shelf: SpanShelf, resolution: Resolution, day: int, spans: Mapping[str, Span]
) -> dict[str, Span]:
    """A day so far: its kept span, followed by these."""
    days = shelf.kept(resolution, None, day)
    earlier = {queue: found[day] for queue, found in days.items() if day in found}
    return {
        queue: earlier[queue].then(span) if queue in earlier else span
        for queue, span in spans.items()
    }


def since_last_look(
    reader: SpanReader, queue: str | None, totals: Mapping[str, Span] | None = None
) -> dict[str, Span]:
    """The growth in the open minute, by queue; idle queues included.

    `totals` are those of the same look at the store, if the caller has read them.
    """
    # Measurements before the last sample are no part of the growth, and are large.
    looks = reader.last_counts(queue)
    totals = reader.totals(queue) if totals is None else totals
    return {name: growth(looks.get(name, Span()), total) for name, total in totals.items()}


def last_looks(reader: SpanReader, queue: str | None) -> dict[str, Span]:
    """The totals of each queue, or of this queue, at the last sample, measurements included."""
    kept = reader.kept(Resolution.EVER, queue, 0)
    return {name: spans[0] for name, spans in kept.items() if 0 in spans}


def spans_of(
    reader: SpanReader,
    queue: str | None,
    resolution: Resolution,
    first: int,
    totals: Mapping[str, Span] | None = None,
) -> dict[str, QueueSpans]:
    """The spans of each queue, or of this queue, from a minute or day on, open minute included."""
    now = reader.open_minute() * MINUTE_MICROS // resolution.micros
    kept = reader.kept(resolution, queue, first)
    found = {}
    for name, latest in since_last_look(reader, queue, totals).items():
        # What is kept may be shared with other readers.
        spans = dict(kept.get(name, {}))
        if latest.happened and now >= first:
            earlier = spans.get(now)
            spans[now] = latest if earlier is None else earlier.then(latest)
        found[name] = QueueSpans(spans, latest.pending)
    return found


def spans_of_all(
    reader: SpanReader, resolution: Resolution, first: int, totals: Span | None = None
) -> QueueSpans:
    """The spans of all queues together, from those kept under ALL_QUEUES.

    The depth of the deepest queue is known for minutes in which anything happened, and for now.
    """
    now = reader.open_minute() * MINUTE_MICROS // resolution.micros
    spans = dict(reader.kept(resolution.of_all, None, first).get(ALL_QUEUES, {}))
    before = reader.last_look_of_all()
    totals = reader.totals_of_all() if totals is None else totals
    deepest = max(before.deepest, totals.deepest)
    latest = msgspec.structs.replace(growth(before, totals), deepest=deepest)
    if now >= first and latest.happened:
        earlier = spans.get(now)
        spans[now] = latest if earlier is None else earlier.then(latest)
    return QueueSpans(spans, latest.pending, totals.deepest)


def summed_up(kept: Mapping[str, Mapping[int, Span]], measures: Collection[int]) -> dict[str, Span]:
    """Kept spans, merged for each queue, with these measures only."""
    return {
        name: one_after_another([spans[number] for number in sorted(spans)]).with_measures(measures)
        for name, spans in kept.items()
        if spans
    }


def summed_of_each(
    reader: SpanReader, first: int, totals: Mapping[str, Span], measures: Collection[int]
) -> dict[str, Span]:
    """One span for each queue from a minute on, open minute included.

    For hundreds of queues, a store adds up minutes faster than it returns them.
    """
    kept = reader.summed(Resolution.MINUTE, first, measures)
    is_within = reader.open_minute() >= first
    found = {}
    for name, latest in since_last_look(reader, None, totals).items():
        earlier = kept.get(name)
        if latest.happened and is_within:
            now = latest.with_measures(measures)
            found[name] = now if earlier is None else earlier.then(now)
        else:
            found[name] = Span.idle(latest.pending) if earlier is None else earlier
    return found
