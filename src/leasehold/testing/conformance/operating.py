"""Clauses about operations: plans, and how they are carried out."""

from __future__ import annotations

import pytest

from leasehold.core.contract.store import Store
from leasehold.core.model.outcome import Complete
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Status
from leasehold.core.rules.filter_orders import (
    CancelAll,
    DiscardAll,
    Order,
    OrderedJob,
    PurgeAll,
    ReplayAll,
    ReprioritizeAll,
)
from leasehold.core.rules.operations import (
    Advance,
    Operation,
    OperationDraft,
    OperationState,
)
from leasehold.env import ManualClock
from leasehold.errors import (
    InvalidJobError,
    InvalidOrderError,
    InvalidTransitionError,
    OperationNotFoundError,
)
from leasehold.testing.conformance.base import (
    FAILURE,
    ConformanceBase,
    at_once,
    draft,
    get,
    kill,
    lease_all,
    lease_one,
    settle,
    submit,
)

ALL = JobFilter()


def begin(store: Store, order: Order, where: JobFilter = ALL, name: str = "op") -> Operation:
    """Plan an operation and let it begin."""
    plan = store.plan_operation(order, where)
    return store.begin_operation(OperationDraft(id=name, plan=plan), actor="ann")


def carry_out(store: Store, name: str = "op", limit: int = 500) -> Operation:
    """Advance an operation until it has ended."""
    while True:
        operation = store.advance_operation(name, limit=limit).operation
        if operation.state is not OperationState.RUNNING:
            return operation


class OperatingClauses(ConformanceBase):
    """OPE, but for undos."""

    def test_ope_1_a_plan_counts_by_status(self, store: Store) -> None:
        kill(store, "dead")
        submit(store, draft("runs"))
        lease_one(store)
        submit(store, draft("a"), draft("b"), draft("later", delay_seconds=60))
        submit(store, draft("other", queue="other"))
        plan = store.plan_operation(CancelAll(), JobFilter(queues=("default",)))
        assert plan.counts == {Status.PENDING: 2, Status.SCHEDULED: 1, Status.RUNNING: 1}
        assert plan.skipped == {Status.DEAD: 1}
        assert (plan.planned, plan.at) == (4, store.now())
        assert get(store, "a").status is Status.PENDING
        assert store.operations() == []

    def test_ope_1_every_plan_is_one_operation(self, store: Store) -> None:
        submit(store, draft("a"))
        one, other = (store.plan_operation(CancelAll(), ALL) for _ in range(2))
        assert one.operation_id != other.operation_id
        begun = OperationDraft(id=one.operation_id, plan=one)
        assert store.begin_operation(begun, actor="ann").id == one.operation_id

    @pytest.mark.parametrize(
        "where", [JobFilter(text="find me"), JobFilter(tasks=("work",), priority_min=60)]
    )
    def test_ope_1_whatever_the_filter_asks_for(self, store: Store, where: JobFilter) -> None:
        found = draft("found", payload=b'["find me"]', priority=70)
        submit(store, found, draft("not"), draft("nor", task="rest"))
        plan = store.plan_operation(PurgeAll(), where)
        assert (plan.counts, plan.skipped) == ({Status.PENDING: 1}, {})

    def test_ope_1_a_status_that_cannot_take_it_is_skipped(self, store: Store) -> None:
        kill(store, "dead")
        submit(store, draft("waits"))
        plan = store.plan_operation(ReplayAll(), JobFilter(statuses=(Status.PENDING,)))
        assert (plan.counts, plan.skipped) == ({}, {Status.PENDING: 1})
        begin(store, ReplayAll(), JobFilter(statuses=(Status.PENDING,)))
        assert carry_out(store).changed == 0

    def test_ope_2_what_is_no_order_is_refused(self, store: Store) -> None:
        with pytest.raises(InvalidOrderError):
            store.plan_operation(ReprioritizeAll(101), ALL)
        plan = store.plan_operation(CancelAll(), ALL)
        for bad in (
            OperationDraft(id="", plan=plan),
            OperationDraft(id="both", plan=plan, undoes="op"),
            OperationDraft(id="neither"),
        ):
            with pytest.raises(InvalidOrderError):
                store.begin_operation(bad, actor="ann")
        assert store.operations() == []

    def test_ope_3_its_beginning_is_audited_and_may_be_repeated(self, store: Store) -> None:
        submit(store, draft("a"))
        first = begin(store, CancelAll("enough"))
        assert (first.state, first.actor, first.changed) == (OperationState.RUNNING, "ann", 0)
        assert get(store, "a").status is Status.PENDING
        assert begin(store, CancelAll("again")) == first
        (record,) = store.audit_page().records
        assert (record.actor, record.action, record.count) == ("ann", "begin_operation", 0)
        assert record.detail["operation"] == "op"
        assert record.detail["planned"] == 1

    def test_ope_5_every_job_is_met_once(self, store: Store) -> None:
        submit(store, *(draft(f"j{n}") for n in range(7)))
        begin(store, CancelAll("enough"))
        first = store.advance_operation("op", limit=3)
        assert (first.operation.changed, len(first.jobs)) == (3, 3)
        assert first.jobs[0] == OrderedJob("j6", Status.CANCELLED, 50)
        assert store.operation("op") == first.operation
        done = carry_out(store, limit=3)
        assert (done.state, done.changed, done.moved_on) == (OperationState.DONE, 7, 0)
        assert store.advance_operation("op") == Advance(operation=done)
        assert [record.count for record in store.audit_page().records] == [1, 3, 3, 0]
        assert all(record.detail["operation"] == "op" for record in store.audit_page().records)

    def test_ope_5_many_at_once_share_it(self, store: Store) -> None:
        submit(store, *(draft(f"j{n}") for n in range(20)))
        begin(store, PurgeAll())
        at_once(4, lambda _: carry_out(store, limit=2))
        operation = store.operation("op")
        assert operation is not None
        assert (operation.changed, operation.refused) == (20, {})
        assert store.search(ALL).jobs == []

    def test_ope_5_nobody_carries_out_what_there_is_not(self, store: Store) -> None:
        for name in ("nothing", "caf\udce9"):
            with pytest.raises((OperationNotFoundError, InvalidJobError)):
                store.advance_operation(name)
            with pytest.raises((OperationNotFoundError, InvalidJobError)):
                store.stop_operation(name, actor="ann")
        assert store.operation("nothing") is None

    def test_ope_6_what_came_since_is_not_meant(self, store: Store, clock: ManualClock) -> None:
        kill(store, "dead")
        submit(store, draft("dies"))
        held = lease_one(store)
        clock.advance(1)
        begin(store, DiscardAll())
        clock.advance(1)
        settle(store, held, Complete())
        submit(store, draft("new"))
        settle(store, lease_one(store), Complete())
        done = carry_out(store)
        assert (done.planned, done.changed, done.moved_on) == (1, 1, 0)
        assert [job.id for job in store.search(ALL).jobs] == ["new", "dies"]

    def test_ope_6_nor_what_came_into_the_status(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft("failed"), draft("fails"))
        first, second = lease_all(store)
        settle(store, first, FAILURE)
        clock.advance(1)
        begin(store, ReprioritizeAll(90), JobFilter(statuses=(Status.FAILED,)))
        clock.advance(1)
        settle(store, second, FAILURE)
        assert carry_out(store).changed == 1
        assert [get(store, name).priority for name in ("failed", "fails")] == [90, 50]

    def test_ope_6_running_jobs_are_those_that_ran_then(
        self, store: Store, clock: ManualClock
    ) -> None:
        submit(store, draft("ran"), draft("runs"))
        assert lease_one(store).job_id == "ran"
        clock.advance(1)
        begin(store, CancelAll("enough"), JobFilter(statuses=(Status.RUNNING,)))
        clock.advance(1)
        assert lease_one(store).job_id == "runs"
        done = carry_out(store)
        assert (done.planned, done.changed) == (1, 1)
        asked = [get(store, name).cancel_requested for name in ("ran", "runs")]
        assert asked == ["enough", None]

    def test_ope_6_nor_what_was_replayed(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft("waits"), draft("ended"))
        store.cancel(["ended"], reason="", actor="bob")
        clock.advance(1)
        begin(store, CancelAll())
        clock.advance(1)
        store.replay(["ended"], reset_attempts=False, actor="bob")
        done = carry_out(store)
        assert (done.planned, done.changed) == (1, 1)
        assert get(store, "ended").status is Status.PENDING

    def test_ope_6_nor_what_got_another_priority(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft("low", priority=5), draft("bystander", priority=50))
        clock.advance(1)
        begin(store, PurgeAll(), JobFilter(priority_max=10))
        clock.advance(1)
        store.reprioritize("bystander", 5, actor="bob")
        done = carry_out(store)
        assert (done.planned, done.changed) == (1, 1)
        assert [job.id for job in store.search(ALL).jobs] == ["bystander"]

    def test_ope_6_another_priority_is_no_other_status(
        self, store: Store, clock: ManualClock
    ) -> None:
        submit(
            store, draft("one"), draft("two", depends_on=("one",)), draft("late", delay_seconds=9)
        )
        clock.advance(1)
        begin(store, ReprioritizeAll(90))
        for name in ("one", "two", "late"):
            clock.advance(1)
            store.reprioritize(name, 60, actor="me")
        assert carry_out(store).changed == 3

    def test_ope_6_nor_what_was_unblocked(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft("needed"), draft("blocked", depends_on=("needed",)))
        clock.advance(1)
        begin(store, ReprioritizeAll(90), JobFilter(statuses=(Status.PENDING,)))
        clock.advance(1)
        settle(store, lease_one(store), Complete())
        assert carry_out(store).changed == 0
        assert get(store, "blocked").priority == 50

    def test_ope_6_cancels_what_was_leased_since(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft("a"), draft("b"))
        begin(store, CancelAll("enough"))
        clock.advance(1)
        held = lease_one(store)
        assert carry_out(store).changed == 2
        assert get(store, held.job_id).cancel_requested == "enough"

    def test_ope_6_what_moved_on_or_refuses_is_counted(self, store: Store) -> None:
        submit(store, draft("needed"), draft("waits", depends_on=("needed",)))
        settle(store, lease_one(store), Complete())
        submit(store, draft("needed2"), draft("waits2", depends_on=("needed2", "waits")))
        kill(store, "dead", priority=100)
        kill(store, "replayed", priority=100)
        begin(store, ReplayAll())
        store.replay(["replayed"], reset_attempts=False, actor="bob")
        done = carry_out(store)
        assert (done.planned, done.changed, done.moved_on) == (2, 1, 1)
        lease = lease_one(store, tasks=("work",))
        assert lease.job_id in ("dead", "replayed")
        settle(store, lease, Complete())
        settle(store, lease_one(store), Complete())
        settle(store, lease_one(store), Complete())
        begin(store, DiscardAll(), name="discard")
        report = carry_out(store, "discard")
        assert sum(report.refused.values()) + report.changed == report.planned

    def test_ope_8_a_stopped_one_goes_on_no_more(self, store: Store) -> None:
        submit(store, *(draft(f"j{n}") for n in range(5)))
        begin(store, PurgeAll())
        store.advance_operation("op", limit=2)
        stopped = store.stop_operation("op", actor="bob")
        assert (stopped.state, stopped.changed) == (OperationState.STOPPED, 2)
        assert store.advance_operation("op").operation == stopped
        assert store.stop_operation("op", actor="bob") == stopped
        assert len(store.search(ALL).jobs) == 3
        assert store.audit_page().records[0].action == "stop_operation"
        begin(store, PurgeAll(), name="rest")
        assert carry_out(store, "rest").changed == 3
        with pytest.raises(InvalidTransitionError, match="already done"):
            store.stop_operation("rest", actor="bob")

    def test_ope_8_a_purge_tells_who_depended(self, store: Store) -> None:
        submit(store, draft("first"), draft("next", queue="other", depends_on=("first",)))
        begin(store, PurgeAll(), JobFilter(queues=("default",)))
        assert carry_out(store).changed == 1
        store.recover()
        assert store.get("first") is None
        assert get(store, "next").status is Status.CANCELLED
        assert store.check() == []

    def test_ope_9_the_latest_are_told_first(self, store: Store) -> None:
        begin(store, CancelAll(), name="one")
        begin(store, DiscardAll(), name="two")
        assert [each.id for each in store.operations()] == ["two", "one"]
        assert store.operation("one") == store.operations()[1]

    def test_ope_10_who_resumes_one_is_recorded(self, store: Store) -> None:
        submit(store, draft("a"), draft("b"))
        begin(store, CancelAll())
        store.advance_operation("op", limit=1)
        resumes = OperationDraft(id="asked", resumes="op")
        resumed = store.begin_operation(resumes, actor="bob")
        assert (resumed.id, resumed.actor, resumed.resumed_by) == ("op", "ann", "bob")
        assert store.begin_operation(resumes, actor="bob") == store.operation("op") == resumed
        record = store.audit_page().records[0]
        assert (record.actor, record.action, record.count) == ("bob", "resume_operation", 1)
        assert record.detail["operation"] == "op"
        assert carry_out(store).resumed_by == "bob"
        with pytest.raises(InvalidTransitionError, match="nothing to resume"):
            store.begin_operation(resumes, actor="bob")
        with pytest.raises(OperationNotFoundError):
            store.begin_operation(OperationDraft(id="asked", resumes="unknown"), actor="bob")
        plan = store.plan_operation(CancelAll(), ALL)
        with pytest.raises(InvalidOrderError):
            store.begin_operation(OperationDraft(id="x", plan=plan, resumes="op"), actor="bob")
