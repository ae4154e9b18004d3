"""Limits per key under random verbs, on every store, beside a model that sorts all jobs itself."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from leasehold.core.job import Draft, Job
from leasehold.core.lease import Lease, LeaseRequest, Settlement
from leasehold.core.outcome import Complete, Fail, JobError, Outcome, Release, Snooze
from leasehold.core.priority import service_order
from leasehold.core.queue_config import QueueConfig
from leasehold.core.retry import Constant
from leasehold.core.search import JobFilter
from leasehold.core.status import Status
from leasehold.core.store import Store
from leasehold.env import Env, ManualClock
from leasehold.stores.memory import MemoryStore
from leasehold.stores.sqlite import SQLiteStore, key_slots, order, parking, rebalance
from leasehold.stores.sqlite import lease as leasing
from leasehold.stores.sqlite.step import Step

outcomes: st.SearchStrategy[Outcome] = st.sampled_from(
    [Complete(), Complete(), Fail(JobError("OSError", "x")), Release(), Snooze(3)]
)
keys = st.sampled_from(["a", "a", "b", None])
groups = st.sampled_from([None, None, "g", "h"])
tasks = st.sampled_from(["one", "two"])
QUEUES = ("limited", "free")


class KeysMachine(RuleBasedStateMachine):
    """Queue `limited` has limits per key; `free` has none, whatever keys its jobs name."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.store = self.make_store(Env(clock=self.clock, random=Random(7)))
        self.config = QueueConfig(key_concurrency=2)
        self.store.create_queue("limited", self.config, actor="me")
        self.held: list[Lease] = []
        self.numbers: dict[str, int] = {}

    def make_store(self, env: Env) -> Store:
        raise NotImplementedError

    def teardown(self) -> None:
        self.store.close()

    # -- the model -----------------------------------------------------------------------------

    def jobs(self, status: Status, queues: tuple[str, ...] = QUEUES) -> list[Job]:
        where = JobFilter(queues=queues, statuses=(status,))
        return self.store.search(where, limit=1000).jobs

    def in_order(self, jobs: Iterable[Job]) -> list[Job]:
        now = self.store.now()

        def order_of(job: Job) -> tuple[float, int, int]:
            scoring = self.config.scoring if job.queue == "limited" else QueueConfig().scoring
            return (*service_order(job, now, scoring), self.numbers[job.id])

        return sorted(jobs, key=order_of)

    def expected(self, request: LeaseRequest) -> list[str]:
        """Take job after job, the best first, while its key and its queue let it run."""
        running = Counter(
            (job.queue, job.limit_key) for job in self.jobs(Status.RUNNING, request.queues)
        )
        of_queue = sum(n for (queue, _), n in running.items() if queue == "limited")
        taken: list[str] = []
        for job in self.in_order(self.jobs(Status.PENDING, request.queues)):
            if len(taken) == request.limit:
                break
            if request.tasks is not None and job.task not in request.tasks:
                continue
            if request.parent_id is not None and job.parent_id != request.parent_id:
                continue
            if job.queue == "limited":
                limit, most = self.config.key_concurrency, self.config.max_concurrency
                key = (job.queue, job.limit_key)
                if limit is not None and job.limit_key is not None and running[key] >= limit:
                    continue
                if most is not None and of_queue >= most:
                    continue
                running[key] += 1
                of_queue += 1
            taken.append(job.id)
        return taken

    # -- the verbs -----------------------------------------------------------------------------

    @rule(
        queue=st.sampled_from(["limited", "limited", "free"]),
        jobs=st.lists(st.tuples(keys, groups, tasks, st.sampled_from([20, 50, 50, 80])), max_size=5),
        delay=st.sampled_from([0, 0, 0, 4]),
        deadline=st.none() | st.sampled_from([600, 7200]),
    )  # fmt: skip
    def submit(
        self,
        queue: str,
        jobs: list[tuple[str | None, str | None, str, int]],
        delay: float,
        deadline: float | None,
    ) -> None:
        drafts = []
        for key, group, task, priority in jobs:
            name = f"job-{len(self.numbers)}"
            self.numbers[name] = len(self.numbers)
            drafts.append(
                Draft(
                    id=name, task=task, queue=queue, retry=Constant(2), max_retries=2,
                    delay_seconds=delay, limit_key=key, parent_id=group, priority=priority,
                    deadline=deadline and self.store.now() + timedelta(seconds=deadline),
                )
            )  # fmt: skip
        self.store.submit(drafts)

    @rule(
        limit=st.integers(1, 6),
        queues=st.sampled_from([("limited",), QUEUES]),
        narrowed=st.none() | st.sampled_from([("one",), ("two",), ("two", "one")]),
        group=st.sampled_from([None, None, "g", "h"]),
    )
    def lease(
        self, limit: int, queues: tuple[str, ...], narrowed: tuple[str, ...] | None, group: Any
    ) -> None:
        self.store.promote()
        request = LeaseRequest(
            worker="w", queues=queues, limit=limit, tasks=narrowed, parent_id=group,
            lease_seconds=10,
        )  # fmt: skip
        expected = self.expected(request)
        leases = self.store.exchange(request=request).leases
        assert [lease.job_id for lease in leases] == expected
        self.held += leases

    @rule(outcome=outcomes, which=st.lists(st.integers(0, 20), min_size=1, max_size=3))
    def settle(self, outcome: Outcome, which: list[int]) -> None:
        ends = []
        for each in which:
            if self.held:
                lease = self.held.pop(each % len(self.held))
                ends.append(Settlement(lease.job_id, lease.version, outcome))
        self.store.exchange(ends)

    @rule(which=st.integers(0, 50))
    def cancel(self, which: int) -> None:
        pending = self.jobs(Status.PENDING)
        if pending:
            self.store.cancel([pending[which % len(pending)].id], reason="no", actor="me")

    @rule(which=st.integers(0, 50), priority=st.sampled_from([10, 50, 90]))
    def reprioritize(self, which: int, priority: int) -> None:
        pending = self.jobs(Status.PENDING)
        if pending:
            self.store.reprioritize(pending[which % len(pending)].id, priority, actor="me")

    @rule(seconds=st.sampled_from([1, 5, 11, 1800, 100_000]))
    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.store.recover()

    @rule(
        limit=st.none() | st.integers(1, 4),
        most=st.none() | st.integers(1, 4),
        fifo=st.booleans(),
    )
    def change(self, limit: int | None, most: int | None, fifo: bool) -> None:
        changes = {"key_concurrency": limit, "max_concurrency": most, "fifo_mode": fifo}
        self.config = self.store.update_queue("limited", changes, actor="me").config

    @rule()
    def delete_by_force(self) -> None:
        self.store.delete_queue("limited", force=True, actor="me")
        self.config = QueueConfig(key_concurrency=1)
        self.store.create_queue("limited", self.config, actor="me")

    @invariant()
    def the_accounts_are_true(self) -> None:
        assert self.store.check() == []


class MemoryKeys(KeysMachine):
    def make_store(self, env: Env) -> Store:
        return MemoryStore(env)


class SQLiteKeys(KeysMachine):
    def make_store(self, env: Env) -> Store:
        self.folder = tempfile.TemporaryDirectory()
        return SQLiteStore(Path(self.folder.name) / "jobs.db", env=env, durability="normal")

    def teardown(self) -> None:
        super().teardown()
        self.folder.cleanup()


TestMemoryKeys = MemoryKeys.TestCase
TestMemoryKeys.settings = settings(max_examples=80, stateful_step_count=50, deadline=None)
TestSQLiteKeys = SQLiteKeys.TestCase
TestSQLiteKeys.settings = settings(max_examples=40, stateful_step_count=50, deadline=None)
