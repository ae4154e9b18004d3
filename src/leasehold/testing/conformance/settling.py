"""SET: the holder's last word."""

from __future__ import annotations

from datetime import timedelta

import pytest

from leasehold.core.contract.store import Store
from leasehold.core.model.lease import LeaseRequest, Settled, Settlement
from leasehold.core.model.limits import PAYLOAD_BYTES_MAX
from leasehold.core.model.outcome import Cancel, Complete, Outcome, Release, Snooze
from leasehold.core.model.status import Event, Status
from leasehold.env import ManualClock
from leasehold.errors import LeaseConflictError, LeaseLostError
from leasehold.testing.conformance.base import (
    FAILURE,
    FATAL,
    RETRY_SECONDS,
    ConformanceBase,
    assert_history_replays,
    draft,
    events,
    get,
    lease_all,
    lease_one,
    settle,
    submit,
)

OUTCOMES: list[Outcome] = [
    Complete(b"1"), FAILURE, FATAL, Snooze(1), Release(), Release(1), Cancel("enough"),
]  # fmt: skip


class SettlingClauses(ConformanceBase):
    def test_set_1_complete(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft())
        lease = lease_one(store)
        clock.advance(2)
        answer = settle(store, lease, Complete(b'{"sent":true}', note=b'"by mail"'))
        assert answer == Settled("job", lease.version, Event.COMPLETED, Status.COMPLETED, 1)
        job = get(store)
        assert (job.result, job.worker, job.lease_expires_at) == ({"sent": True}, None, None)
        assert (job.completed_at, job.run_seconds(store.now())) == (store.now(), 2)
        (attempt,) = store.attempts("job")
        assert (attempt.outcome, attempt.note, attempt.duration_seconds) == (
            Event.COMPLETED, "by mail", 2,
        )  # fmt: skip
        assert store.stats().completed == 1

    def test_set_1_fail_is_retried_later(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft(max_retries=1))
        lease = lease_one(store)
        answer = settle(store, lease, FAILURE)
        due = store.now() + timedelta(seconds=RETRY_SECONDS)
        assert answer == Settled("job", lease.version, Event.FAILED, Status.FAILED, 1, due)
        job = get(store)
        assert (job.run_at, job.error, job.will_retry) == (due, FAILURE.error, True)
        clock.advance(RETRY_SECONDS)
        answer = settle(store, lease_one(store), FAILURE)
        assert (answer.status, answer.attempts, answer.run_at) == (Status.DEAD, 2, None)
        job = get(store)
        assert job.is_terminal
        assert job.completed_at == store.now()
        assert "the line is dead" in (job.reason or "")
        assert [attempt.error for attempt in store.attempts("job")] == [FAILURE.error] * 2
        stats = store.stats()
        assert (stats.failed, stats.retried, stats.dead) == (2, 1, 1)

    def test_set_1_a_permanent_failure_is_dead_at_once(self, store: Store) -> None:
        submit(store, draft())
        answer = settle(store, lease_one(store), FATAL)
        assert (answer.event, answer.status, answer.attempts) == (Event.DEAD, Status.DEAD, 1)
        assert get(store).error == FATAL.error

    def test_set_1_cancel_by_the_task(self, store: Store) -> None:
        submit(store, draft())
        assert settle(store, lease_one(store), Cancel("sold out")).status is Status.CANCELLED
        assert get(store).reason == "sold out"
        assert store.stats().cancelled == 1

    def test_set_1_a_cancel_request_ends_what_would_go_on(self, store: Store) -> None:
        submit(store, draft("stops"), draft("ends"))
        (stops, ends) = lease_all(store)
        store.cancel(["stops", "ends"], reason="no need", actor="me")
        assert settle(store, stops, FAILURE).status is Status.CANCELLED
        assert settle(store, ends, Complete()).status is Status.COMPLETED
        assert (get(store, "stops").reason, get(store, "stops").cancel_requested) == (
            "no need", None,
        )  # fmt: skip

    @pytest.mark.parametrize("outcome", OUTCOMES, ids=repr)
    def test_set_2_a_stale_settlement_changes_nothing(
        self, store: Store, clock: ManualClock, outcome: Outcome
    ) -> None:
        submit(store, draft())
        first = lease_one(store, worker="first", lease_seconds=10)
        clock.advance(11)
        store.recover()
        second = lease_one(store, worker="second", lease_seconds=10)
        before = get(store)
        (answer,) = store.exchange([Settlement("job", first.version, outcome)]).settled
        assert type(answer) is LeaseConflictError
        assert get(store) == before
        assert events(store)[-2:] == [Event.LEASED, Event.VERSION_MISMATCH]
        clock.advance(11)
        store.recover()
        before = get(store)
        for version in (first.version, second.version, second.version + 1):
            (answer,) = store.exchange([Settlement("job", version, outcome)]).settled
            assert type(answer) is LeaseLostError
        assert get(store) == before
        assert events(store)[-3:] == [Event.VERSION_MISMATCH] * 3
        assert_history_replays(store, before)

    def test_set_2_a_job_that_is_gone(self, store: Store) -> None:
        (answer,) = store.exchange([Settlement("nobody", 1, Complete())]).settled
        assert type(answer) is LeaseLostError
        assert store.get("nobody") is None

    def test_set_3_an_expired_lease_may_settle(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft())
        lease = lease_one(store, lease_seconds=10)
        clock.advance(1000)
        assert settle(store, lease, Complete()).status is Status.COMPLETED

    def test_set_3_but_not_once_it_was_recovered(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft())
        lease = lease_one(store, lease_seconds=10)
        clock.advance(10)
        assert store.recover().recovered == 1
        (answer,) = store.exchange([Settlement("job", lease.version, Complete())]).settled
        assert type(answer) is LeaseLostError
        assert get(store).status is Status.PENDING

    def test_set_4_one_stale_settlement_hinders_nobody(self, store: Store) -> None:
        submit(store, draft("one"), draft("two"), draft("three"))
        (one, two) = lease_all(store, limit=2)
        exchange = store.exchange(
            [
                Settlement("one", one.version + 5, Complete()),
                Settlement("nobody", 1, Complete()),
                Settlement("two", two.version, Complete()),
            ],
            LeaseRequest(worker="worker"),
        )
        assert isinstance(exchange.settled[0], LeaseLostError)
        assert isinstance(exchange.settled[1], LeaseLostError)
        assert isinstance(exchange.settled[2], Settled)
        assert [lease.job_id for lease in exchange.leases] == ["three"]
        assert get(store, "one").status is Status.RUNNING

    @pytest.mark.parametrize("outcome", [Snooze(2, "busy"), Release(reason="busy"), Release(2)])
    def test_set_5_handing_back_spends_no_attempt(
        self, store: Store, clock: ManualClock, outcome: Snooze | Release
    ) -> None:
        submit(store, draft(max_retries=0))
        for _ in range(3):
            lease = lease_one(store)
            assert (lease.attempt, lease.allowance) == (1, 1)
            answer = settle(store, lease, outcome)
            assert (answer.attempts, get(store).attempts) == (0, 0)
            waits = answer.status is Status.SCHEDULED
            assert get(store).reason == ((outcome.reason or None) if waits else None)
            clock.advance(2)
        assert_history_replays(store, get(store))
        assert [attempt.number for attempt in store.attempts("job")] == [1, 1, 1]

    def test_set_6_a_result_has_a_limit(self, store: Store) -> None:
        submit(store, draft("fits"), draft("large"))
        (fits, large) = lease_all(store)
        most = b'"' + b"x" * (PAYLOAD_BYTES_MAX - 2) + b'"'
        assert settle(store, fits, Complete(most)).status is Status.COMPLETED
        assert get(store, "fits").result_data == most
        assert settle(store, large, Complete(most + b" ")).status is Status.DEAD
        job = get(store, "large")
        assert job.error is not None
        assert (job.error.type, job.result_data) == ("PayloadTooLargeError", None)
