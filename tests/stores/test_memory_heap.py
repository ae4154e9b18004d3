"""The memory store's heaps: dead entries are counted over a whole queue, and swept up in time."""

from __future__ import annotations

from datetime import timedelta
from random import Random

import pytest

from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest
from leasehold.core.model.queue_config import QueueConfig
from leasehold.core.model.retention import Scope
from leasehold.env import Env, ManualClock
from leasehold.stores.memory import MemoryStore


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock) -> MemoryStore:
    return MemoryStore(Env(clock=clock, random=Random(7)))


def submit(store: MemoryStore, count: int, prefix: str = "job", **options: object) -> None:
    store.submit([Draft(id=f"{prefix}-{n}", task="work", **options) for n in range(count)])  # type: ignore[arg-type]


def cancel(store: MemoryStore, numbers: range, prefix: str = "job") -> None:
    for number in numbers:
        store.cancel([f"{prefix}-{number}"], reason="", actor="me")


def clean_up(store: MemoryStore, scope: Scope) -> None:
    report = store.prune(scope=scope, actor="me")
    while report.more:
        report = store.prune(run=report.run, scope=scope, actor="me")


def test_forgotten_entries_stay_until_they_are_too_many(store: MemoryStore) -> None:
    submit(store, 200)
    assert store.heap().health == 1.0
    # From the back, so that none of them comes to the top of the heap.
    cancel(store, range(199, 99, -1))
    figures = store.heap()
    assert (figures.size, figures.dead, figures.live, figures.health) == (200, 100, 100, 0.5)
    assert (figures.rebuilds, figures.last_rebuild_at) == (0, None)
    cancel(store, range(99, 98, -1))
    assert store.heap().health == 1.0
    assert (store.heap().rebuilds, store.heap().last_rebuild_at) == (1, store.now())
    leases = store.exchange(request=LeaseRequest(worker="worker", limit=500)).leases
    assert [lease.job_id for lease in leases] == [f"job-{number}" for number in range(99)]


def test_a_small_heap_is_not_rebuilt(store: MemoryStore) -> None:
    submit(store, 50)
    cancel(store, range(1, 50))
    assert (store.heap().size, store.heap().live, store.heap().rebuilds) == (50, 1, 0)
    assert store.check() == []


def test_many_small_tiers_are_one_large_heap(store: MemoryStore) -> None:
    # Twenty heaps of ten: none of them alone would ever be worth a rebuild.
    for priority in range(20):
        submit(store, 10, prefix=f"tier-{priority}", priority=priority)
    for priority in range(20):
        cancel(store, range(5, 10), prefix=f"tier-{priority}")
    assert (store.heap().size, store.heap().dead) == (200, 100)
    cancel(store, range(4, 5), prefix="tier-0")
    assert (store.heap().size, store.heap().dead, store.heap().rebuilds) == (99, 0, 1)
    assert store.check() == []


def test_the_heaps_of_queues_are_counted_apart(store: MemoryStore) -> None:
    submit(store, 120, prefix="mail", queue="mail")
    submit(store, 80, prefix="video", queue="video")
    cancel(store, range(40, 80), prefix="video")
    assert (store.heap("mail").dead, store.heap("video").dead, store.heap().dead) == (0, 40, 40)
    cancel(store, range(59, 120), prefix="mail")
    assert (store.heap("mail").rebuilds, store.heap("video").rebuilds) == (1, 0)
    assert store.heap("nowhere").size == 0


def test_delayed_and_parked_jobs_count_too(store: MemoryStore, clock: ManualClock) -> None:
    store.create_queue("default", QueueConfig(key_concurrency=1), actor="me")
    submit(store, 60, prefix="keyed", limit_key="acme")
    submit(store, 60, prefix="later", run_at=store.now() + timedelta(hours=1))
    assert store.heap().size == 120
    cancel(store, range(59, 29, -1), prefix="keyed")
    cancel(store, range(59, 28, -1), prefix="later")
    assert (store.heap().dead, store.heap().rebuilds) == (0, 1)
    store.update_queue("default", {"key_concurrency": None}, actor="me")
    assert store.check() == []


@pytest.mark.parametrize("scope", [Scope(force=True), Scope(emergency=True)])
def test_a_clean_up_that_was_asked_for_rebuilds(store: MemoryStore, scope: Scope) -> None:
    submit(store, 20)
    submit(store, 20, prefix="other", queue="other")
    cancel(store, range(15, 20))
    cancel(store, range(15, 20), prefix="other")
    assert store.heap().dead == 10
    clean_up(store, scope)
    assert (store.heap().size, store.heap().dead, store.heap().rebuilds) == (30, 0, 2)
    assert store.check() == []


def test_a_store_tells_its_policy_and_counters(store: MemoryStore) -> None:
    submit(store, 4)
    cancel(store, range(3, 4))
    assert store.describe()["heap"] == {
        "size": 4,
        "dead": 1,
        "live": 3,
        "health": 0.75,
        "rebuilds": 0,
        "last_rebuild_at": None,
        "rebuild_entries_min": 100,
        "rebuild_live_share": 0.5,
    }


def test_a_leased_job_leaves_no_dead_entry(store: MemoryStore) -> None:
    submit(store, 10)
    store.exchange(request=LeaseRequest(worker="worker", limit=4))
    assert (store.heap().size, store.heap().dead) == (6, 0)
    assert store.check() == []


def test_a_job_that_came_back_and_leaves_is_counted_once(store: MemoryStore) -> None:
    submit(store, 3)
    for priority in (60, 50):
        store.reprioritize("job-1", priority, actor="me")
    assert (store.heap().size, store.heap().dead) == (4, 1)
    cancel(store, range(1))
    # At the top now: the entry that the job forgot when its priority was raised.
    cancel(store, range(1, 2))
    assert (store.heap().size, store.heap().dead) == (2, 1)
    assert store.check() == []
    leases = store.exchange(request=LeaseRequest(worker="worker", limit=5)).leases
    assert [lease.job_id for lease in leases] == ["job-2"]
    assert (store.heap().size, store.heap().dead) == (0, 0)
