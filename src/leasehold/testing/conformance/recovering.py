"""REC: holders that were lost, and jobs whose time has come."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from leasehold.core.contract.store import Store
from leasehold.core.model.budget import RECOVERED_AT_ONCE
from leasehold.core.model.lease import LOST_TOLD_MAX, Renewal
from leasehold.core.model.outcome import Complete, Release
from leasehold.core.model.records import WorkerInfo
from leasehold.core.model.status import Event, Status
from leasehold.env import ManualClock
from leasehold.errors import LeaseLostError
from leasehold.testing.conformance.base import (
    FAILURE,
    RETRY_SECONDS,
    ConformanceBase,
    assert_history_replays,
    at_once,
    draft,
    events,
    get,
    lease_all,
    lease_one,
    settle,
    submit,
)


def worker_info(store: Store, name: str = "worker") -> WorkerInfo:
    return WorkerInfo(
        id=name, host="here", pid=1, queues=("default",), slots=2,
        started_at=store.now(), heartbeat_at=store.now(),
    )  # fmt: skip


class RecoveringClauses(ConformanceBase):
    def test_rec_1_pending_dead_or_cancelled(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft("again"), draft("poison", max_retries=0), draft("unwanted"))
        lease_all(store, lease_seconds=10)
        store.cancel(["unwanted"], reason="no need", actor="me")
        clock.advance(10)
        report = store.recover()
        assert (report.expired_found, report.recovered, report.dead, report.cancelled) == (
            3, 1, 1, 1,
        )  # fmt: skip
        assert report.errors == 0
        assert get(store, "again").status is Status.PENDING
        assert get(store, "poison").status is Status.DEAD
        assert get(store, "poison").reason
        assert get(store, "unwanted").status is Status.CANCELLED
        assert get(store, "unwanted").reason == "no need"
        assert lease_one(store).job_id == "again"
        stats = store.stats()
        assert (stats.recovered, stats.dead, stats.cancelled, stats.failed) == (1, 1, 1, 0)

    def test_rec_1_all_of_them_however_many(self, store: Store, clock: ManualClock) -> None:
        count = RECOVERED_AT_ONCE + 7
        store.submit([draft(f"job-{n}", max_retries=n % 2) for n in range(count)])
        lease_all(store, limit=count, lease_seconds=10)
        clock.advance(10)
        report = store.recover()
        assert (report.expired_found, report.recovered, report.dead) == (
            count, count // 2, count - count // 2,
        )  # fmt: skip
        assert store.stats().counts[Status.RUNNING] == 0
        assert store.recover().expired_found == 0
        assert store.check() == []

    def test_rec_1_poison_cannot_kill_workers_for_ever(
        self, store: Store, clock: ManualClock
    ) -> None:
        submit(store, draft(max_retries=2))
        leased = 0
        while lease_all(store, lease_seconds=10):
            leased += 1
            clock.advance(10)
            store.recover()
        assert (leased, get(store).status, get(store).attempts) == (3, Status.DEAD, 3)
        assert_history_replays(store, get(store))

    def test_rec_2_each_leaves_an_attempt_record(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft())
        lease = lease_one(store, worker="lost", lease_seconds=10)
        clock.advance(4)
        beat = store.now()
        store.renew("lost", [Renewal("job", lease.version, 10)])
        clock.advance(60)
        assert store.recover().checkpoints_created == 1
        (attempt,) = store.attempts("job")
        assert (attempt.worker, attempt.lease_version) == ("lost", lease.version)
        assert attempt.lease_expires_at == beat + timedelta(seconds=10)
        assert (attempt.heartbeat_at, attempt.ended_at) == (beat, store.now())
        assert attempt.outcome is Event.RECOVERED
        assert attempt.error is not None
        assert attempt.error.type == "WorkerLost"
        assert attempt.error.message.startswith("worker lost let its lease expire at ")
        assert store.history("job")[-1].message == attempt.error.message

    def test_rec_10_the_report_tells_the_lost_attempts(
        self, store: Store, clock: ManualClock
    ) -> None:
        submit(store, draft("again"), draft("last", max_retries=0), draft("unwanted"))
        leases = lease_all(store, worker="lost", lease_seconds=10)
        store.cancel(["unwanted"], reason="not needed", actor="test")
        clock.advance(10)
        told = store.recover().lost
        assert [
            (each.settled.job_id, each.settled.version, each.settled.event, each.settled.status)
            for each in told
        ] == [
            ("again", leases[0].version, Event.RECOVERED, Status.PENDING),
            ("last", leases[1].version, Event.DEAD, Status.DEAD),
            ("unwanted", leases[2].version, Event.CANCELLED, Status.CANCELLED),
        ]
        for each in told:
            (attempt,) = store.attempts(each.settled.job_id)
            assert (each.worker, each.error) == ("lost", attempt.error)
        assert store.recover().lost == ()

    def test_rec_10_at_most_so_many_are_told(self, store: Store, clock: ManualClock) -> None:
        count = LOST_TOLD_MAX + 1
        store.submit([draft(f"job-{number}") for number in range(count)])
        lease_all(store, limit=count, lease_seconds=10)
        clock.advance(10)
        report = store.recover()
        assert (report.expired_found, len(report.lost)) == (count, LOST_TOLD_MAX)

    def test_rec_2_at_most_a_hundred_attempt_records(self, store: Store) -> None:
        submit(store, draft())
        versions = []
        for _ in range(103):
            lease = lease_one(store)
            versions.append(lease.version)
            settle(store, lease, Release())
        kept = [attempt.lease_version for attempt in store.attempts("job")]
        assert kept == versions[-100:]
        assert_history_replays(store, get(store))

    def test_rec_3_a_lease_that_has_not_expired_is_safe(
        self, store: Store, clock: ManualClock
    ) -> None:
        life = store.register_worker(worker_info(store, "known"))
        submit(store, draft("one"), draft("two"))
        lease_one(store, worker="known", lease_seconds=10)
        lease_one(store, worker="stranger", lease_seconds=10)
        clock.advance(9.999)
        report = store.recover()
        assert (report.expired_found, report.workers_proved_dead) == (0, ())
        assert get(store, "one").status is get(store, "two").status is Status.RUNNING
        life.close()

    def test_rec_4_several_sweeps_at_once(self, store: Store, clock: ManualClock) -> None:
        store.submit([draft(f"job-{number}") for number in range(30)])
        lease_all(store, lease_seconds=10)
        clock.advance(10)
        reports = at_once(5, lambda _: store.recover())
        assert sum(report.recovered for report in reports) == 30
        assert store.stats().recovered == 30
        for number in range(30):
            assert events(store, f"job-{number}").count(Event.RECOVERED) == 1

    def test_rec_5_no_attempt_is_added_or_taken_back(
        self, store: Store, clock: ManualClock
    ) -> None:
        submit(store, draft())
        lease_one(store, lease_seconds=10)
        clock.advance(10)
        store.recover()
        assert get(store).attempts == 1
        assert lease_one(store).attempt == 2
        assert_history_replays(store, get(store))

    def test_rec_8_the_leases_that_ended_first_first(
        self, store: Store, clock: ManualClock
    ) -> None:
        for name, lease_seconds in (("one", 20), ("two", 10), ("three", 20), ("four", 15)):
            submit(store, draft(name))
            lease_one(store, lease_seconds=lease_seconds)
        clock.advance(20)
        store.recover()
        [lost] = store.failures()
        assert lost.jobs == ("three", "one", "four", "two")

    def test_rec_9_a_sweep_that_somebody_orders_is_audited(
        self, store: Store, clock: ManualClock
    ) -> None:
        submit(store, draft())
        lease_one(store, lease_seconds=10)
        clock.advance(10)
        store.recover(actor="me")
        store.recover()
        store.recover(actor="you")
        told = [(each.actor, each.action, each.count) for each in store.audit_page().records]
        assert told == [("you", "sweep", 0), ("me", "sweep", 1)]

    def test_rec_6_one_job_is_taken_from_its_holder(self, store: Store) -> None:
        submit(store, draft(max_retries=1))
        lease = lease_one(store)
        with pytest.raises(LeaseLostError):
            store.recover_one("job", lease.version + 1, reset_attempts=False, reason="stuck")
        answer = store.recover_one("job", lease.version, reset_attempts=False, reason="stuck")
        assert (answer.event, answer.status) == (Event.RECOVERED, Status.PENDING)
        assert get(store).attempts == 1
        with pytest.raises(LeaseLostError):
            store.recover_one("job", lease.version, reset_attempts=False, reason="stuck")
        with pytest.raises(LeaseLostError):
            store.recover_one("nobody", 1, reset_attempts=False, reason="stuck")
        second = lease_one(store)
        answer = store.recover_one("job", second.version, reset_attempts=False, reason="stuck")
        assert answer.status is get(store).status is Status.DEAD

    def test_rec_6_with_its_attempts_reset(self, store: Store) -> None:
        submit(store, draft(max_retries=0))
        lease = lease_one(store)
        answer = store.recover_one("job", lease.version, reset_attempts=True, reason="stuck")
        assert (answer.status, get(store).attempts, get(store).allowance) == (Status.PENDING, 0, 1)
        assert lease_one(store).attempt == 1
        assert_history_replays(store, get(store))

    def test_rec_6_a_reset_forgets_what_replays_had_added(self, store: Store) -> None:
        submit(store, draft(max_retries=1))
        store.cancel(["job"], reason="", actor="me")
        store.replay(["job"], reset_attempts=False, actor="me")
        lease = lease_one(store)
        assert lease.allowance == 3
        store.recover_one("job", lease.version, reset_attempts=True, reason="stuck")
        assert (get(store).attempts, get(store).allowance) == (0, 2)

    def test_stuck_jobs_the_longest_silent_first(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft("one"), draft("two"), draft("three"))
        (one, two, _) = lease_all(store, lease_seconds=600)
        clock.advance(50)
        store.renew("worker", [Renewal("one", one.version, 600)])
        clock.advance(50)
        settle(store, two, Complete())
        assert [job.job_id for job in store.stuck(40)] == ["three", "one"]
        (job,) = store.stuck(60)
        assert (job.job_id, job.worker, job.attempts) == ("three", "worker", 1)
        assert (job.heartbeat_at, job.lease_version) == (
            store.now() - timedelta(seconds=100), get(store, "three").lease_version,
        )  # fmt: skip
        assert store.stuck(101) == []

    def test_promote_what_is_due(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft("retry"))
        settle(store, lease_one(store), FAILURE)
        submit(
            store, draft("due", delay_seconds=1, queue="other"), draft("later", delay_seconds=100)
        )
        assert store.promote() == 0
        clock.advance(RETRY_SECONDS)
        assert (store.promote(), store.promote()) == (2, 0)
        statuses = [get(store, name).status for name in ("retry", "due", "later")]
        assert statuses == [Status.PENDING, Status.PENDING, Status.SCHEDULED]

    def test_workers_come_and_go(self, store: Store) -> None:
        ahead = store.now() + timedelta(seconds=7)
        info = msgspec.structs.replace(
            worker_info(store, "one"), started_at=ahead, heartbeat_at=ahead
        )
        life = store.register_worker(info)
        [known] = store.workers()
        # The store's clock counts, not the worker's.
        assert (known.started_at, known.heartbeat_at) == (store.now(), store.now())
        other = store.register_worker(worker_info(store, "two"))
        submit(store, draft())
        lease_one(store, worker="one")
        running = {info.id: info.running for info in store.workers()}
        assert running == {"one": 1, "two": 0}
        life.close()
        assert [info.id for info in store.workers()] == ["two"]
        other.close()
        other.close()
        assert store.workers() == []

    def test_rec_7_somebody_s_order_is_an_audit_record(self, store: Store) -> None:
        submit(store, draft("one"), draft("two"))
        (one, two) = lease_all(store)
        store.recover_one("one", one.version, reset_attempts=False, reason="stuck")
        assert store.audit_page().records == []
        store.recover_one("two", two.version, reset_attempts=True, reason="stuck", actor="ann")
        with pytest.raises(LeaseLostError):
            store.recover_one("two", two.version, reset_attempts=True, reason="stuck", actor="ann")
        [record] = store.audit_page().records
        assert (record.at, record.actor, record.action, record.count) == (
            store.now(), "ann", "requeue", 1,
        )  # fmt: skip
        detail = {"jobs": ["two"], "worker": two.worker, "reset_attempts": True}
        assert record.detail == detail
