"""Clauses about operations that undo others."""

from __future__ import annotations

import pytest

from leasehold.core.contract.store import Store
from leasehold.core.model.outcome import Complete
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Status
from leasehold.core.rules.filter_orders import (
    CancelAll,
    DiscardAll,
    PurgeAll,
    ReplayAll,
    ReprioritizeAll,
)
from leasehold.core.rules.operations import Operation, OperationDraft, OperationState
from leasehold.env import ManualClock
from leasehold.errors import InvalidTransitionError, OperationNotFoundError
from leasehold.testing.conformance.base import (
    ConformanceBase,
    assert_history_replays,
    draft,
    get,
    kill,
    lease_one,
    settle,
    submit,
)
from leasehold.testing.conformance.operating import begin, carry_out


def undo(store: Store, name: str = "op", limit: int = 500) -> Operation:
    """Take an operation back."""
    store.begin_operation(OperationDraft(id="undo", undoes=name), actor="bob")
    return carry_out(store, "undo", limit)


def statuses(store: Store, *names: str) -> list[Status]:
    return [get(store, name).status for name in names]


class UndoingClauses(ConformanceBase):
    """OPE-4 and OPE-7."""

    def test_ope_4_what_cannot_be_undone_is_refused(self, store: Store) -> None:
        kill(store, "dead")
        submit(store, draft("waits"))
        begin(store, DiscardAll(), name="discard")
        with pytest.raises(InvalidTransitionError, match="still running"):
            undo(store, "discard")
        carry_out(store, "discard")
        begin(store, PurgeAll(), name="purge")
        carry_out(store, "purge")
        for name in ("discard", "purge"):
            with pytest.raises(InvalidTransitionError, match="gone"):
                undo(store, name)
        with pytest.raises(OperationNotFoundError):
            undo(store, "nothing")
        begin(store, CancelAll())
        carry_out(store)
        with pytest.raises(InvalidTransitionError, match="changed no job"):
            undo(store)

    def test_ope_4_nothing_is_undone_twice(self, store: Store) -> None:
        submit(store, draft("a"))
        begin(store, CancelAll())
        carry_out(store)
        undone = undo(store)
        known = store.operation("op")
        assert known is not None
        assert (undone.state, undone.changed, known.undone_by) == (OperationState.DONE, 1, "undo")
        for name in ("op", "undo"):
            with pytest.raises(InvalidTransitionError):
                store.begin_operation(OperationDraft(id="more", undoes=name), actor="ann")

    def test_ope_7_replayed_jobs_are_dead_letters_again(
        self, store: Store, clock: ManualClock
    ) -> None:
        for name in ("a", "b", "c"):
            kill(store, name)
        submit(store, draft("stopped"))
        store.cancel(["stopped"], reason="enough", actor="ann")
        before = get(store, "a")
        begin(store, ReplayAll())
        carry_out(store, limit=2)
        assert get(store, "a").allowance == before.allowance + 1
        clock.advance(1)
        undone = undo(store)
        assert (undone.changed, undone.refused) == (4, {})
        assert statuses(store, "a", "b", "c", "stopped") == [Status.DEAD] * 3 + [Status.CANCELLED]
        job = get(store, "a")
        assert (job.attempts, job.allowance) == (before.attempts, before.allowance)
        assert job.reason == "its replay was undone by bob"
        for name in ("a", "stopped"):
            assert_history_replays(store, get(store, name))
        assert store.audit_page().records[0].action == "undo"
        assert store.check() == []

    def test_ope_7_but_not_those_that_were_leased(self, store: Store, clock: ManualClock) -> None:
        for name in ("a", "b", "c"):
            kill(store, name)
        begin(store, ReplayAll(reset_attempts=True))
        carry_out(store)
        clock.advance(1)
        settle(store, lease_one(store), Complete())
        held = lease_one(store)
        undone = undo(store)
        assert (undone.changed, undone.refused) == (1, {"invalid_transition": 2})
        assert statuses(store, "a", "b", "c") == [Status.COMPLETED, Status.RUNNING, Status.DEAD]
        settle(store, held, Complete())

    def test_ope_7_a_chain_goes_back_whole(self, store: Store) -> None:
        submit(
            store,
            draft("first"),
            draft("next", depends_on=("first",), on_dependency_failure="fail"),
        )
        store.cancel(["first"], reason="", actor="ann")
        store.recover()
        assert statuses(store, "first", "next") == [Status.CANCELLED, Status.DEAD]
        begin(store, ReplayAll())
        carry_out(store, limit=1)
        assert statuses(store, "first", "next") == [Status.PENDING, Status.BLOCKED]
        assert undo(store).changed == 2
        assert statuses(store, "first", "next") == [Status.CANCELLED, Status.DEAD]

    def test_ope_7_cancelled_jobs_wait_again(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft("runs"))
        held = lease_one(store)
        submit(store, draft("a"), draft("b", depends_on=("a",)), draft("later", delay_seconds=60))
        submit(store, draft("again"))
        begin(store, CancelAll("enough"))
        done = carry_out(store)
        assert done.changed == 5
        clock.advance(1)
        store.replay(["again"], reset_attempts=False, actor="eve")
        store.cancel(["again"], reason="really", actor="eve")
        undone = undo(store)
        assert (undone.changed, undone.refused) == (2, {"invalid_transition": 3})
        assert statuses(store, "a", "b") == [Status.PENDING, Status.BLOCKED]
        assert statuses(store, "later", "again") == [Status.CANCELLED] * 2
        assert get(store, "a").allowance == 4
        assert get(store, "runs").cancel_requested == "enough"
        settle(store, held, Complete())
        assert lease_one(store).job_id == "a"
        assert_history_replays(store, get(store, "a"))

    def test_ope_7_priorities_are_what_they_were(self, store: Store) -> None:
        submit(store, draft("a", priority=10), draft("b", priority=20), draft("c", priority=30))
        begin(store, ReprioritizeAll(90), JobFilter(priority_max=25))
        carry_out(store)
        assert [get(store, name).priority for name in "abc"] == [90, 90, 30]
        store.reprioritize("b", 95, actor="eve")
        undone = undo(store)
        assert (undone.changed, undone.refused) == (1, {"invalid_transition": 1})
        assert [get(store, name).priority for name in "abc"] == [10, 95, 30]

    def test_ope_7_what_was_stopped_can_be_undone(self, store: Store) -> None:
        submit(store, *(draft(f"j{n}") for n in range(4)))
        begin(store, CancelAll())
        store.advance_operation("op", limit=3)
        store.stop_operation("op", actor="ann")
        assert undo(store).changed == 3
        assert store.stats().counts[Status.PENDING] == 4
