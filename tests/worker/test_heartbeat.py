from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.core.model.lease import Lease
from leasehold.core.model.records import WorkerInfo
from leasehold.core.model.status import Event
from leasehold.env import Env, ManualClock
from leasehold.errors import (
    LeaseConflictError,
    LeaseExpiredError,
    LeaseLostError,
    StoreError,
    StoreUnavailableError,
)
from leasehold.worker.heartbeat import Heartbeat, local_deadline
from leasehold.worker.leases import LeaseManager
from support.turned_clock import TurnedClock
from support.workers import PATIENCE_SECONDS, MoodyStore, submit_to


class Watcher:
    """A heartbeat of worker `me` on leases of 60 s, and what it said."""

    def __init__(self, store: MoodyStore, env: Env) -> None:
        self.store = store
        self.lost: list[tuple[str, LeaseLostError | StoreError]] = []
        self.cancelled: list[tuple[str, str]] = []
        self.told = threading.Event()
        self.heartbeat = Heartbeat(
            store, "me", env=env, on_lost=self._on_lost, on_cancel=self._on_cancel
        )

    def _on_lost(self, lease: Lease, error: LeaseLostError | StoreError) -> None:
        self.lost.append((lease.job_id, error))
        self.told.set()

    def _on_cancel(self, lease: Lease, reason: str) -> None:
        self.cancelled.append((lease.job_id, reason))
        self.told.set()

    def hold(self, jobs: int = 1, lease_seconds: float = 60) -> list[Lease]:
        for _ in range(jobs):
            submit_to(self.store, "t")
        leases = LeaseManager(self.store, "me", lease_seconds=lease_seconds).acquire(limit=jobs)
        self.heartbeat.add_all(leases)
        return leases

    def events(self, lease: Lease) -> list[Event]:
        return [event.event for event in self.store.history(lease.job_id)]


@pytest.fixture
def watcher(timed_store: MoodyStore, env: Env) -> Watcher:
    return Watcher(timed_store, env)


@given(
    sent_at=st.floats(0, 1e9),
    lease_seconds=st.floats(0.001, 1e7),
)
def test_the_local_deadline_lies_inside_the_lease(sent_at: float, lease_seconds: float) -> None:
    deadline = local_deadline(sent_at, lease_seconds)
    assert sent_at <= deadline <= sent_at + lease_seconds


def test_one_write_renews_all(watcher: Watcher, clock: ManualClock) -> None:
    leases = watcher.hold(jobs=5)
    clock.advance(30)
    watcher.heartbeat.beat()
    assert watcher.store.calls["renew"] == 1
    for lease in leases:
        expires_at = watcher.store.job(lease.job_id).lease_expires_at
        assert expires_at == clock.now() + timedelta(seconds=60)


def test_a_forgotten_lease_is_not_renewed(watcher: Watcher, clock: ManualClock) -> None:
    kept, forgotten = watcher.hold(jobs=2)
    watcher.heartbeat.discard(forgotten)
    clock.advance(30)
    watcher.heartbeat.beat()
    assert watcher.store.job(kept.job_id).lease_expires_at == clock.now() + timedelta(seconds=60)
    assert watcher.store.job(forgotten.job_id).lease_expires_at == forgotten.expires_at
    assert len(watcher.heartbeat) == 1


def test_after_three_failed_beats_the_leases_are_abandoned_once(
    watcher: Watcher, clock: ManualClock
) -> None:
    [lease] = watcher.hold(lease_seconds=600)
    watcher.store.refused.add("renew")
    for _ in range(2):
        clock.advance(30)
        watcher.heartbeat.beat()
    assert watcher.lost == []
    watcher.heartbeat.beat()
    watcher.heartbeat.beat()
    [(job_id, error)] = watcher.lost
    assert job_id == lease.job_id
    assert isinstance(error, StoreUnavailableError)
    events = watcher.events(lease)
    assert events.count(Event.HEARTBEAT_FAILED) == 3
    assert events.count(Event.ABANDONED) == 1


def test_beats_that_failed_while_nothing_was_held_do_not_count(watcher: Watcher) -> None:
    watcher.store.refused.add("renew")
    for _ in range(5):
        watcher.heartbeat.beat()
    watcher.hold()
    watcher.heartbeat.beat()
    assert watcher.lost == []


def test_a_good_beat_starts_the_count_again(watcher: Watcher, clock: ManualClock) -> None:
    watcher.hold(lease_seconds=600)
    for refused in (True, True, False, True, True):
        watcher.store.refused = {"renew"} if refused else set()
        clock.advance(30)
        watcher.heartbeat.beat()
    assert watcher.lost == []


def test_a_lease_past_its_local_deadline_is_abandoned_before_it_expires(
    watcher: Watcher, clock: ManualClock
) -> None:
    [lease] = watcher.hold(lease_seconds=60)
    clock.advance(55)
    assert clock.now() < lease.expires_at
    watcher.heartbeat.beat()
    [(_, error)] = watcher.lost
    assert isinstance(error, LeaseExpiredError)


def test_the_deadline_counts_from_before_the_renewal_was_sent(
    watcher: Watcher, clock: ManualClock
) -> None:
    watcher.hold(lease_seconds=60)
    clock.advance(20)
    # The answer takes 50 s: by then only 10 s of the renewed lease are left by our own watch.
    watcher.store.before["renew"] = lambda: clock.advance(30)
    watcher.heartbeat.beat()
    del watcher.store.before["renew"]
    clock.advance(24)
    watcher.store.refused.add("renew")
    watcher.heartbeat.beat()
    assert watcher.lost == []
    clock.advance(2)
    watcher.heartbeat.beat()
    assert len(watcher.lost) == 1


def test_the_deadline_is_what_the_store_granted(watcher: Watcher, clock: ManualClock) -> None:
    watcher.store.set_setting("lease_extension_max", 100, actor="test")
    [lease] = watcher.hold(lease_seconds=60)
    clock.advance(50)
    watcher.heartbeat.beat()  # 60 s are asked for, and the 50 s that are left of 100 granted
    clock.advance(44)
    assert watcher.heartbeat.holds(lease)
    clock.advance(2)
    # The margin: 5 s before the store lets another worker have the job.
    assert not watcher.heartbeat.holds(lease)
    assert watcher.store.recover().recovered == 0
    watcher.heartbeat.beat()
    [(_, error)] = watcher.lost
    assert isinstance(error, LeaseExpiredError)
    clock.advance(4)
    assert watcher.store.recover().recovered == 1


def test_only_what_is_kept_and_not_overdue_is_held(watcher: Watcher, clock: ManualClock) -> None:
    kept, settled = watcher.hold(2)
    watcher.heartbeat.discard(settled)
    assert (watcher.heartbeat.holds(kept), watcher.heartbeat.holds(settled)) == (True, False)
    watcher.heartbeat.suspend(kept)
    clock.advance(1000)
    assert watcher.heartbeat.holds(kept), "its own transaction keeps it"
    watcher.heartbeat.resume(kept)
    assert not watcher.heartbeat.holds(kept)


def test_a_sleep_of_the_machine_costs_no_lease(watcher: Watcher, clock: ManualClock) -> None:
    [lease] = watcher.hold(lease_seconds=60)
    clock.advance(30)
    clock.suspend(8 * 3600)
    assert watcher.store.recover().expired_found == 0
    clock.advance(20)
    watcher.heartbeat.beat()
    assert watcher.lost == []
    assert watcher.heartbeat.holds(lease)


def test_a_lease_that_another_worker_has_is_lost(watcher: Watcher, clock: ManualClock) -> None:
    [lease] = watcher.hold()
    watcher.store.recover_one(lease.job_id, lease.version, reset_attempts=False, reason="test")
    LeaseManager(watcher.store, "other").acquire()
    watcher.heartbeat.beat()
    [(_, error)] = watcher.lost
    assert isinstance(error, LeaseConflictError)
    assert len(watcher.heartbeat) == 0


def test_a_cancel_request_comes_with_the_renewal(watcher: Watcher) -> None:
    [lease] = watcher.hold()
    watcher.store.cancel([lease.job_id], reason="sold out", actor="test")
    watcher.heartbeat.beat()
    assert watcher.cancelled == [(lease.job_id, "sold out")]


def test_a_young_lease_is_left_alone_unless_it_is_asked_for(
    watcher: Watcher, clock: ManualClock
) -> None:
    young, asked_for = watcher.hold(jobs=2)
    clock.advance(5)
    watcher.heartbeat.beat(10, {asked_for.job_id})
    assert watcher.store.job(young.job_id).heartbeat_at != clock.now()
    assert watcher.store.job(asked_for.job_id).heartbeat_at == clock.now()


def test_it_keeps_the_registry_entry_alive_with_nothing_held(
    watcher: Watcher, clock: ManualClock
) -> None:
    watcher.store.register_worker(
        WorkerInfo(
            id="me",
            host="h",
            pid=1,
            queues=("default",),
            slots=1,
            started_at=clock.now(),
            heartbeat_at=clock.now(),
        )
    )
    clock.advance(30)
    watcher.heartbeat.beat()
    [info] = watcher.store.workers()
    assert info.heartbeat_at == clock.now()


def test_its_thread_beats_at_a_third_of_the_shortest_lease(
    watcher: Watcher, clock: TurnedClock
) -> None:
    heartbeat, store = watcher.heartbeat, watcher.store
    heartbeat.start()
    try:
        # It sleeps for 30 s by now, or will: a lease of 6 s must shorten that.
        watcher.hold(lease_seconds=6)
        for beats in range(4):
            assert store.calls["renew"] == beats
            clock.turn(1.5)
            assert store.calls["renew"] == beats
            clock.turn(0.5)
        assert watcher.lost == []
    finally:
        heartbeat.stop()


def test_a_lease_is_discarded_only_when_no_renewal_of_it_is_under_way(watcher: Watcher) -> None:
    """Otherwise its settlement could overtake the renewal, which would then look stale."""
    [lease] = watcher.hold()
    under_way, go = threading.Event(), threading.Event()

    def hold_up() -> None:
        under_way.set()
        assert go.wait(PATIENCE_SECONDS)

    watcher.store.before["renew"] = hold_up
    beating = threading.Thread(target=watcher.heartbeat.beat)
    beating.start()
    assert under_way.wait(PATIENCE_SECONDS)
    discarding = threading.Thread(target=watcher.heartbeat.discard, args=(lease,))
    discarding.start()
    discarding.join(0.05)
    assert discarding.is_alive()
    go.set()
    discarding.join(PATIENCE_SECONDS)
    beating.join(PATIENCE_SECONDS)
    assert len(watcher.heartbeat) == 0
    assert watcher.lost == []


def test_a_hurried_beat_comes_at_once(watcher: Watcher) -> None:
    [lease] = watcher.hold()
    watcher.heartbeat.start()
    try:
        watcher.store.cancel([lease.job_id], reason="now", actor="test")
        watcher.heartbeat.hurry([lease.job_id])
        assert watcher.told.wait(PATIENCE_SECONDS)
    finally:
        watcher.heartbeat.stop()


def test_a_hint_that_comes_before_its_lease_is_not_lost(watcher: Watcher) -> None:
    watcher.heartbeat.start()
    try:
        watcher.heartbeat.expect()
        submit_to(watcher.store, "t")
        [lease] = LeaseManager(watcher.store, "me", lease_seconds=60).acquire(limit=1)
        watcher.store.cancel([lease.job_id], reason="now", actor="test")
        watcher.heartbeat.hurry([lease.job_id])
        watcher.heartbeat.add_all([lease])
        assert watcher.told.wait(PATIENCE_SECONDS)
        assert watcher.cancelled == [(lease.job_id, "now")]
    finally:
        watcher.heartbeat.stop()


def test_hints_about_the_jobs_of_others_cost_no_beat(watcher: Watcher) -> None:
    watcher.heartbeat.expect()
    watcher.heartbeat.hurry(["another's"])
    [lease] = watcher.hold()
    watcher.heartbeat.hurry(["another's"])
    watcher.heartbeat.start()
    try:
        watcher.store.cancel([lease.job_id], reason="now", actor="test")
        watcher.heartbeat.hurry([lease.job_id])
        assert watcher.told.wait(PATIENCE_SECONDS)
    finally:
        watcher.heartbeat.stop()
    assert watcher.store.calls["renew"] == 1


def test_a_broken_store_does_not_end_the_thread(watcher: Watcher, clock: ManualClock) -> None:
    def explode() -> None:
        raise RuntimeError("a bug")

    watcher.hold(lease_seconds=600)
    watcher.store.before["renew"] = explode
    watcher.heartbeat.start()
    try:
        while not watcher.lost:
            watcher.heartbeat.hurry()
            watcher.told.wait(0.01)
        [(_, error)] = watcher.lost
        assert "a bug" in str(error)
    finally:
        watcher.heartbeat.stop()
