"""Clauses about orders by filter."""

from __future__ import annotations

import pytest

from leasehold.core.contract.store import Store
from leasehold.core.model.refusals import PAGE_MAX
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Status
from leasehold.core.rules.filter_orders import (
    CancelAll,
    DiscardAll,
    Order,
    Ordered,
    OrderedJob,
    ReplayAll,
    ReprioritizeAll,
)
from leasehold.errors import (
    InvalidCursorError,
    InvalidOrderError,
    InvalidPageError,
)
from leasehold.testing.conformance.base import (
    NO_CURSORS,
    ConformanceBase,
    draft,
    events,
    get,
    kill,
    lease_one,
    submit,
)

ALL = JobFilter()


def order(store: Store, wanted: Order, where: JobFilter = ALL) -> Ordered:
    return store.order(wanted, where, actor="ann")


class OrderingClauses(ConformanceBase):
    """ORD."""

    def test_ord_1_cancels_what_waits_or_runs(self, store: Store) -> None:
        kill(store, "dead")
        submit(store, draft("running"))
        lease_one(store)
        submit(store, draft("waiting"), draft("other", queue="other"))
        done = order(store, CancelAll("enough"), JobFilter(queues=("default",)))
        stopped = OrderedJob("waiting", Status.CANCELLED, 50)
        assert done == Ordered(changed=2, jobs=[stopped, OrderedJob("running", Status.RUNNING, 50)])
        assert get(store, "waiting").status is Status.CANCELLED
        assert get(store, "waiting").reason == "enough"
        assert get(store, "running").cancel_requested == "enough"
        assert get(store, "dead").status is Status.DEAD
        assert get(store, "other").status is Status.PENDING

    def test_ord_1_replays_discards_and_reprioritizes(self, store: Store) -> None:
        kill(store, "a", max_retries=4)
        kill(store, "b")
        assert order(store, ReplayAll(reset_attempts=True), JobFilter(ids=("a",))).changed == 1
        assert (get(store, "a").status, get(store, "a").attempts) == (Status.PENDING, 0)
        assert order(store, ReprioritizeAll(90)).changed == 1
        assert get(store, "a").priority == 90
        assert order(store, DiscardAll()).changed == 1
        assert store.get("b") is None
        assert store.get("a") is not None

    def test_ord_1_history_and_audit_are_as_for_named_jobs(self, store: Store) -> None:
        for job_id in ("named", "found"):
            submit(store, draft(job_id))
        store.cancel(["named"], reason="why not", actor="ann")
        order(store, CancelAll("why not"), JobFilter(ids=("found",)))
        assert events(store, "found") == events(store, "named")
        found, named = store.audit_page(limit=2).records
        assert found.detail["jobs"] == ["found"]
        assert (found.actor, found.action, found.count) == (named.actor, named.action, named.count)

    def test_ord_1_nothing_that_fits_is_nothing_done(self, store: Store) -> None:
        submit(store, draft())
        assert order(store, ReplayAll()) == Ordered()
        assert order(store, CancelAll(), JobFilter(statuses=(Status.DEAD,))) == Ordered()
        assert store.audit_page().records == []

    @pytest.mark.parametrize("wanted", [CancelAll(), DiscardAll()])
    def test_ord_2_bounded_writes_meet_every_job_once(self, store: Store, wanted: Order) -> None:
        names = [f"job-{number}" for number in range(7)]
        submit(store, *map(draft, names))
        if isinstance(wanted, DiscardAll):
            store.cancel(names, reason="", actor="ann")
        changed, cursor, writes = 0, None, 0
        while writes == 0 or cursor is not None:
            done = store.order(wanted, ALL, actor="ann", limit=3, cursor=cursor)
            assert done.changed <= 3
            changed, cursor, writes = changed + done.changed, done.next_cursor, writes + 1
            submit(store, draft(f"late-{writes}", queue="late", delay_seconds=60))
        assert writes >= 3
        assert changed >= 7
        left = [store.get(name) for name in names]
        assert all(job is None or job.status is Status.CANCELLED for job in left)

    def test_ord_3_refusals_are_counted_and_hinder_nobody(self, store: Store) -> None:
        kill(store, "again")
        submit(store, draft("root"), draft("leaf", depends_on=("root",)))
        store.cancel(["root"], reason="", actor="ann")
        done = order(store, ReplayAll(), JobFilter(ids=("leaf", "again")))
        again = OrderedJob("again", Status.PENDING, 50)
        assert done == Ordered(changed=1, jobs=[again], refused={"invalid_transition": 1})

    def test_ord_4_replays_begin_with_the_oldest(self, store: Store) -> None:
        submit(store, draft("root"), draft("leaf", depends_on=("root",)))
        store.cancel(["root"], reason="", actor="ann")
        assert get(store, "leaf").status is Status.CANCELLED
        first = store.order(ReplayAll(), ALL, actor="ann", limit=1)
        assert first.changed == 1
        assert get(store, "root").status is Status.PENDING
        second = store.order(ReplayAll(), ALL, actor="ann", limit=1, cursor=first.next_cursor)
        assert second == Ordered(changed=1, jobs=[OrderedJob("leaf", Status.BLOCKED, 50)])
        assert get(store, "leaf").status is Status.BLOCKED

    def test_ord_4_cancels_begin_with_the_latest(self, store: Store) -> None:
        submit(store, draft("old"), draft("new"))
        store.order(CancelAll(), ALL, actor="ann", limit=1)
        assert get(store, "new").status is Status.CANCELLED
        assert get(store, "old").status is Status.PENDING

    def test_ord_5_what_makes_no_sense_is_refused(self, store: Store) -> None:
        submit(store, draft())
        for limit in (0, PAGE_MAX + 1):
            with pytest.raises(InvalidPageError, match="limit"):
                store.order(CancelAll(), ALL, actor="ann", limit=limit)
        for cursor in NO_CURSORS:
            with pytest.raises(InvalidCursorError, match="cursor"):
                store.order(CancelAll(), ALL, actor="ann", cursor=cursor)
        with pytest.raises(InvalidOrderError, match="priority"):
            order(store, ReprioritizeAll(101))
        assert get(store).status is Status.PENDING
