"""Figures of a day in which every queue was busy every minute, written at once.

Nobody waits a day for a benchmark: the spans are those that the ends of its minutes would have
kept, for each queue and for all of them together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

from leasehold.core.contract.store import Store
from leasehold.core.model.histogram import Measurements, bucket_of
from leasehold.core.model.span import DAY_MICROS, MINUTE_MICROS, Measure, Span, together
from leasehold.core.rules.sampling import ALL_QUEUES, KeptSpan, Resolution
from leasehold.env import to_micros
from leasehold.stores.sqlite import SQLiteStore

MINUTES = 24 * 60
DAYS = 30
JOBS_A_MINUTE = 60
KINDS = 50
"""So many different minutes there are, which all queues have in turn."""


def fill_minutes(store: Store, queues: Sequence[str]) -> None:
    """What these queues did in the day before now, minute by minute, and in the month before."""
    now = to_micros(store.now())
    random = Random()
    kinds = [busy_minute(random) for _ in range(KINDS)]
    minute, day = now // MINUTE_MICROS, now // DAY_MICROS
    for number in range(minute - MINUTES, minute - 1):
        _keep(store, list(_spans(Resolution.MINUTE, queues, number, kinds)))
    for number in range(day - DAYS, day):
        _keep(store, list(_spans(Resolution.DAY, queues, number, kinds)))


def fill_latest(store: Store, queues: Sequence[str], minutes: int) -> None:
    """The same for the last minutes: since the day was written, time has gone on."""
    minute = to_micros(store.now()) // MINUTE_MICROS
    kinds = [busy_minute(Random()) for _ in range(KINDS)]
    for number in range(minute - minutes, minute):
        _keep(store, list(_spans(Resolution.MINUTE, queues, number, kinds)))


def _spans(
    resolution: Resolution, queues: Sequence[str], number: int, kinds: Sequence[Span]
) -> Iterator[KeptSpan]:
    spans = [kinds[(number + place) % len(kinds)] for place in range(len(queues))]
    for queue, span in zip(queues, spans, strict=True):
        yield KeptSpan(resolution, queue, number, span)
    yield KeptSpan(resolution.of_all, ALL_QUEUES, number, together(spans))


def _keep(store: Any, spans: Sequence[KeptSpan]) -> None:
    if isinstance(store, SQLiteStore):
        from leasehold.stores.sqlite.reading.figures import SpanShelf as Lite

        store._database.writer.run(lambda step: Lite(step.db).keep(spans))  # noqa: SLF001  # no verb does it
    else:
        from leasehold.stores.postgres.reading.figures import SpanShelf as Server

        store._database.write(lambda step: Server(step.db).keep(spans))  # noqa: SLF001  # no verb does it


def busy_minute(random: Random) -> Span:
    """What is kept of a queue that ran a job every second."""
    half = JOBS_A_MINUTE // 2
    return Span(
        submitted=JOBS_A_MINUTE,
        leased=JOBS_A_MINUTE,
        completed=JOBS_A_MINUTE - 1,
        failed=1,
        retried=1,
        submitted_medium=half,
        submitted_high=half,
        pending_before=20,
        pending=20,
        deepest=20,
        measures={
            Measure.WAIT_MEDIUM: _measurements(random, half),
            Measure.WAIT_HIGH: _measurements(random, half),
            Measure.RUN: _measurements(random, JOBS_A_MINUTE),
            Measure.RETRY: Measurements(0, {1: 1}),
        },
    )


def _measurements(random: Random, jobs: int) -> Measurements:
    durations = [int(random.lognormvariate(0, 1) * 1e6) for _ in range(jobs)]
    return Measurements(sum(durations), dict(Counter(map(bucket_of, durations))))
