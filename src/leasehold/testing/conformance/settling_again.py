"""SET-7: a settlement that is sent again, because the reply to the first one was lost."""

from __future__ import annotations

import hashlib

import msgspec
import pytest

from leasehold.core.contract.store import Store
from leasehold.core.model.blob import BLOB_CODEC, BlobKey, BlobReference
from leasehold.core.model.lease import Lease, LeaseRequest, Settled, Settlement
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
    draft,
    events,
    get,
    lease_all,
    lease_one,
    settle,
    submit,
)
from leasehold.testing.conformance.retaining import clean

OUTCOMES: list[Outcome] = [
    Complete(b"1"), FAILURE, FATAL, Snooze(1), Release(), Release(1), Cancel("enough"),
]  # fmt: skip


SOME_STORE = "5e1f"


def again(store: Store, lease: Lease, outcome: Outcome) -> Settled | LeaseLostError:
    (answer,) = store.exchange([Settlement(lease.job_id, lease.version, outcome)]).settled
    return answer


def blob(data: bytes, nonce: str, codec: str = "json") -> Complete:
    """A completion whose result is kept apart: `own` makes it one of a store's own."""
    key = BlobKey(
        store_id=SOME_STORE, kind="result", owner="job", version=1, made_at=0, nonce=nonce
    )
    digest = hashlib.sha256(data).hexdigest()
    reference = BlobReference(
        kind="folder", key=key.text, size=len(data), sha256=digest, codec=codec
    )
    return Complete(reference.encode(), codec=BLOB_CODEC)


def own(store: Store, outcome: Complete) -> Complete:
    store_id = str(store.describe().get("store_id", "memory"))
    if outcome.codec != BLOB_CODEC or outcome.result is None:
        return outcome
    result = outcome.result.replace(SOME_STORE.encode(), store_id.encode())
    return msgspec.structs.replace(outcome, result=result)


class SettlingAgainClauses(ConformanceBase):
    @pytest.mark.parametrize("outcome", OUTCOMES, ids=repr)
    def test_set_7_it_is_answered_as_the_first_time(self, store: Store, outcome: Outcome) -> None:
        submit(store, draft())
        lease = lease_one(store)
        first = settle(store, lease, outcome)
        job, happened, stats = get(store), events(store), store.stats()
        for _ in range(2):
            assert again(store, lease, outcome) == first
        assert (get(store), events(store), store.stats()) == (job, happened, stats)
        assert len(store.attempts("job")) == 1

    def test_set_7_also_within_one_exchange(self, store: Store) -> None:
        submit(store, draft("one"), draft("two"))
        (one, two) = lease_all(store)
        settlements = [Settlement(each.job_id, each.version, Complete()) for each in (one, two)]
        answers = store.exchange([*settlements, *settlements]).settled
        assert answers[:2] == answers[2:]
        assert all(isinstance(each, Settled) for each in answers)
        assert store.stats().completed == 2

    @pytest.mark.parametrize("outcome", [FAILURE, Snooze(RETRY_SECONDS), Release()], ids=repr)
    def test_set_7_also_when_the_job_has_moved_on(
        self, store: Store, clock: ManualClock, outcome: Outcome
    ) -> None:
        submit(store, draft())
        lease = lease_one(store)
        first = settle(store, lease, outcome)
        clock.advance(RETRY_SECONDS)
        second = lease_one(store, worker="second")
        answer = again(store, lease, outcome)
        assert isinstance(answer, Settled)
        assert (answer.event, answer.status, answer.attempts) == (
            first.event, first.status, first.attempts,
        )  # fmt: skip
        # It does not wait any more.
        assert answer.run_at is None
        assert Event.VERSION_MISMATCH not in events(store)
        assert settle(store, second, Complete()).status is Status.COMPLETED

    def test_set_7_also_when_somebody_replayed_the_job(self, store: Store) -> None:
        submit(store, draft())
        lease = lease_one(store)
        first = settle(store, lease, FATAL)
        store.replay(["job"], reset_attempts=True, actor="ann")
        assert again(store, lease, FATAL) == first
        assert get(store).status is Status.PENDING

    @pytest.mark.parametrize("outcome", [FAILURE, Snooze(1), Release(), Cancel()], ids=repr)
    def test_set_7_also_when_it_ended_by_a_cancel_request(
        self, store: Store, outcome: Outcome
    ) -> None:
        submit(store, draft())
        lease = lease_one(store)
        store.cancel(["job"], reason="no need", actor="ann")
        first = settle(store, lease, outcome)
        assert first.status is Status.CANCELLED
        assert again(store, lease, outcome) == first

    def test_set_7_also_a_result_over_the_limit(self, store: Store) -> None:
        submit(store, draft())
        lease = lease_one(store)
        outcome = Complete(b'"' + b"x" * PAYLOAD_BYTES_MAX + b'"')
        assert again(store, lease, outcome) == again(store, lease, outcome)
        assert get(store).status is Status.DEAD

    @pytest.mark.parametrize("first", OUTCOMES[:-1], ids=repr)
    def test_set_7_another_kind_of_outcome_is_refused(self, store: Store, first: Outcome) -> None:
        submit(store, draft())
        lease = lease_one(store)
        settle(store, lease, first)
        before, others = get(store), [each for each in OUTCOMES if type(each) is not type(first)]
        for other in others:
            assert type(again(store, lease, other)) is LeaseLostError
        assert get(store) == before
        assert events(store).count(Event.VERSION_MISMATCH) == len(others)

    @pytest.mark.parametrize(
        ("first", "other"),
        [
            (Complete(b'"a"'), Complete(b'"b"')),
            (Complete(b'"a"'), Complete()),
            (Complete(b'"a"'), Complete(b'"a"', codec="pickle")),
            (blob(b"a" * 9, "ab"), blob(b"b" * 9, "cd")),
            (blob(b"a" * 9, "ab"), Complete(b'"a"')),
        ],
        ids=repr,
    )
    def test_set_7_another_result_is_refused(
        self, store: Store, first: Complete, other: Complete
    ) -> None:
        first, other = own(store, first), own(store, other)
        submit(store, draft())
        lease = lease_one(store)
        accepted = settle(store, lease, first)
        before = get(store)
        assert type(again(store, lease, other)) is LeaseLostError
        assert again(store, lease, first) == accepted
        assert get(store) == before
        assert events(store)[-2:] == [Event.COMPLETED, Event.VERSION_MISMATCH]

    @pytest.mark.parametrize(
        ("first", "other"),
        [
            (Complete(b'"a"'), Complete(b'"a"', note=b'"b"')),
            (Complete(b"a", codec="pickle"), Complete(b"b", codec="pickle")),
            (blob(b"a" * 9, "ab"), blob(b"a" * 9, "cd")),
            (blob(b"a" * 9, "ab", "pickle"), blob(b"b" * 9, "cd", "pickle")),
            (Complete(), Complete(b'"b"')),
        ],
        ids=repr,
    )
    def test_set_7_what_is_or_may_be_the_same_result_is_not(
        self, store: Store, first: Complete, other: Complete
    ) -> None:
        first, other = own(store, first), own(store, other)
        submit(store, draft())
        lease = lease_one(store)
        accepted = settle(store, lease, first)
        assert again(store, lease, other) == accepted
        assert events(store)[-1] is Event.COMPLETED

    def test_set_7_also_another_result_within_one_exchange(self, store: Store) -> None:
        submit(store, draft())
        lease = lease_one(store)
        first, other = (
            Settlement("job", lease.version, Complete(result)) for result in (b'"a"', b'"b"')
        )
        settled, refused, repeated = store.exchange([first, other, first]).settled
        assert settled == repeated
        assert type(refused) is LeaseLostError
        assert get(store).result_data == b'"a"'

    def test_set_7_nothing_is_compared_with_a_result_that_is_gone(
        self, store: Store, clock: ManualClock
    ) -> None:
        submit(store, draft(result_ttl_seconds=10))
        lease = lease_one(store)
        accepted = settle(store, lease, Complete(b'"a"'))
        clock.advance(11)
        clean(store)
        assert again(store, lease, Complete(b'"b"')) == accepted

    def test_set_7_nothing_but_complete_differs_from_an_end_as_cancelled(
        self, store: Store
    ) -> None:
        submit(store, draft())
        lease = lease_one(store)
        first = settle(store, lease, Cancel("enough"))
        assert type(again(store, lease, Complete())) is LeaseLostError
        assert again(store, lease, FAILURE) == first

    @pytest.mark.parametrize("outcome", OUTCOMES, ids=repr)
    def test_set_7_a_lease_that_was_taken_back_was_never_settled(
        self, store: Store, clock: ManualClock, outcome: Outcome
    ) -> None:
        submit(store, draft("back"), draft("dead", max_retries=0), draft("cancelled"))
        leases = lease_all(store, lease_seconds=10)
        store.cancel(["cancelled"], reason="no need", actor="ann")
        clock.advance(11)
        store.recover()
        for lease in leases:
            assert type(again(store, lease, outcome)) is LeaseLostError
            assert events(store, lease.job_id)[-1] is Event.VERSION_MISMATCH
        assert [get(store, each.job_id).status for each in leases] == [
            Status.PENDING, Status.DEAD, Status.CANCELLED,
        ]  # fmt: skip

    def test_set_7_the_other_settlements_and_the_leases_count(self, store: Store) -> None:
        submit(store, draft("one"), draft("two"), draft("three"))
        (one, two) = lease_all(store, limit=2)
        first = settle(store, one, Complete())
        exchange = store.exchange(
            [Settlement("one", one.version, Complete()), Settlement("two", two.version, FATAL)],
            LeaseRequest(worker="worker"),
        )
        repeated, settled = exchange.settled
        assert repeated == first
        assert isinstance(settled, Settled)
        assert settled.status is Status.DEAD
        assert [lease.job_id for lease in exchange.leases] == ["three"]

    def test_set_7_only_settlements(self, store: Store) -> None:
        submit(store, draft())
        first = lease_one(store)
        settle(store, first, Release())
        second = lease_one(store, worker="second")
        with pytest.raises(LeaseConflictError):
            store.report_progress("job", first.version, b"{}")
        settle(store, second, Complete())
        with pytest.raises(LeaseLostError):
            store.append_log("job", second.version, [])
