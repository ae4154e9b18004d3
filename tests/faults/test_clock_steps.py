"""The wall clock is set, or the machine sleeps: nothing comes early, nobody is robbed.

What holds for every store is in the conformance suite (CLK-1 to CLK-3); here is what needs several
processes, a file, or real clocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest, Renewal, Renewed, Settled, Settlement
from leasehold.core.model.outcome import Complete, Fail, JobError
from leasehold.core.model.retry import Constant
from leasehold.env import Env, ManualClock
from leasehold.stores.sqlite import SQLiteStore
from leasehold.testing.conformance.base import assert_history_replays

HOUR = 3600
REQUEST = LeaseRequest(worker="w", limit=9, lease_seconds=60)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> Iterator[SQLiteStore]:
    store = SQLiteStore(tmp_path / "jobs.db", env=Env(clock=clock))
    yield store
    assert store.check() == []
    store.close()


def leased(store: SQLiteStore) -> list[str]:
    return [lease.job_id for lease in store.exchange((), REQUEST).leases]


def test_a_delayed_job_is_never_early(store: SQLiteStore, clock: ManualClock) -> None:
    store.submit([Draft(id="delayed", task="t", delay_seconds=60)])
    due = store.now().timestamp() + 60
    clock.step_wall_clock(-HOUR)
    # While the wall clock is behind, the store's goes on at half its pace.
    for _ in range(12):
        assert leased(store) == []
        clock.advance(10)
    assert store.now().timestamp() >= due
    assert leased(store) == ["delayed"]
    assert leased(store) == []


def test_a_retry_is_never_early(store: SQLiteStore, clock: ManualClock) -> None:
    store.submit([Draft(id="a", task="t", retry=Constant(30))])
    [lease] = store.exchange((), REQUEST).leases
    clock.step_wall_clock(-HOUR)
    failed = Fail(JobError("OSError", "no luck"))
    [settled] = store.exchange([Settlement("a", lease.version, failed)]).settled
    assert isinstance(settled, Settled)
    assert settled.run_at is not None
    assert (settled.run_at - store.now()).total_seconds() == 30
    clock.advance(59)
    assert leased(store) == []
    clock.advance(1)
    assert leased(store) == ["a"]


def test_no_holder_is_robbed(store: SQLiteStore, clock: ManualClock) -> None:
    store.submit([Draft(id="a", task="t")])
    [lease] = store.exchange((), REQUEST).leases
    clock.step_wall_clock(-HOUR)
    assert store.recover().recovered == 0
    assert leased(store) == []
    [renewed] = store.renew("w", [Renewal("a", lease.version, 60)])
    assert isinstance(renewed, Renewed)
    assert renewed.expires_at >= lease.expires_at
    clock.advance(119)
    assert store.recover().recovered == 0
    [settled] = store.exchange([Settlement("a", lease.version, Complete())]).settled
    assert isinstance(settled, Settled)
    job = store.get("a")
    assert job is not None
    assert_history_replays(store, job)


def test_a_lost_lease_still_ends(store: SQLiteStore, clock: ManualClock) -> None:
    store.submit([Draft(id="a", task="t")])
    assert leased(store) == ["a"]
    clock.step_wall_clock(-HOUR)
    store.promote()
    clock.advance(120)
    assert store.recover().recovered == 1
    assert leased(store) == ["a"]


def test_history_and_the_stores_clock_never_go_back(
    tmp_path: Path, store: SQLiteStore, clock: ManualClock
) -> None:
    store.submit([Draft(id="a", task="t", retry=Constant(0))])
    moments = [store.now()]
    for step in (-HOUR, 10, -5 * HOUR, HOUR, -1):
        clock.step_wall_clock(step)
        [lease] = store.exchange((), REQUEST).leases
        # Another process, which knows nothing of the times this one has seen, agrees.
        other = SQLiteStore(tmp_path / "jobs.db", env=Env(clock=clock))
        moments += [store.now(), other.now()]
        other.close()
        store.recover_one("a", lease.version, reset_attempts=True, reason="the test")
        moments.append(store.now())
    assert moments == sorted(moments)
    times = [event.at for event in store.history("a")]
    assert times == sorted(times)
