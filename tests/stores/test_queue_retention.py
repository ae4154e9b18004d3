"""What is the SQLite store's own in queues that keep their jobs for a time of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete
from leasehold.core.model.queue_config import QueueConfig
from leasehold.core.model.queue_retention import QueueRetention
from leasehold.core.model.retention import RetentionPolicy, Scope
from leasehold.core.model.status import Status
from leasehold.env import Env, ManualClock
from leasehold.stores.sqlite import SQLiteStore
from leasehold.stores.tables import cleanup as walking

FORCE = Scope(force=True)
SHORT = RetentionPolicy(completed_seconds=60, cancelled_seconds=60)
LONG = QueueConfig(retention=QueueRetention(completed_seconds=600, cancelled_seconds=600))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> Iterator[SQLiteStore]:
    store = SQLiteStore(tmp_path / "jobs.db", env=Env(clock=clock), durability="normal")
    yield store
    store.close()


def submit(store: SQLiteStore, queue: str, count: int) -> list[str]:
    names = [f"{queue}-{number}" for number in range(count)]
    store.submit([Draft(id=name, task="t", queue=queue) for name in names])
    return names


def complete_all(store: SQLiteStore, *queues: str) -> None:
    request = LeaseRequest(worker="w", queues=queues, limit=10_000)
    leases = store.exchange(request=request).leases
    store.exchange([Settlement(each.job_id, each.version, Complete()) for each in leases])


def clean(store: SQLiteStore, limit: int = 1000) -> tuple[int, int]:
    """One whole clean-up: how many jobs it pruned, in how many writes."""
    report = store.prune(SHORT, scope=FORCE, actor="me")
    pruned = writes = 0
    while report.more:
        report = store.prune(SHORT, run=report.run, scope=FORCE, limit=limit, actor="me")
        pruned += report.pruned
        writes += 1
    return pruned, writes


def objects(store: SQLiteStore) -> set[str]:
    with store._database.readers.lend() as db:
        return {str(name) for (name,) in db.execute("SELECT name FROM sqlite_schema")}


def test_a_retention_of_its_own_costs_submits_nothing(store: SQLiteStore) -> None:
    before = objects(store)
    store.create_queue("long", LONG, actor="me")
    store.update_queue("long", {"retention": QueueRetention(dead_seconds=1)}, actor="me")
    assert objects(store) == before
    assert store.check() == []


def test_what_a_queue_keeps_is_read_past_in_reads_of_bounded_length(
    store: SQLiteStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.create_queue("long", LONG, actor="me")
    submit(store, "long", 50)
    submit(store, "default", 10)
    complete_all(store, "long", "default")
    clock.advance(60)
    monkeypatch.setattr(walking, "WALKED_AT_ONCE", 11)
    monkeypatch.setattr(walking, "WALKED_PER_CALL", 22)
    run = store.prune(SHORT, scope=FORCE, actor="me").run
    reports = [store.prune(SHORT, run=run, scope=FORCE, actor="me") for _ in range(4)]
    # Sixty rows are looked at by 22 a call; the last eight of those that go are in the third.
    assert [report.completed for report in reports] == [0, 0, 10, 0]
    assert [report.more for report in reports] == [True, True, True, False]


@pytest.mark.parametrize("limit", [1, 3, 1000])
def test_many_that_ended_at_one_moment_are_walked_past(
    store: SQLiteStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr(walking, "WALKED_AT_ONCE", 3)
    monkeypatch.setattr(walking, "WALKED_PER_CALL", 3)
    store.create_queue("long", LONG, actor="me")
    for queue in ("one", "long", "two"):
        store.cancel(submit(store, queue, 10), reason="", actor="me")
        store.submit([Draft(id=f"{queue}-done-{n}", task="t", queue=queue) for n in range(10)])
    complete_all(store, "one", "long", "two")
    clock.advance(60)
    assert clean(store, limit)[0] == 40
    counts = store.stats("long").counts
    assert (counts[Status.CANCELLED], counts[Status.COMPLETED]) == (10, 10)
    assert store.stats("two").counts[Status.CANCELLED] == 0
    assert store.check() == []
