"""Clauses about requests that are sent twice because a reply was lost."""

from __future__ import annotations

import pytest

from leasehold.core.contract.store import Store
from leasehold.core.model.lease import LeaseRequest, Renewal, Renewed, Settled, Settlement
from leasehold.core.model.outcome import Complete
from leasehold.core.model.records import Submitted
from leasehold.core.model.retry import Constant
from leasehold.core.model.status import Event, Status
from leasehold.core.rules.replies import REPLIES_KEPT_SECONDS
from leasehold.env import ManualClock
from leasehold.errors import DuplicateJobError, InvalidJobError, LeaseLostError
from leasehold.testing.conformance.base import (
    ConformanceBase,
    draft,
    events,
    get,
    lease_one,
    settle,
    submit,
)
from leasehold.testing.conformance.cases import on_one_store

REQUEST = LeaseRequest(worker="worker", limit=2)


class RepeatingClauses(ConformanceBase):
    """RPT, and EXC-1."""

    def test_exc_1_the_answer_says_the_store_s_time(self, store: Store, clock: ManualClock) -> None:
        clock.advance(5)
        assert store.exchange().at == store.now()
        submit(store, draft("a"), draft("b"))
        for limit in (1, 5):
            clock.advance(5)
            request = LeaseRequest(worker="worker", limit=limit)
            assert store.exchange(request=request).at == store.now()

    def test_rpt_1_a_repeated_submit_is_answered_as_the_first_time(self, store: Store) -> None:
        drafts = [draft("a"), draft("b", delay_seconds=60)]
        first = store.submit_once("r", drafts)
        lease_one(store)
        assert store.submit_once("r", drafts) == first
        assert [answer.status for answer in first if isinstance(answer, Submitted)] == [
            Status.PENDING,
            Status.SCHEDULED,
        ]
        assert store.stats().submitted == 2
        assert events(store, "a") == [Event.CREATED, Event.LEASED]

    def test_rpt_1_so_are_the_refusals_of_a_partial_one(self, store: Store) -> None:
        submit(store, draft("taken"))
        drafts = [draft("new"), draft("taken"), draft("bad", priority=101)]
        first = store.submit_once("r", drafts, partial=True)
        store.cancel(["taken"], reason="", actor="ann")
        store.discard(["taken"], actor="ann")
        again = store.submit_once("r", drafts, partial=True)
        assert again[0] == first[0]
        assert [type(each) for each in again] == [Submitted, DuplicateJobError, InvalidJobError]
        assert [str(each) for each in again[1:]] == [str(each) for each in first[1:]]
        assert store.get("taken") is None

    def test_rpt_1_a_repeated_exchange_settles_and_leases_once(
        self, store: Store, clock: ManualClock
    ) -> None:
        rich = {"metadata": {"n": 1}, "retry": Constant(3), "timeout_seconds": 9.0}
        submit(store, draft("a"), draft("b", **rich), draft("c"), draft("d"))
        held = lease_one(store)
        settlements = [
            Settlement("a", held.version, Complete(b"1")),
            Settlement("gone", 7, Complete()),
        ]
        first = store.exchange_once("r", settlements, REQUEST)
        assert [lease.job_id for lease in first.leases] == ["b", "c"]
        clock.advance(3)
        again = store.exchange_once("r", settlements, REQUEST)
        assert again.leases == first.leases
        assert (again.at, again.next_due_at) == (first.at, first.next_due_at)
        settled, refused = again.settled
        assert isinstance(settled, Settled)
        assert settled == first.settled[0]
        assert type(refused) is type(first.settled[1]) is LeaseLostError
        assert str(refused) == str(first.settled[1])
        assert get(store, "d").status is Status.PENDING
        assert events(store, "a") == [Event.CREATED, Event.LEASED, Event.COMPLETED]
        assert get(store, "b").attempts == 1

    def test_rpt_1_the_leases_of_a_repeated_exchange_can_be_settled(self, store: Store) -> None:
        submit(store, draft())
        store.exchange_once("r", (), REQUEST)
        (lease,) = store.exchange_once("r", (), REQUEST).leases
        assert settle(store, lease, Complete()).status is Status.COMPLETED

    def test_rpt_1_after_its_time_it_is_another_request(
        self, store: Store, clock: ManualClock
    ) -> None:
        submit(store, draft("a"))
        store.exchange_once("r", (), REQUEST)
        clock.advance(REPLIES_KEPT_SECONDS + 1)
        submit(store, draft("b"))
        assert [each.job_id for each in store.exchange_once("r", (), REQUEST).leases] == ["b"]

    def test_rpt_2_what_was_refused_as_a_whole_is_tried_again(self, store: Store) -> None:
        submit(store, draft("taken"))
        with pytest.raises(DuplicateJobError):
            store.submit_once("r", [draft("new"), draft("taken")])
        store.cancel(["taken"], reason="", actor="ann")
        store.discard(["taken"], actor="ann")
        assert len(store.submit_once("r", [draft("new"), draft("taken")])) == 2

    def test_rpt_3_one_id_is_for_one_kind_of_request(self, store: Store) -> None:
        store.submit_once("r", [draft()])
        with pytest.raises(InvalidJobError, match="used for a submit"):
            store.exchange_once("r", (), REQUEST)
        store.exchange_once("e")
        with pytest.raises(InvalidJobError, match="used for an exchange"):
            store.submit_once("e", [draft("other")])
        assert store.get("other") is None

    def test_rpt_3_and_for_one_request_of_that_kind(self, store: Store) -> None:
        first = store.submit_once("r", [draft()])
        for other in ([draft("other")], [draft(payload=b"[7]")], [draft(), draft("other")], []):
            with pytest.raises(InvalidJobError, match="submit of other drafts"):
                store.submit_once("r", other)
        with pytest.raises(InvalidJobError, match="submit of other drafts"):
            store.submit_once("r", [draft()], partial=True)
        assert store.submit_once("r", [draft()]) == first
        (lease,) = store.exchange_once("e", (), REQUEST).leases
        with pytest.raises(InvalidJobError, match="exchange with other contents"):
            store.exchange_once("e", [Settlement("job", lease.version, Complete())], REQUEST)
        assert get(store).status is Status.RUNNING
        assert store.get("other") is None

    @on_one_store("request_id", ["", "x" * 1000, "\ud800"])
    def test_rpt_3_what_is_no_id_is_refused(self, store: Store, request_id: str) -> None:
        with pytest.raises(InvalidJobError, match="request id"):
            store.submit_once(request_id, [draft()])
        with pytest.raises(InvalidJobError, match="request id"):
            store.exchange_once(request_id)

    def test_rpt_4_a_repeated_renewal_is_granted_again(
        self, store: Store, clock: ManualClock
    ) -> None:
        submit(store, draft())
        lease = lease_one(store, lease_seconds=30)
        renewal = Renewal("job", lease.version, 30)
        (first,) = store.renew("worker", [renewal])
        clock.advance(1)
        (again,) = store.renew("worker", [renewal])
        assert isinstance(first, Renewed)
        assert isinstance(again, Renewed)
        assert again.expires_at >= first.expires_at
        assert again.granted_seconds == first.granted_seconds

    def test_rpt_5_leases_that_have_ended_are_left_out(
        self, store: Store, clock: ManualClock
    ) -> None:
        submit(store, draft("a"), draft("b"))
        first = store.exchange_once("r", (), REQUEST)
        settle(store, first.leases[0], Complete())
        clock.advance(1)
        store.renew("worker", [Renewal("b", first.leases[1].version, 1000)])
        (left,) = store.exchange_once("r", (), REQUEST).leases
        assert (left.job_id, left.version) == ("b", first.leases[1].version)
        assert left.expires_at == get(store, "b").lease_expires_at
