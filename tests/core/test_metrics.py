"""Spans add up, along time and side by side; what is foretold follows the rate."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import reduce
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.core.model.histogram import Measurements
from leasehold.core.model.records import WorkerInfo
from leasehold.core.model.span import (
    MINUTE_MICROS,
    SUMMED,
    Measure,
    QueueSpans,
    Span,
    all_in_all,
    filled,
    first_minute,
    side_by_side,
)
from leasehold.core.rules.metrics import MinutePoint, active_workers, estimated_start
from leasehold.env import from_micros

NOW = datetime(2030, 1, 1, 12, 0, 30, tzinfo=UTC)

counts = st.integers(0, 9)
minutes = st.lists(
    st.one_of(st.none(), st.tuples(counts, counts, st.dictionaries(counts, st.integers(1, 9)))),
    min_size=1,
    max_size=12,
)


def record_of(told: list[tuple[int, int, dict[int, int]] | None]) -> tuple[QueueSpans, list[int]]:
    """A queue that is idle where there is None; and how deep it was at the end of each minute."""
    pending, depths, spans = 0, [], {}
    for number, minute in enumerate(told):
        if minute is not None:
            submitted, left, runs = minute
            left = min(left, pending + submitted)
            before, pending = pending, pending + submitted - left
            spans[number] = Span(
                submitted=submitted, leased=left, pending_before=before, pending=pending,
                deepest=max(before, pending),
                measures={Measure.RUN: Measurements(7, runs)} if runs else {},
            )  # fmt: skip
        depths.append(pending)
    return QueueSpans(spans, pending), depths


@given(minutes, st.integers(0, 11))
def test_idle_minutes_are_put_back(
    told: list[tuple[int, int, dict[int, int]] | None], first: int
) -> None:
    record, depths = record_of(told)
    last = len(told) - 1
    kept = QueueSpans(
        {at: span for at, span in record.spans.items() if at >= first}, record.pending
    )
    spans = filled(kept, first, last)
    assert [span.pending for span in spans] == depths[first:]
    assert [span.submitted for span in spans] == [each[0] if each else 0 for each in told[first:]]
    for one, two in pairwise(spans):
        assert one.pending == two.pending_before


@given(minutes)
def test_a_stretch_is_the_sum_of_its_minutes(
    told: list[tuple[int, int, dict[int, int]] | None],
) -> None:
    record, _ = record_of(told)
    spans = filled(record, 0, len(told) - 1)
    assert all_in_all([record], 0) == reduce(Span.then, spans)


@given(minutes, minutes)
def test_queues_side_by_side(
    one: list[tuple[int, int, dict[int, int]] | None],
    two: list[tuple[int, int, dict[int, int]] | None],
) -> None:
    last = min(len(one), len(two)) - 1
    records = [record_of(each[: last + 1])[0] for each in (one, two)]
    together = side_by_side(records, 0, last)
    alone = [filled(record, 0, last) for record in records]
    for number, span in enumerate(together):
        parts = [spans[number] for spans in alone]
        for name in (*SUMMED, "pending", "pending_before"):
            assert getattr(span, name) == sum(getattr(part, name) for part in parts)
        assert span.deepest == max(part.deepest for part in parts)
    total = all_in_all(records, 0)
    assert total.submitted == sum(span.submitted for span in together)


def test_no_queues_have_empty_minutes() -> None:
    assert side_by_side([], 3, 5) == [Span()] * 3
    assert all_in_all([], 3) == Span()


def test_a_window_begins_with_a_whole_minute() -> None:
    minute = MINUTE_MICROS
    assert first_minute(100 * minute, 60) == 99
    assert first_minute(100 * minute + 1, 60) == 99
    assert first_minute(100 * minute - 1, 60) == 98


def points(*leased: int) -> list[MinutePoint]:
    """The latest minutes; the last one is half over."""
    first = NOW - timedelta(seconds=30) - timedelta(minutes=len(leased) - 1)
    return [
        MinutePoint(at=first + timedelta(minutes=number), leased=jobs)
        for number, jobs in enumerate(leased)
    ]


@pytest.mark.parametrize(
    ("position", "leased", "seconds"),
    [
        (0, (0, 0, 60, 30), 1),
        (89, (0, 0, 60, 30), 90),
        (9, (0, 0, 0, 3), 100),
        (0, (5, 0, 0, 0), 42),
    ],
)
def test_a_start_follows_the_rate_since_somebody_works(
    position: int, leased: tuple[int, ...], seconds: float
) -> None:
    assert estimated_start(position, points(*leased), NOW) == NOW + timedelta(seconds=seconds)


def test_without_leases_nothing_is_foretold() -> None:
    assert estimated_start(0, points(0, 0, 0), NOW) is None


def test_the_first_second_of_a_minute_is_no_rate() -> None:
    [point] = points(50)
    just_begun = point.at + timedelta(microseconds=1)
    assert estimated_start(49, [point], just_begun) == just_begun + timedelta(seconds=1)


def test_only_workers_that_live_and_serve_the_queue_are_active() -> None:
    now = 1_000_000_000

    def worker(queues: tuple[str, ...], silent_micros: int, **options: Any) -> WorkerInfo:
        at = from_micros(now - silent_micros)
        return WorkerInfo(id="w", queues=queues, slots=1, started_at=at, heartbeat_at=at, **options)

    workers = [
        worker(("a", "b"), 0),
        worker(("a",), 120_000_000),
        worker(("a",), 120_000_001, running=1),
        worker(("c",), 120_000_001, is_consumer=True),
    ]
    assert [active_workers(workers, queue, now) for queue in ("a", "b", "c", None)] == [2, 1, 0, 2]
    busy = worker(("c",), 900_000_000, is_consumer=True, running=1)
    assert active_workers([busy], "c", now) == 1, "a consumer may work without a word"
