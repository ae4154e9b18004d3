"""REN, PRO, LOG: a holder's messages while it runs a job."""

from __future__ import annotations

from datetime import timedelta

import pytest

from leasehold.core.contract.store import Store
from leasehold.core.model.joblog import JobLog
from leasehold.core.model.lease import Lease, Renewal, Renewed, next_heartbeat_seconds
from leasehold.core.model.limits import EXTENSION_SECONDS_MAX, LOG_LINE_LENGTH_MAX
from leasehold.core.model.outcome import Complete, Release
from leasehold.core.model.records import WorkerInfo
from leasehold.core.model.status import Event
from leasehold.env import ManualClock
from leasehold.errors import (
    InvalidTransitionError,
    LeaseConflictError,
    LeaseExpiredError,
    LeaseLostError,
    PayloadError,
)
from leasehold.testing.conformance.base import (
    SAID_AT,
    ConformanceBase,
    assert_history_replays,
    draft,
    events,
    get,
    lease_all,
    lease_one,
    said,
    settle,
    submit,
)
from leasehold.testing.conformance.cases import on_one_store


class HoldingClauses(ConformanceBase):
    @pytest.fixture
    def reporting(self, store: Store) -> tuple[Store, Lease]:
        """A store with a job whose holder has told how far it is."""
        submit(store, draft())
        lease = lease_one(store)
        store.report_progress("job", lease.version, b'{"done":1}')
        return store, lease

    def test_ren_1_a_renewal_keeps_the_lease(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft("one"), draft("two"))
        leases = lease_all(store, lease_seconds=10)
        clock.advance(9)
        answers = store.renew("worker", [Renewal(each.job_id, each.version, 30) for each in leases])
        expires = store.now() + timedelta(seconds=30)
        assert answers == [
            Renewed(each.job_id, each.version, expires, 30, next_heartbeat_seconds(30))
            for each in leases
        ]
        job = get(store, "one")
        assert (job.lease_expires_at, job.heartbeat_at) == (expires, store.now())
        clock.advance(29)
        assert store.recover().expired_found == 0
        clock.advance(1)
        assert store.recover().recovered == 2

    def test_ren_1_no_zombie_lives_for_ever(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft())
        lease = lease_one(store, lease_seconds=EXTENSION_SECONDS_MAX - 10)
        clock.advance(EXTENSION_SECONDS_MAX - 20)
        (answer,) = store.renew("worker", [Renewal("job", lease.version, 300)])
        assert isinstance(answer, Renewed)
        assert answer.expires_at == lease.acquired_at + timedelta(seconds=EXTENSION_SECONDS_MAX)

    def test_ren_1_a_renewal_cuts_no_lease_short(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft("long", lease_seconds=2 * EXTENSION_SECONDS_MAX), draft("short"))
        leases = {lease.job_id: lease for lease in lease_all(store, lease_seconds=60)}
        clock.advance(10)
        answers = store.renew(
            "worker",
            [Renewal("long", leases["long"].version, 2 * EXTENSION_SECONDS_MAX),
             Renewal("short", leases["short"].version, 5)],
        )  # fmt: skip
        for answer in answers:
            assert isinstance(answer, Renewed)
            assert answer.expires_at == leases[answer.job_id].expires_at
            left = answer.expires_at - store.now()
            assert answer.granted_seconds == left.total_seconds()
            assert get(store, answer.job_id).lease_expires_at == answer.expires_at

    def test_ren_1_successful_heartbeats_are_not_history(self, store: Store) -> None:
        submit(store, draft())
        lease = lease_one(store)
        store.renew("worker", [Renewal("job", lease.version, 60)])
        assert events(store) == [Event.CREATED, Event.LEASED]

    def test_ren_1_it_keeps_the_worker_in_the_registry_alive(
        self, store: Store, clock: ManualClock
    ) -> None:
        store.register_worker(
            WorkerInfo(
                id="worker", host="here", pid=1, queues=("default",), slots=2,
                started_at=store.now(), heartbeat_at=store.now(), app_version="v1.2",
            )
        )  # fmt: skip
        clock.advance(30)
        assert store.renew("worker", []) == []
        (info,) = store.workers()
        assert (info.heartbeat_at, info.app_version) == (store.now(), "v1.2")

    def test_ren_2_a_stale_renewal_changes_nothing(self, store: Store) -> None:
        submit(store, draft())
        first = lease_one(store, worker="first")
        settle(store, first, Release())
        (answer,) = store.renew("first", [Renewal("job", first.version, 60)])
        assert type(answer) is LeaseLostError
        lease_one(store, worker="second")
        before = get(store)
        (conflict, gone) = store.renew(
            "first", [Renewal("job", first.version, 600), Renewal("nobody", 1, 60)]
        )
        assert type(conflict) is LeaseConflictError
        assert type(gone) is LeaseLostError
        assert get(store) == before
        assert events(store).count(Event.VERSION_MISMATCH) == 2
        assert_history_replays(store, before)

    def test_ren_2_an_expired_lease_cannot_be_renewed(
        self, store: Store, clock: ManualClock
    ) -> None:
        submit(store, draft())
        lease = lease_one(store, lease_seconds=10)
        clock.advance(10)
        before = get(store)
        (answer,) = store.renew("worker", [Renewal("job", lease.version, 60)])
        assert type(answer) is LeaseExpiredError
        assert get(store) == before

    def test_ren_2_one_stale_renewal_hinders_nobody(self, store: Store) -> None:
        submit(store, draft("one"), draft("two"))
        (one, two) = lease_all(store)
        answers = store.renew(
            "worker", [Renewal("one", one.version + 1, 60), Renewal("two", two.version, 60)]
        )
        assert isinstance(answers[0], LeaseLostError)
        assert isinstance(answers[1], Renewed)

    def test_ren_3_the_answer_carries_a_cancel_request(self, store: Store) -> None:
        submit(store, draft())
        lease = lease_one(store)
        store.cancel(["job"], reason="no need", actor="me")
        (answer,) = store.renew("worker", [Renewal("job", lease.version, 60)])
        assert isinstance(answer, Renewed)
        assert answer.cancel_requested == "no need"

    def test_pro_1_progress_is_fenced(self, store: Store) -> None:
        submit(store, draft())
        lease = lease_one(store)
        store.report_progress("job", lease.version, b'{"done":3,"of":10}')
        assert get(store).progress == {"done": 3, "of": 10}
        with pytest.raises(LeaseLostError):
            store.report_progress("job", lease.version + 1, b'{"done":9}')
        with pytest.raises(LeaseLostError):
            store.report_progress("nobody", 1, b"{}")
        settle(store, lease, Complete())
        with pytest.raises(LeaseLostError):
            store.report_progress("job", lease.version, b'{"done":9}')
        assert get(store).progress == {"done": 3, "of": 10}
        refused = [each for each in store.history("job") if each.event is Event.VERSION_MISMATCH]
        assert [each.lease_version for each in refused] == [lease.version + 1, lease.version]

    @on_one_store(
        "progress", [b"[1]", b"{", b"", b"null", b"\xff", b'{"x":"' + b"x" * 300_000 + b'"}']
    )
    def test_pro_2_a_progress_that_cannot_be_read_again_is_refused(
        self, reporting: tuple[Store, Lease], progress: bytes
    ) -> None:
        store, lease = reporting
        with pytest.raises(PayloadError, match="the progress of job job"):
            store.report_progress("job", lease.version, progress)
        assert get(store).progress == {"done": 1}

    def test_log_1_the_log_is_fenced(self, store: Store) -> None:
        submit(store, draft())
        lease = lease_one(store)
        store.append_log("job", lease.version, said("one", "two"))
        store.append_log("job", lease.version, said("three"))
        with pytest.raises(LeaseLostError):
            store.append_log("job", lease.version + 1, said("four"))
        settle(store, lease, Complete())
        with pytest.raises(LeaseLostError):
            store.append_log("job", lease.version, said("five"))
        assert store.log("job") == JobLog([*said("one", "two"), *said("three")])
        assert store.log("nobody") == JobLog([])
        refused = [each for each in store.history("job") if each.event is Event.VERSION_MISMATCH]
        assert [each.lease_version for each in refused] == [lease.version + 1, lease.version]

    def test_log_2_the_last_thousand_lines(self, store: Store) -> None:
        submit(store, draft())
        lease = lease_one(store)
        store.append_log("job", lease.version, said(*(f"old {number}" for number in range(600))))
        assert (len(store.log("job").lines), store.log("job").dropped) == (600, 0)
        store.append_log("job", lease.version, said(*(f"new {number}" for number in range(900))))
        log = store.log("job")
        assert (len(log.lines), log.texts[0], log.texts[-1]) == (1000, "old 500", "new 899")
        assert log.dropped == 500
        # More at once than are kept, of which the worker has dropped some before.
        store.append_log(
            "job", lease.version, said(*(f"last {number}" for number in range(1100))), dropped=7
        )
        log = store.log("job")
        assert (len(log.lines), log.texts[0], log.texts[-1]) == (1000, "last 100", "last 1099")
        assert log.dropped == 600 + 900 + 7 + 100

    def test_log_2_a_long_line_is_cut(self, store: Store) -> None:
        submit(store, draft())
        lease = lease_one(store)
        store.append_log("job", lease.version, said("x" * 1_000_000, "\ud800 is no text"))
        long, odd = store.log("job").texts
        assert len(long) <= LOG_LINE_LENGTH_MAX
        assert long.startswith("xxx")
        assert long.endswith(" characters cut")
        assert odd == "\\ud800 is no text"

    def test_log_3_a_line_keeps_its_time(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft())
        lease = lease_one(store)
        clock.advance(60)
        store.append_log("job", lease.version, said("one", "two"))
        assert [line.at - SAID_AT for line in store.log("job").lines] == [
            timedelta(0),
            timedelta(seconds=1),
        ]

    def test_tell_writes_what_changes_nothing(self, store: Store) -> None:
        submit(store, draft())
        lease = lease_one(store)
        before = get(store)
        store.tell(
            "job", Event.ABANDONED, worker="worker", version=lease.version, message="cut off"
        )
        last = store.history("job")[-1]
        assert (last.event, last.worker, last.lease_version, last.message) == (
            Event.ABANDONED, "worker", lease.version, "cut off",
        )  # fmt: skip
        assert get(store) == before
        assert_history_replays(store, before)
        with pytest.raises(InvalidTransitionError):
            store.tell("job", Event.COMPLETED, worker="worker", version=1, message="")
        store.tell("nobody", Event.ABANDONED, worker="worker", version=1, message="")
        assert store.history("nobody") == []
