"""Looks at the counters: once a minute, what they grew by is kept, and added to its day.

Counters grow for ever. A store takes a look in the first write of a new minute, before that changes
anything: so what they grew by since the last look happened in the minute of the writes in between,
all of it in one and the same. `SpanShelf` is what a store does for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple, Protocol

from leasehold.core.model.span import (
    DAY_MICROS,
    DAYS_KEPT,
    MINUTE_MICROS,
    MINUTES_KEPT,
    WORKERS_KEPT,
    QueueSpans,
    Span,
    growth,
)


class Resolution(IntEnum):
    """What a kept span is about. The numbers are written down."""

    EVER = 0
    """The totals at the last look, and all that was measured up to it; its number is 0."""
    MINUTE = 1
    """The number is that of the minute, since 1970; and that of the day for days."""
    DAY = 2

    @property
    def micros(self) -> int:
        """How long one of them is."""
        return DAY_MICROS if self is Resolution.DAY else MINUTE_MICROS


class KeptSpan(NamedTuple):
    """What happened in one queue, in the minute or on the day of that number."""

    resolution: Resolution
    queue: str
    number: int
    span: Span


class SpanReader(Protocol):
    """The counters of a store, and what is kept of them."""

    def open_minute(self) -> int:
        """The minute of the latest write: what was not kept yet happened in it."""

    def totals(self, queue: str | None) -> Mapping[str, Span]:
        """What was ever counted in each queue, or in this one, and its depth now.

        The measures are those since the last look.
        """

    def kept(
        self, resolution: Resolution, queue: str | None, first: int
    ) -> Mapping[str, dict[int, Span]]:
        """The spans of each queue, or of this one, by number, from that number on."""


class SpanShelf(SpanReader, Protocol):
    """The same, inside a write."""

    def keep(self, spans: Sequence[KeptSpan]) -> None:
        """Write spans down, each in the place of the one before it."""

    def measure_anew(self, minute: int) -> None:
        """Empty the measures, and open a minute."""

    def forget(self, resolution: Resolution, before: int) -> None:
        """Drop spans of earlier numbers, as many as one write may."""

    def forget_workers(self, kept: int) -> None:
        """Drop what workers did, but for so many of those that did something last."""


def end_minute(shelf: SpanShelf, minute: int) -> None:
    """Keep what happened in the minute of the latest writes, and open another one."""
    ended = shelf.open_minute()
    day = ended * MINUTE_MICROS // DAY_MICROS
    totals = shelf.totals(None)
    looks = last_looks(shelf, None)
    days = shelf.kept(Resolution.DAY, None, day)
    kept = []
    for queue, total in totals.items():
        look = looks.get(queue, Span())
        span = growth(look, total)
        if span.happened:
            earlier = days.get(queue, {}).get(day)
            whole = span if earlier is None else earlier.then(span)
            ever = total.with_measures_of(look)
            kept += [
                KeptSpan(Resolution.MINUTE, queue, ended, span),
                KeptSpan(Resolution.DAY, queue, day, whole),
                KeptSpan(Resolution.EVER, queue, 0, ever),
            ]
    shelf.keep(kept)
    shelf.measure_anew(minute)
    shelf.forget(Resolution.MINUTE, minute - MINUTES_KEPT)
    shelf.forget(Resolution.DAY, minute * MINUTE_MICROS // DAY_MICROS - DAYS_KEPT)
    shelf.forget_workers(WORKERS_KEPT)


def since_last_look(reader: SpanReader, queue: str | None) -> dict[str, Span]:
    """What happened in the open minute, by queue; those that are idle included."""
    looks = last_looks(reader, queue)
    totals = reader.totals(queue)
    return {name: growth(looks.get(name, Span()), total) for name, total in totals.items()}


def last_looks(reader: SpanReader, queue: str | None) -> dict[str, Span]:
    """The totals of each queue, or of this one, as they were at the last look."""
    kept = reader.kept(Resolution.EVER, queue, 0)
    return {name: spans[0] for name, spans in kept.items() if 0 in spans}


def spans_of(
    reader: SpanReader, queue: str | None, resolution: Resolution, first: int
) -> dict[str, QueueSpans]:
    """What each queue, or this one, did from a minute or day on, the open minute included."""
    now = reader.open_minute() * MINUTE_MICROS // resolution.micros
    kept = reader.kept(resolution, queue, first)
    found = {}
    for name, latest in since_last_look(reader, queue).items():
        spans = kept.get(name, {})
        if latest.happened and now >= first:
            earlier = spans.get(now)
            spans[now] = latest if earlier is None else earlier.then(latest)
        found[name] = QueueSpans(spans, latest.pending)
    return found
