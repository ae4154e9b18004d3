"""The memory store does bounded work under one hold of its lock, and never recurses with the jobs.

What it does is counted by the heads of heaps that it looks at.
"""

from __future__ import annotations

import sys

import pytest

from leasehold.core.breaker import Breaker
from leasehold.core.budget import BURIED_AT_ONCE, PASSED_OVER_AT_ONCE, PROMOTED_AT_ONCE
from leasehold.core.job import Draft
from leasehold.core.lease import LeaseRequest, Settlement
from leasehold.core.outcome import Fail, JobError
from leasehold.core.queue_config import QueueConfig, QueueState
from leasehold.core.status import Status
from leasehold.env import Env, ManualClock
from leasehold.stores.memory import MemoryStore, heaps

MANY = 100_000


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
    run = store._run
    holds = 0

    def cut_short(verb: object, *arguments: object) -> object:
        nonlocal holds
        holds += 1
        if holds > 4:
            raise KeyboardInterrupt
        return run(verb, *arguments)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(store, "_run", cut_short)
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
