"""One job named twice in one exchange, or under an id that lives again: found by the simulator."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from leasehold.core.contract.store import Store
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import Lease, LeaseRequest, Settled, Settlement
from leasehold.core.model.outcome import Complete, Fail, JobError, Release
from leasehold.core.model.status import Event
from leasehold.env import Env, ManualClock
from leasehold.errors import LeaseConflictError, LeaseLostError
from leasehold.stores.memory import MemoryStore
from leasehold.stores.sqlite import SQLiteStore

REQUEST = LeaseRequest(worker="worker", lease_seconds=10.0)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, clock: ManualClock, tmp_path: Path) -> Iterator[Store]:
    env = Env(clock=clock, random=Random(1))
    store: Store = (
        MemoryStore(env)
        if request.param == "memory"
        else SQLiteStore(tmp_path / "jobs.db", env=env, durability="normal")
    )
    yield store
    store.close()


def lease(store: Store) -> Lease:
    (lease,) = store.exchange(request=REQUEST).leases
    return lease


def test_an_old_and_a_new_lease_settle_in_one_exchange(store: Store, clock: ManualClock) -> None:
    store.submit([Draft(id="job", task="work")])
    old = lease(store)
    clock.advance(11)
    store.recover()
    new = lease(store)
    refused, settled = store.exchange(
        [Settlement("job", old.version, Release()), Settlement("job", new.version, Complete())]
    ).settled
    assert type(refused) is LeaseConflictError
    assert isinstance(settled, Settled)
    events = [event.event for event in store.history("job")]
    assert events[-2:] == [Event.VERSION_MISMATCH, Event.COMPLETED]


def test_the_same_settlement_twice_in_one_exchange_counts_once(store: Store) -> None:
    store.submit([Draft(id="job", task="work")])
    settlement = Settlement("job", lease(store).version, Complete())
    other = Settlement("job", settlement.version, Release())
    settled, again, refused = store.exchange([settlement, settlement, other]).settled
    assert isinstance(settled, Settled)
    assert settled == again
    assert type(refused) is LeaseLostError
    events = [event.event for event in store.history("job")]
    assert events[-2:] == [Event.COMPLETED, Event.VERSION_MISMATCH]


def test_a_stale_settlement_meets_another_job_under_its_id(
    store: Store, clock: ManualClock
) -> None:
    store.submit([Draft(id="job", task="work", max_retries=0)])
    stale = lease(store)
    clock.advance(11)
    store.recover()
    store.discard(["job"], actor="test")
    store.submit([Draft(id="job", task="work")])
    current = lease(store)
    (refused,) = store.exchange([Settlement("job", stale.version, Complete())]).settled
    assert type(refused) is LeaseConflictError
    assert store.history("job")[-1].event is Event.VERSION_MISMATCH
    (settled,) = store.exchange([Settlement("job", current.version, Complete())]).settled
    assert isinstance(settled, Settled)


def test_a_failure_of_a_job_that_was_to_be_cancelled_is_no_failure(store: Store) -> None:
    store.submit([Draft(id="job", task="work")])
    held = lease(store)
    store.cancel(["job"], reason="unwanted", actor="test")
    store.exchange([Settlement("job", held.version, Fail(JobError("OSError", "late")))])
    stats = store.stats()
    assert (stats.failed, stats.cancelled) == (0, 1)
