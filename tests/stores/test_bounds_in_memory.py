"""The memory store does bounded work under one hold of its lock, and never recurses with the jobs.

What it does is counted by the heads of heaps that it looks at.
"""

from __future__ import annotations

import heapq
import sys
from collections.abc import Callable
from typing import Any

import pytest

from leasehold.core.model.breaker import Breaker
from leasehold.core.model.budget import (
    BURIED_AT_ONCE,
    LATE_AT_ONCE,
    LATE_LOOKED_AT_ONCE,
    PARKED_KEYS_AT_ONCE,
    PASSED_OVER_AT_ONCE,
    PLACED_AT_ONCE,
    PROMOTED_AT_ONCE,
    SHOWN_AT_ONCE,
)
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete, Fail, JobError
from leasehold.core.model.queue_config import QueueConfig, QueueState
from leasehold.core.model.status import Status
from leasehold.env import Env, ManualClock
from leasehold.stores.memory import MemoryStore, heaps, lanes, parking, state
from leasehold.stores.memory import lease as leasing
from leasehold.stores.memory.record import Record
from leasehold.stores.memory.state import State
from support.effort import drawn

MANY = drawn(100_000, one_in=5)
"""Several times as many as one write may do, or look at."""


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock) -> MemoryStore:
    return MemoryStore(env=Env(clock=clock), capacity=None)


def looks_of(
    monkeypatch: pytest.MonkeyPatch, store: MemoryStore, request: LeaseRequest
) -> tuple[list[str], int]:
    """What is leased, and how many heads of heaps are looked at for it."""
    looks = 0
    first = heaps.LazyHeap.first

    def counted(heap: heaps.LazyHeap) -> object:
        nonlocal looks
        looks += 1
        return first(heap)

    with monkeypatch.context() as patch:
        patch.setattr(heaps.LazyHeap, "first", counted)
        leases = store.exchange(request=request).leases
    return [lease.job_id for lease in leases], looks


@pytest.mark.parametrize("key", [None, "tenant"])
def test_late_jobs_are_cancelled_so_many_at_a_time(
    monkeypatch: pytest.MonkeyPatch, store: MemoryStore, clock: ManualClock, key: str | None
) -> None:
    store.create_queue("default", QueueConfig(key_concurrency=1), actor="me")
    late = [Draft(id=f"{n}", task="t", start_within_seconds=1, limit_key=key) for n in range(MANY)]
    store.submit(late)
    clock.advance(2)
    request = LeaseRequest(worker="w")
    leased, looks = looks_of(monkeypatch, store, request)
    assert leased == []
    assert looks < 10 * PASSED_OVER_AT_ONCE
    while store.exchange(request=request).next_due_at == store.now():
        pass
    assert store.stats().counts[Status.CANCELLED] == MANY


@pytest.mark.parametrize("full", [False, True])
def test_a_lease_narrowed_to_a_group_asks_so_many_of_its_keys(
    monkeypatch: pytest.MonkeyPatch, store: MemoryStore, full: bool
) -> None:
    keys = 20 * PARKED_KEYS_AT_ONCE
    store.create_queue("default", QueueConfig(key_concurrency=1), actor="me")
    for group in ("first", "second"):
        store.submit(
            [
                Draft(id=f"{group}-{n}", task="t", limit_key=f"{n}", parent_id=group)
                for n in range(keys)
            ]
        )
    if full:
        store.exchange(request=LeaseRequest(worker="w", limit=keys))
    asked = 0
    free_of = leasing._free_of_key

    def counted(state: state.State, queue: str, key: str) -> int:
        nonlocal asked
        asked += 1
        return free_of(state, queue, key)

    monkeypatch.setattr(leasing, "_free_of_key", counted)
    request = LeaseRequest(worker="w", limit=5, parent_id="second")
    leased, looks = looks_of(monkeypatch, store, request)
    assert len(leased) == (0 if full else 5)
    assert asked <= PARKED_KEYS_AT_ONCE
    assert looks <= 3 * PARKED_KEYS_AT_ONCE


def pops_of(monkeypatch: pytest.MonkeyPatch, store: MemoryStore) -> int:
    """How many entries a sweep takes from the heaps of the state."""
    pops = 0
    heappop = heapq.heappop

    def counted(heap: list[Any]) -> Any:
        nonlocal pops
        pops += 1
        return heappop(heap)

    with monkeypatch.context() as patch:
        patch.setattr(state, "heappop", counted)
        store.recover()
    return pops


def test_a_sweep_does_not_look_through_jobs_that_cannot_be_late_yet(
    monkeypatch: pytest.MonkeyPatch, store: MemoryStore, clock: ManualClock
) -> None:
    """Blocked ones are late when they become pending; those that began in time are never."""
    count = 2 * LATE_LOOKED_AT_ONCE
    store.submit([Draft(id="root", task="t", queue="root")])
    store.submit(
        [
            Draft(id=f"{n}", task="t", start_within_seconds=1, depends_on=("root",))
            for n in range(count)
        ]
    )
    begun = [Draft(id=f"b-{n}", task="t", start_within_seconds=1) for n in range(count)]
    store.submit(begun)
    store.exchange(request=LeaseRequest(worker="w", limit=count, lease_seconds=3600))
    store.submit([Draft(id="late", task="t", queue="late", start_within_seconds=1)])
    clock.advance(2)
    sweeps = 0
    while store.stats("late").counts[Status.CANCELLED] == 0:
        assert pops_of(monkeypatch, store) <= LATE_LOOKED_AT_ONCE
        sweeps += 1
    assert sweeps == count // LATE_LOOKED_AT_ONCE + 1
    assert pops_of(monkeypatch, store) == 0
    [root] = store.exchange(request=LeaseRequest(worker="w", queues=("root",))).leases
    store.exchange([Settlement(root.job_id, root.version, Complete())])
    store.recover()
    assert store.stats().counts[Status.CANCELLED] == 1 + LATE_AT_ONCE


def test_a_lane_that_is_probed_is_not_looked_through(
    monkeypatch: pytest.MonkeyPatch, store: MemoryStore, clock: ManualClock
) -> None:
    store.submit([Draft(id=f"{n}", task="t") for n in range(MANY)])
    [lease] = store.exchange(request=LeaseRequest(worker="w")).leases
    failed = Fail(JobError("E", "no"), breaker=Breaker(failures=1, pause_seconds=60))
    store.exchange([Settlement(lease.job_id, lease.version, failed)])
    clock.advance(61)
    leased, looks = looks_of(monkeypatch, store, LeaseRequest(worker="w", limit=50))
    assert len(leased) == 1
    assert looks < 50


def test_no_number_of_full_queues_is_one_recursion_each(store: MemoryStore) -> None:
    queues = tuple(f"queue-{n}" for n in range(sys.getrecursionlimit() + 100))
    for queue in queues:
        store.create_queue(queue, QueueConfig(max_concurrency=1), actor="me")
    store.submit([Draft(id=queue, task="t", queue=queue) for queue in queues])
    request = LeaseRequest(worker="w", queues=queues, limit=len(queues))
    assert len(store.exchange(request=request).leases) == len(queues)


def test_due_jobs_are_promoted_so_many_at_a_time(store: MemoryStore, clock: ManualClock) -> None:
    store.submit([Draft(id=f"{n}", task="t", delay_seconds=1) for n in range(MANY)])
    clock.advance(2)
    store.exchange(request=LeaseRequest(worker="w"))
    assert store.stats().counts[Status.PENDING] == PROMOTED_AT_ONCE - 1
    assert store.promote() == MANY - PROMOTED_AT_ONCE


def test_a_queue_is_deleted_so_many_jobs_at_a_time(
    monkeypatch: pytest.MonkeyPatch, store: MemoryStore
) -> None:
    """A delete that is cut short goes on with the next sweep."""
    count = 3 * BURIED_AT_ONCE
    store.submit([Draft(id=f"{n}", task="t") for n in range(count)])
    run = store._write
    holds = 0

    def cut_short(operation: Callable[[State], object]) -> object:
        nonlocal holds
        holds += 1
        if holds > 3:
            raise KeyboardInterrupt
        return run(operation)

    with monkeypatch.context() as patch:
        patch.setattr(store, "_write", cut_short)
        with pytest.raises(KeyboardInterrupt):
            store.delete_queue("default", force=True, actor="me")
    info = store.queue_info("default")
    assert info is not None
    assert info.state is QueueState.DELETING
    assert info.counts[Status.DEAD] == 2 * BURIED_AT_ONCE
    assert store.exchange(request=LeaseRequest(worker="w")).leases == []
    store.recover()
    assert store.stats().counts[Status.DEAD] == count
    assert store.submit([Draft(id="new", task="t")])
    assert store.check() == []


def test_a_sweep_cancels_late_jobs_so_many_at_a_time(
    store: MemoryStore, clock: ManualClock
) -> None:
    store.submit([Draft(id=f"{n}", task="t", start_within_seconds=1) for n in range(3000)])
    clock.advance(2)
    for swept in (1, 2, 3):
        store.recover()
        assert store.stats().counts[Status.CANCELLED] == swept * LATE_AT_ONCE


CHANGES: dict[str, dict[str, object]] = {
    "another order": {"fifo_mode": True},
    "a limit per key": {"key_concurrency": 2},
    "a higher limit per key": {"key_concurrency": 5000},
    "no limit per key": {"key_concurrency": None},
}


@pytest.mark.parametrize("change", CHANGES)
def test_jobs_are_placed_by_changed_rules_so_many_at_a_time(
    monkeypatch: pytest.MonkeyPatch, store: MemoryStore, change: str
) -> None:
    """Under one hold of the lock, that is: others lease and submit in between."""
    limit = None if change == "a limit per key" else 1
    store.create_queue("default", QueueConfig(key_concurrency=limit), actor="me")
    many = 3 * PLACED_AT_ONCE
    store.submit([Draft(id=f"{n}", task="t", limit_key="k", priority=n % 3) for n in range(many)])
    holds: list[int] = []
    run, place_anew, show = store._write, lanes.Lanes.place_anew, parking.ParkingShelf.show

    def held(operation: Callable[[State], object]) -> object:
        holds.append(0)
        return run(operation)

    def placed(lanes: lanes.Lanes, record: Record, now: int) -> None:
        holds[-1] += 1
        place_anew(lanes, record, now)

    def shown(shelf: parking.ParkingShelf, *job: Any) -> None:
        holds[-1] += 1
        show(shelf, *job)

    with monkeypatch.context() as patch:
        patch.setattr(store, "_write", held)
        patch.setattr(lanes.Lanes, "place_anew", placed)
        patch.setattr(parking.ParkingShelf, "show", shown)
        store.update_queue("default", CHANGES[change], actor="me")
    assert sum(holds) >= 2 * PLACED_AT_ONCE
    assert max(holds) <= max(PLACED_AT_ONCE, SHOWN_AT_ONCE) + 3
    assert store.check() == []
    leases = store.exchange(request=LeaseRequest(worker="w", limit=9000)).leases
    limit = store.queue_info("default").config.key_concurrency  # type: ignore[union-attr]
    assert len(leases) == min(many, limit or many)
    served = [int(lease.job_id) for lease in leases]
    assert served == sorted(served, key=lambda n: (-(n % 3), n))
