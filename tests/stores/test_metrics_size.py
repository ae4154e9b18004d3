"""How much room figures take: docs/metrics.md says it of a thousand queues that are never idle."""

from __future__ import annotations

from pathlib import Path
from random import Random

from benchmarks.minutes import busy_minute

from leasehold.core.model.job import Draft
from leasehold.core.model.span import MINUTE_MICROS, MINUTES_KEPT, Span
from leasehold.core.rules.sampling import ALL_QUEUES, KEPT, KeptSpan, Resolution
from leasehold.env import Env, ManualClock
from leasehold.stores.sqlite import SQLiteStore
from leasehold.stores.sqlite.reading.figures import SpanShelf

QUEUES = 10
ROW_BYTES_SAID = 250
SIZE = "SELECT sum(pgsize) FROM dbstat WHERE name IN ('span', 'span_by_time')"


def number(store: SQLiteStore, statement: str) -> int:
    with store._database.read() as db:
        return int(str(db.execute(statement).fetchall()[0][0]))


def test_a_busy_minute_takes_what_the_docs_say(tmp_path: Path) -> None:
    random = Random(1)
    store = SQLiteStore(tmp_path / "jobs.db", env=Env(clock=ManualClock()))
    spans = [
        KeptSpan(Resolution.MINUTE, f"queue-{queue:04}", 10**6 + minute, busy_minute(random))
        for queue in range(QUEUES)
        for minute in range(200)
    ]
    store._database.writer.run(lambda step: SpanShelf(step.db).keep(spans))
    row_bytes = number(store, SIZE) / len(spans)
    store.close()
    assert row_bytes <= 1.1 * ROW_BYTES_SAID
    assert 1000 * (MINUTES_KEPT + 30) * row_bytes < 0.85e9


def test_what_is_kept_of_a_queue_is_bounded(tmp_path: Path) -> None:
    clock = ManualClock()
    store = SQLiteStore(tmp_path / "jobs.db", env=Env(clock=clock))
    store.submit([Draft(id="first", task="t")])
    minute = clock.time_micros() // MINUTE_MICROS
    spans = [
        KeptSpan(
            resolution, name, minute * MINUTE_MICROS // resolution.micros - each, Span(submitted=1)
        )
        for resolution, kept in KEPT.items()
        for name in [ALL_QUEUES if resolution is resolution.of_all else "default"]
        for each in range(1, kept + 400)
    ]
    store._database.writer.run(lambda step: SpanShelf(step.db).keep(spans))
    for each in range(3):
        clock.advance(60)
        store.submit([Draft(id=f"job-{each}", task="t")])
    rows = number(store, "SELECT count(*) FROM span")
    store.close()
    # One more of each: the minute and the day that are not over yet; and the totals.
    assert rows <= sum(KEPT.values()) + len(KEPT) + 1
