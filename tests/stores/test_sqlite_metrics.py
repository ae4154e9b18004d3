"""Metrics of the SQLite store: query plans, old files, and what a look at the counters costs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from leasehold.core.model.budget import FORGOTTEN_AT_ONCE
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete
from leasehold.core.model.span import Span
from leasehold.core.rules import metrics as core
from leasehold.core.rules.group_rounds import GroupRounds
from leasehold.core.rules.sampling import KeptSpan, Resolution
from leasehold.env import Env, ManualClock
from leasehold.stores.sqlite import SQLiteStore
from leasehold.stores.sqlite.leasing import lease as leasing
from leasehold.stores.sqlite.reading import figures
from leasehold.stores.sqlite.rules import known as table_known
from leasehold.stores.sqlite.schema.rows import lenient
from leasehold.stores.sqlite.submitting.submit import PlainSubmit
from leasehold.stores.sqlite.writing.step import Step
from leasehold.stores.sqlite.writing.write_queue import Ticket
from leasehold.stores.tables import records
from leasehold.stores.tables.sampling import (
    EVERY_KEY,
    LAST_COUNTS,
    LAST_COUNTS_OF_QUEUE,
    MEASURED_OF_ALL,
    OPEN_MINUTE,
)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> Iterator[SQLiteStore]:
    opened = SQLiteStore(tmp_path / "jobs.db", env=Env(clock=clock))
    yield opened
    opened.close()


READS = {
    "totals": (figures.TOTALS, ("q",)),
    "open minute": (OPEN_MINUTE, ()),
    "measured": (figures.MEASURED, ("q",)),
    "spans": (figures.KEPT_OF_QUEUE, (1, 1, "q")),
    "spans of all queues": (figures.KEPT, (1, 1)),
    "totals of all": (figures.TOTALS_OF_ALL, (None,)),
    "measured of all": (MEASURED_OF_ALL, ()),
    "the last look at all": (figures.LOOK_OF_ALL, (0,)),
    "the last counts": (LAST_COUNTS, (0,)),
    "the last counts of a queue": (LAST_COUNTS_OF_QUEUE, (0, "q")),
    "spans of each queue added up": (figures.SUMMED_COUNTS, (1, 1)),
    "what they measured": (figures.KEPT_MEASURES, (1, 1)),
    "standing": (figures.STANDING, ("q",)),
    "the oldest": (figures.OLDEST, ("q", EVERY_KEY)),
    "queues": (table_known.QUEUES, ()),
    "workers": (lenient(records.WORKERS), ()),
    "what they hold": (lenient(records.LEASES), ()),
}


def plan(store: SQLiteStore, statement: str, values: tuple[object, ...]) -> list[str]:
    with store._database.read() as db:
        return [str(row[3]) for row in db.execute(f"EXPLAIN QUERY PLAN {statement}", values)]


@pytest.mark.parametrize("name", READS)
def test_no_figure_scans_jobs(store: SQLiteStore, name: str) -> None:
    statement, values = READS[name]
    for line in plan(store, statement, values):
        words = line.split()
        if words[0] == "SCAN":
            # What is small by its nature: one row per queue and task, per limited key and task
            # with jobs under way, per bucket, per worker, per job that runs now.
            small = {"lane", "key_lane", "measured", "store_state", "worker", "running", "held"}
            # Those of a queue that has rules, and the lanes and tiers at which jobs stand.
            small |= {"(subquery", "of_each", "queue", "stood", "head", "keyed", "CONSTANT"}
            assert words[1] in small, line
        assert not {"job", "finished", "attempt", "waiting"} & set(words), line
        if "ready" in words:
            assert line in {
                "SEARCH ready USING PRIMARY KEY (lane=? AND tier<?)",
                "SEARCH ready USING PRIMARY KEY (lane=? AND tier=?)",
                "SEARCH ready USING PRIMARY KEY (lane=? AND tier>? AND tier<?)",
                "SEARCH ready USING COVERING INDEX ready_by_age (lane=?)",
            }, line
        if "span" in words:
            assert line in {
                "SEARCH span USING PRIMARY KEY (resolution=? AND queue=? AND at>?)",
                "SEARCH span USING INDEX span_by_time (resolution=? AND at>?)",
                # Of the last look there is one for each queue.
                "SEARCH span USING PRIMARY KEY (resolution=?)",
                "SEARCH span USING PRIMARY KEY (resolution=? AND queue=?)",
            }, line


def test_metrics_read_nothing_but_these(store: SQLiteStore) -> None:
    """So that a statement that is added later is looked at as well."""
    store.submit([Draft(id="job", task="t")])
    asked: set[str] = set()
    known = {statement for statement, _ in READS.values()}
    with store._database.read() as db:
        db.trace_v2(apsw.SQLITE_TRACE_STMT, lambda event: asked.add(event["sql"]))
        for queue in (None, "default"):
            look = figures.MetricsReader(db, lambda: 1)
            core.metrics(look, queue, 60)
            core.series(look, queue, 1)
            core.daily(look, queue, 1)
        core.metrics_by_queue(figures.MetricsReader(db, lambda: 1), 60, None)
        db.trace_v2(0)
    assert asked == known


def test_a_minute_is_ended_once_and_a_plain_write_looks_at_nothing(
    store: SQLiteStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []
    keep = figures.SpanShelf.measure_anew

    def counted(spans: figures.SpanShelf, minute: int) -> None:
        looks.append(minute)
        keep(spans, minute)

    monkeypatch.setattr(figures.SpanShelf, "measure_anew", counted)
    for number in range(6):
        for part in range(5):
            store.submit([Draft(id=f"{number}-{part}", task="t")])
            clock.advance(11.9)
    assert looks == sorted(set(looks))
    assert len(looks) == 6


def test_a_minute_that_ends_is_no_reason_to_write(
    store: SQLiteStore, clock: ManualClock, tmp_path: Path
) -> None:
    store.submit([Draft(id="job", task="t", queue="elsewhere")])
    clock.advance(60)
    before = (tmp_path / "jobs.db-wal").stat()
    for _ in range(3):
        assert store.exchange((), LeaseRequest(worker="w")).leases == []
        clock.advance(60)
    after = (tmp_path / "jobs.db-wal").stat()
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    store.submit([Draft(id="next", task="t")])
    assert [point.submitted for point in store.series(minutes=5)] == [1, 0, 0, 0, 1]


def test_a_batch_of_leases_is_measured_by_a_few_rows(
    store: SQLiteStore, clock: ManualClock
) -> None:
    store.submit([Draft(id=f"job-{number}", task="t") for number in range(500)])
    clock.advance(1)
    leases = store.exchange(request=LeaseRequest(worker="w", limit=500)).leases
    clock.advance(1)
    store.exchange([Settlement(lease.job_id, lease.version, Complete()) for lease in leases])
    with store._database.read() as db:
        of_lanes = "SELECT count(*), sum(jobs) FROM measured WHERE lane > 0"
        of_workers = "SELECT count(*), sum(jobs) FROM measured WHERE lane = 0"
        assert db.execute(of_lanes).fetchall() == [(2, 1000)]
        assert db.execute(of_workers).fetchall() == [(2, 1000)]
    clock.advance(60)
    store.submit([Draft(id="last", task="t")])
    with store._database.read() as db:
        assert db.execute("SELECT count(*) FROM measured").fetchall() == [(0,)]


def test_measures_that_are_missing_are_found(store: SQLiteStore) -> None:
    store.submit([Draft(id="job", task="t")])
    [lease] = store.exchange(request=LeaseRequest(worker="w")).leases
    store.exchange([Settlement(lease.job_id, lease.version, Complete())])
    store._database.writer.run(lambda step: step.execute("DELETE FROM measured").fetchall())
    assert store.check() == [
        "queue 'default': 1 jobs were leased, not as many waits measured",
        "queue 'default': 0 runs were measured, but 1 attempts ended",
    ]


def test_what_a_failed_operation_measured_is_dropped(
    store: SQLiteStore, clock: ManualClock
) -> None:
    store.submit([Draft(id="job", task="t")])

    def fails(step: Step) -> None:
        leases, *_ = leasing.lease(step, LeaseRequest(worker="w"), GroupRounds())
        assert leases
        raise OSError("no")

    submit = PlainSubmit(store._database.lanes, [Draft(id="next", task="t")])
    batch: list[Ticket[Any]] = [Ticket(fails), Ticket(submit)]
    store._database.writer.queue.waiting.extend(batch)
    store._database.writer._lead(batch[0])
    assert isinstance(batch[0].error, OSError)
    assert batch[1].error is None
    assert store.metrics().wait.count == 0
    assert store.check() == []


def test_what_is_too_old_is_forgotten_in_small_writes(
    store: SQLiteStore, clock: ManualClock
) -> None:
    store.submit([Draft(id="job", task="t")])
    minutes = range(FORGOTTEN_AT_ONCE + 1)
    spans = [KeptSpan(Resolution.MINUTE, "default", at, Span()) for at in minutes]
    store._database.writer.run(lambda step: figures.SpanShelf(step.db).keep(spans))

    def kept() -> int:
        with store._database.read() as db:
            return int(
                str(db.execute("SELECT count(*) FROM span WHERE resolution = 1").fetchall()[0][0])
            )

    assert kept() == FORGOTTEN_AT_ONCE + 1
    clock.advance(60)
    store.submit([Draft(id="one", task="t")])
    assert kept() == 2  # one of the old, and the first minute
    clock.advance(60)
    store.submit([Draft(id="two", task="t")])
    assert kept() == 2
