"""Limits under random verbs, on every store, beside a model that counts for itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import apsw
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from leasehold.core.contract.store import Store
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import Lease, LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete, Fail, JobError, Outcome, Release, Snooze
from leasehold.core.model.queue_config import QueueConfig, QueueState
from leasehold.core.model.records import Submitted
from leasehold.core.model.retry import Constant
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Status
from leasehold.core.rules.group_rounds import GroupRounds
from leasehold.env import Env, ManualClock
from leasehold.errors import LeaseholdError, QueueClosedError, QueueFullError
from leasehold.stores.sqlite import SQLiteStore
from leasehold.stores.sqlite.writing.step import Step
from support.effort import drawn
from support.machines import OnMemory, OnSQLite

outcomes: st.SearchStrategy[Outcome] = st.sampled_from(
    [Complete(), Fail(JobError("OSError", "x")), Release(), Snooze(3)]
)
limits = st.none() | st.integers(1, 4)


SETTABLE = [QueueState.ACTIVE, QueueState.PAUSED, QueueState.DRAINING]


class LimitsMachine(RuleBasedStateMachine):
    """Queue `a` has limits, queue `b` has none."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.store = self.make_store(Env(clock=self.clock, random=Random(7)))
        self.config = QueueConfig(max_depth=3, max_concurrency=2)
        self.state = QueueState.ACTIVE
        self.store.create_queue("a", self.config, actor="me")
        self.held: list[Lease] = []
        self.number = 0

    def make_store(self, env: Env) -> Store:
        raise NotImplementedError

    def teardown(self) -> None:
        self.store.close()

    def count(self, status: Status, queue: str = "a") -> int:
        """A recount from the jobs themselves."""
        where = JobFilter(queues=(queue,), statuses=(status,))
        return len(self.store.search(where, limit=1000).jobs)

    @rule(
        queue=st.sampled_from("ab"),
        jobs=st.integers(1, 4),
        partial=st.booleans(),
        delay=st.sampled_from([0, 0, 4]),
        task=st.sampled_from(["one", "two"]),
    )
    def submit(self, queue: str, jobs: int, partial: bool, delay: float, task: str) -> None:
        pending = self.count(Status.PENDING, queue)
        drafts = []
        for _ in range(jobs):
            self.number += 1
            drafts.append(
                Draft(
                    id=f"job-{self.number}", task=task, queue=queue, retry=Constant(2),
                    max_retries=1, delay_seconds=delay,
                )
            )  # fmt: skip
        rejected = self.store.stats(queue).rejected
        try:
            answers = self.store.submit(drafts, partial=partial)
        except LeaseholdError as error:
            answers = [error] * jobs
        fitting = jobs
        if queue == "a" and self.state is QueueState.DRAINING:
            fitting = 0
            assert all(isinstance(answer, QueueClosedError) for answer in answers)
        elif queue == "a" and self.config.max_depth is not None:
            room = self.config.max_depth - pending
            # A delayed job adds nothing to the depth.
            fitting = jobs if delay else min(jobs, max(0, room))
            if fitting < jobs:
                fitting = fitting if partial else 0
                more = self.store.stats(queue).rejected - rejected
                assert more == jobs - fitting
                assert isinstance(answers[-1], QueueFullError)
        assert sum(isinstance(answer, Submitted) for answer in answers) == fitting

    @rule(limit=st.integers(1, 5), queues=st.sampled_from([("a",), ("a", "b"), ("b", "a")]))
    def lease(self, limit: int, queues: tuple[str, ...]) -> None:
        self.store.promote()
        available = {queue: self.count(Status.PENDING, queue) for queue in queues}
        if self.state is QueueState.PAUSED:
            available["a"] = 0
        elif self.config.max_concurrency is not None:
            free = max(0, self.config.max_concurrency - self.count(Status.RUNNING))
            available["a"] = min(available["a"], free)
        request = LeaseRequest(worker="w", queues=queues, limit=limit, lease_seconds=10)
        leases = self.store.exchange(request=request).leases
        assert len(leases) == min(limit, sum(available.values()))
        assert sum(lease.queue == "a" for lease in leases) <= available["a"]
        self.held += leases

    @rule(outcome=outcomes, which=st.integers(0, 20))
    def settle(self, outcome: Outcome, which: int) -> None:
        if self.held:
            lease = self.held.pop(which % len(self.held))
            self.store.exchange([Settlement(lease.job_id, lease.version, outcome)])

    @rule(seconds=st.sampled_from([1, 5, 11]))
    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.store.recover()

    @rule(depth=limits, concurrency=limits)
    def change(self, depth: int | None, concurrency: int | None) -> None:
        changes = {"max_depth": depth, "max_concurrency": concurrency}
        self.config = self.store.update_queue("a", changes, actor="me").config

    @rule(state=st.sampled_from(SETTABLE))
    def set_state(self, state: QueueState) -> None:
        self.state = self.store.set_queue_state("a", state, actor="me").state

    @rule(task=st.sampled_from(["one", "two"]))
    def purge(self, task: str) -> None:
        self.store.purge_queue("a", JobFilter(tasks=(task,)), actor="me")

    @rule()
    def delete_by_force(self) -> None:
        self.store.delete_queue("a", force=True, actor="me")
        self.config, self.state = QueueConfig(max_concurrency=1), QueueState.ACTIVE
        self.store.create_queue("a", self.config, actor="me")

    @invariant()
    def the_figures_are_true(self) -> None:
        info = self.store.queue_info("a")
        assert info is not None
        assert (info.config, info.state) == (self.config, self.state)
        assert info.pending == self.count(Status.PENDING)
        assert info.running == self.count(Status.RUNNING)
        assert self.store.check() == []


class MemoryLimits(OnMemory, LimitsMachine):
    """In memory."""


class SQLiteLimits(OnSQLite, LimitsMachine):
    """On a file."""


def test_the_same_on_postgresql(lent_stores: Callable[[Env], Store]) -> None:
    class PostgresLimits(LimitsMachine):
        def make_store(self, env: Env) -> Store:
            return lent_stores(env)

    few = settings(max_examples=drawn(12), stateful_step_count=40, deadline=None)
    run_state_machine_as_test(PostgresLimits, settings=few)


TestMemoryLimits = MemoryLimits.TestCase
TestMemoryLimits.settings = settings(max_examples=drawn(60), stateful_step_count=40, deadline=None)
TestSQLiteLimits = SQLiteLimits.TestCase
TestSQLiteLimits.settings = settings(max_examples=drawn(30), stateful_step_count=40, deadline=None)


# -- SQLite: rules are remembered, and never for too long ---------------------------------------


def test_a_change_by_another_process_counts_at_once(tmp_path: Path) -> None:
    one, two = (SQLiteStore(tmp_path / "jobs.db") for _ in range(2))
    one.submit([Draft(id=f"job-{n}", task="t") for n in range(4)])
    assert len(two.exchange(request=LeaseRequest(worker="w")).leases) == 1
    one.update_queue("default", {"max_concurrency": 2}, actor="me")
    assert len(two.exchange(request=LeaseRequest(worker="w", limit=9)).leases) == 1
    one.set_queue_state("default", QueueState.DRAINING, actor="me")
    with pytest.raises(QueueClosedError):
        two.submit([Draft(id="late", task="t")])
    one.close()
    two.close()


def test_rules_that_were_rolled_back_are_forgotten(tmp_path: Path) -> None:
    """A generation that was not committed is used again, for other rules."""
    one, two = (SQLiteStore(tmp_path / "jobs.db") for _ in range(2))
    one.submit([Draft(id=f"job-{n}", task="t") for n in range(3)])

    def breaks(step: Step) -> None:
        step.execute("INSERT INTO queue (name, state, config) VALUES ('default', 'paused', '{}')")
        step.rules_changed()
        assert step.rules
        # Operations that share the write must not go by rules that came to nothing.
        step.undo()
        assert not step.rules
        step.execute("INSERT INTO queue (name, state, config) VALUES ('default', 'paused', '{}')")
        step.rules_changed()
        raise apsw.SQLError("no")

    with pytest.raises(LeaseholdError):
        one._database.writer.run(breaks)
    two.update_queue("default", {"max_concurrency": 1}, actor="me")
    assert len(one.exchange(request=LeaseRequest(worker="w", limit=9)).leases) == 1
    one.close()
    two.close()


def test_buckets_that_are_full_again_are_forgotten(tmp_path: Path) -> None:
    clock = ManualClock()
    store = SQLiteStore(tmp_path / "jobs.db", env=Env(clock=clock))
    store.create_queue("default", QueueConfig(client_rate_per_second=1), actor="me")
    for n in range(20):
        store.submit([Draft(id=f"job-{n}", task="t", client=f"client-{n}")])
        clock.advance(1)
    with store._database.read() as db:
        ((kept,),) = db.execute("SELECT count(*) FROM bucket").fetchall()
    assert kept == 1
    store.close()


def test_a_full_lane_is_not_scanned_past(tmp_path: Path) -> None:
    """Once the last slot of a queue is taken, no more of its jobs are read."""
    store = SQLiteStore(tmp_path / "jobs.db")
    store.create_queue("limited", QueueConfig(max_concurrency=1), actor="me")
    store.submit([Draft(id=f"l-{n}", task="t", queue="limited", priority=90) for n in range(500)])
    store.submit([Draft(id=f"f-{n}", task="t", priority=10) for n in range(3)])
    read = 0

    def count(_: object, row: tuple[object, ...]) -> tuple[object, ...]:
        nonlocal read
        read += 1
        return row

    def leased(step: Step) -> list[str]:
        from leasehold.stores.sqlite.leasing import lease as leasing

        step.db.row_trace = count
        try:
            request = LeaseRequest(worker="w", queues=("limited", "default"), limit=10)
            granted = leasing.lease(step, request, GroupRounds()).granted
            return [lease.job_id for _, lease in granted]
        finally:
            step.db.row_trace = None

    assert store._database.writer.run(leased) == ["l-0", "f-0", "f-1", "f-2"]
    assert read < 30
    store.close()
