"""What the worker keeps out of the way of a task's own transaction."""

from __future__ import annotations

import threading

import pytest

from leasehold.core.model.lease import Lease
from leasehold.core.model.outcome import Complete, Release
from leasehold.core.model.status import Event
from leasehold.env import Env, ManualClock
from leasehold.errors import LeaseLostError, StoreUnavailableError, UnsupportedError
from leasehold.testing.conformance.base import said
from leasehold.worker.backing import WorkerBacking
from leasehold.worker.heartbeat import Heartbeat
from leasehold.worker.inhand import InHand
from leasehold.worker.leases import LeaseManager
from leasehold.worker.prefetch import Prefetch
from leasehold.worker.reports import Reports
from support.child_tasks import add
from support.runs import call_run
from support.workers import PATIENCE_SECONDS, MoodyStore, submit_to

LEASE_SECONDS = 60.0


class Desk:
    """One leased job and everything of a worker that writes about it."""

    def __init__(self, store: MoodyStore, env: Env) -> None:
        self.store = store
        self.lost: list[str] = []
        self.heartbeat = Heartbeat(
            store,
            "me",
            env=env,
            failure_threshold=1,
            on_lost=lambda lease, _: self.lost.append(lease.job_id),
            on_cancel=lambda *_: None,
        )
        self.reports = Reports(store, env, lambda: None)
        self.backing = WorkerBacking(
            store, self.heartbeat, self.reports, InHand(Prefetch(1)), env.clock
        )
        submit_to(store, "t", id="job")
        self.lease: Lease = LeaseManager(store, "me", lease_seconds=LEASE_SECONDS).acquire()[0]
        self.heartbeat.add(self.lease)

    def events(self) -> list[Event]:
        return [event.event for event in self.store.history("job")]


@pytest.fixture
def desk(timed_store: MoodyStore, env: Env) -> Desk:
    return Desk(timed_store, env)


def test_a_suspended_lease_is_neither_renewed_nor_abandoned(desk: Desk, clock: ManualClock) -> None:
    desk.backing.make_way(desk.lease)
    clock.advance(LEASE_SECONDS + 1)
    desk.heartbeat.beat(job_ids=["job"])
    assert desk.store.renewed == set()
    desk.store.refused.add("renew")
    desk.heartbeat.beat()
    assert desk.lost == []
    assert desk.events() == [Event.CREATED, Event.LEASED]


def test_after_a_rollback_it_is_kept_alive_again(desk: Desk, clock: ManualClock) -> None:
    desk.backing.make_way(desk.lease)
    clock.advance(LEASE_SECONDS / 2)
    desk.backing.gave_up(desk.lease)
    desk.heartbeat.beat()
    assert desk.store.renewed == {"job"}
    desk.backing.make_way(desk.lease)
    clock.advance(LEASE_SECONDS)
    desk.backing.gave_up(desk.lease)
    desk.heartbeat.beat()
    assert desk.lost == ["job"], "it outlasted its lease, and was rolled back"


def test_a_lease_that_is_lost_gets_no_transaction(desk: Desk) -> None:
    desk.heartbeat.discard(desk.lease)
    with pytest.raises(LeaseLostError, match="has lost its lease"):
        desk.backing.open(desk.lease)


def test_where_none_can_be_opened_the_lease_is_as_before(desk: Desk, clock: ManualClock) -> None:
    with pytest.raises(UnsupportedError):
        desk.backing.open(desk.lease)
    clock.advance(1)
    desk.heartbeat.beat()
    assert desk.store.renewed == {"job"}


def test_it_waits_for_a_renewal_that_is_under_way(desk: Desk) -> None:
    arrived, go = threading.Event(), threading.Event()

    def hold() -> None:
        arrived.set()
        assert go.wait(PATIENCE_SECONDS)

    desk.store.before["renew"] = hold
    beat = threading.Thread(target=desk.heartbeat.beat)
    beat.start()
    assert arrived.wait(PATIENCE_SECONDS)
    way = threading.Thread(target=desk.backing.make_way, args=(desk.lease,))
    way.start()
    way.join(0.05)
    assert way.is_alive(), "the renewal would come after the completion"
    go.set()
    for thread in (beat, way):
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()


def test_what_was_reported_is_written_first(desk: Desk) -> None:
    desk.reports.progress(desk.lease, b'{"done":1}')
    desk.reports.log(desk.lease, *said("a line"))
    desk.backing.make_way(desk.lease)
    assert desk.store.job("job").progress == {"done": 1}
    assert desk.store.log("job").texts == ["a line"]


def test_what_cannot_be_written_first_would_come_too_late(desk: Desk, clock: ManualClock) -> None:
    desk.reports.progress(desk.lease, b'{"done":1}')
    desk.store.refused.add("report_progress")
    with pytest.raises(StoreUnavailableError, match=r"log of job \S+ could not be"):
        desk.backing.make_way(desk.lease)
    clock.advance(1)
    desk.heartbeat.beat()
    assert desk.store.renewed == {"job"}, "it goes on without a transaction"


def test_who_claims_first_decides() -> None:
    run = call_run(add, 1, 2).run
    assert run.claim()
    assert not run.decide(Release(reason="its worker stopped"))
    run.finish(Complete(b"3"))
    assert run.outcome == Complete(b"3")
    late = call_run(add, 1, 2).run
    assert late.decide(Release(reason="its worker stopped"))
    assert not late.claim()
