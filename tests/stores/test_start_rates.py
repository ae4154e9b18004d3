"""Start rates under random verbs, on every store, beside a model that knows every start."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from math import ceil, floor
from random import Random
from typing import Any

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
from leasehold.core.model.job import Draft, Job
from leasehold.core.model.lease import Lease, LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete, Fail, JobError, Outcome, Release, Snooze
from leasehold.core.model.priority import service_order
from leasehold.core.model.queue_config import QueueConfig
from leasehold.core.model.retry import Constant
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Status
from leasehold.env import Env, ManualClock, to_micros
from support.effort import drawn
from support.machines import OnMemory, OnSQLite

SECOND = 1_000_000
RATES = (None, 0.1, 0.5, 3, 100)
Name = tuple[str, str | None]
"""A queue, or a queue and a key."""


class Meter:
    """All starts under one rate: how many more there may be now, and when the next."""

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self.burst = max(1, floor(rate / 20))
        self.nanos = ceil(1e9 / (rate + (1 - self.burst)))
        self.owed = 0
        """In nanoseconds, at `at`."""
        self.at = 0
        self.starts: list[int] = []

    def follow(self, other: Meter) -> None:
        """Take over from another rate what this one could have left."""
        self.at = other.at
        self.owed = other.owed

    def owed_at(self, now: int) -> int:
        owed = max(0, self.owed - (now - self.at) * 1000)
        return owed if owed <= self.burst * self.nanos else 0

    def left(self, now: int) -> int:
        return self.burst - ceil(self.owed_at(now) / self.nanos)

    def opens_at(self, now: int) -> int:
        ahead = self.owed_at(now) - (self.burst - 1) * self.nanos
        return now + max(0, ceil(ahead / 1000))

    def start(self, now: int) -> None:
        assert self.left(now) > 0
        self.owed, self.at = self.owed_at(now) + self.nanos, now
        self.starts.append(now)
        within = [at for at in self.starts if now - SECOND < at]
        assert len(within) <= ceil(self.rate), f"{len(within)} in a second, {self.rate} may"


class PacedMachine(RuleBasedStateMachine):
    """Queue `paced` has start rates and limits; `free` has none, whatever keys its jobs name."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.store = self.make_store(Env(clock=self.clock, random=Random(7)))
        self.config = QueueConfig(starts_per_second=3, key_starts_per_second=0.5)
        self.store.create_queue("paced", self.config, actor="me")
        self.meters: dict[Name, Meter] = {}
        self.held: list[Lease] = []
        self.numbers: dict[str, int] = {}
        self.paced = 0

    def make_store(self, env: Env) -> Store:
        raise NotImplementedError

    def teardown(self) -> None:
        self.store.close()

    # -- the model -----------------------------------------------------------------------------

    def meters_of(self, job: Job) -> list[Meter]:
        rates: list[tuple[Name, float | None]] = []
        if job.queue == "paced":
            rates.append((("paced", None), self.config.starts_per_second))
            if job.limit_key is not None:
                rates.append((("paced", job.limit_key), self.config.key_starts_per_second))
        found = []
        for name, rate in rates:
            if rate is None:
                continue
            before = self.meters.get(name)
            if before is None or before.rate != rate:
                self.meters[name] = Meter(rate)
                if before is not None:
                    self.meters[name].follow(before)
            found.append(self.meters[name])
        return found

    def expected(self, request: LeaseRequest, now: int) -> tuple[list[str], list[int]]:
        """What must be leased; and when those may start that only their pace lets wait."""
        running = Counter(job.limit_key for job in self.jobs(Status.RUNNING, "paced"))
        keyed, most = self.config.key_concurrency, self.config.max_concurrency
        taken: list[str] = []
        waiting: list[int] = []
        for job in self.in_order(request.queues):
            if len(taken) == request.limit:
                break
            if request.tasks is not None and job.task not in request.tasks:
                continue
            if job.queue == "paced":
                key = job.limit_key
                if keyed is not None and key is not None and running[key] >= keyed:
                    continue
                if most is not None and running.total() >= most:
                    continue
                meters = self.meters_of(job)
                if not all(meter.left(now) for meter in meters):
                    waiting.append(max(meter.opens_at(now) for meter in meters))
                    continue
                slots = request.free_slots
                if meters and slots is not None and len(taken) >= slots:
                    return taken, []
                for meter in meters:
                    meter.start(now)
                running[key] += 1
            taken.append(job.id)
        self.paced += bool(waiting)
        # A slot may have been taken since.
        full = most is not None and running.total() >= most
        return taken, [] if full or keyed is not None else waiting

    def jobs(self, status: Status, *queues: str) -> list[Job]:
        return self.store.search(JobFilter(queues=queues, statuses=(status,)), limit=1000).jobs

    def in_order(self, queues: tuple[str, ...]) -> list[Job]:
        now, scoring = self.store.now(), QueueConfig().scoring

        def order_of(job: Job) -> tuple[float, int, int]:
            return (*service_order(job, now, scoring), self.numbers[job.id])

        return sorted(self.jobs(Status.PENDING, *queues), key=order_of)

    # -- the verbs -----------------------------------------------------------------------------

    @rule(
        queue=st.sampled_from(["paced", "paced", "free"]),
        jobs=st.lists(
            st.tuples(
                st.sampled_from(["a", "a", "b", None]),
                st.sampled_from(["one", "two"]),
                st.sampled_from([20, 50, 50, 80]),
            ),
            min_size=2,
            max_size=12,
        ),
        delay=st.sampled_from([0, 0, 0, 4]),
    )
    def submit(self, queue: str, jobs: list[tuple[str | None, str, int]], delay: float) -> None:
        drafts = []
        for key, task, priority in jobs:
            name = f"job-{len(self.numbers)}"
            self.numbers[name] = len(self.numbers)
            drafts.append(
                Draft(
                    id=name, task=task, queue=queue, retry=Constant(2), max_retries=2,
                    delay_seconds=delay, limit_key=key, priority=priority,
                )
            )  # fmt: skip
        self.store.submit(drafts)

    @rule(
        limit=st.integers(1, 8),
        queues=st.sampled_from([("paced",), ("paced", "free")]),
        narrowed=st.none() | st.sampled_from([("one",), ("two",)]),
        slots=st.none() | st.integers(0, 4),
    )
    def lease(self, limit: int, queues: tuple[str, ...], narrowed: Any, slots: int | None) -> None:
        self.store.promote()
        request = LeaseRequest(
            worker="w", queues=queues, limit=limit, tasks=narrowed, free_slots=slots,
            lease_seconds=10,
        )  # fmt: skip
        expected, waiting = self.expected(request, to_micros(self.store.now()))
        answer = self.store.exchange(request=request)
        assert [lease.job_id for lease in answer.leases] == expected
        self.held += answer.leases
        if len(expected) < limit and waiting:
            assert answer.next_due_at is not None, "jobs wait, and nobody is told until when"
            assert to_micros(answer.next_due_at) <= min(waiting)

    @rule(outcome=st.sampled_from([Complete(), Fail(JobError("OSError", "x")), Release()]))
    def settle(self, outcome: Outcome) -> None:
        if self.held:
            lease = self.held.pop(0)
            self.store.exchange([Settlement(lease.job_id, lease.version, outcome)])

    @rule(which=st.integers(0, 50))
    def cancel(self, which: int) -> None:
        pending = self.jobs(Status.PENDING, "paced", "free")
        if pending:
            self.store.cancel([pending[which % len(pending)].id], reason="no", actor="me")

    @rule(which=st.integers(0, 50), priority=st.sampled_from([10, 50, 90]))
    def reprioritize(self, which: int, priority: int) -> None:
        pending = self.jobs(Status.PENDING, "paced", "free")
        if pending:
            self.store.reprioritize(pending[which % len(pending)].id, priority, actor="me")

    @rule(seconds=st.sampled_from([0.001, 0.0104167, 0.05, 0.333333, 0.333334, 2, 5, 11, 1800]))
    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.store.recover()

    @rule(
        rate=st.sampled_from(RATES),
        key_rate=st.sampled_from(RATES),
        keyed=st.sampled_from([None, None, 1, 3]),
        most=st.sampled_from([None, None, 4]),
    )
    def change(
        self, rate: float | None, key_rate: float | None, keyed: int | None, most: int | None
    ) -> None:
        changes = {
            "starts_per_second": rate,
            "key_starts_per_second": key_rate,
            "key_concurrency": keyed,
            "max_concurrency": most,
        }
        self.config = self.store.update_queue("paced", changes, actor="me").config

    @invariant()
    def the_accounts_are_true(self) -> None:
        assert self.store.check() == []


class MemoryPaced(OnMemory, PacedMachine):
    """In memory."""


class SQLitePaced(OnSQLite, PacedMachine):
    """On a file."""


def drive(machine: PacedMachine, seed: int) -> None:
    """A long day with many jobs of few keys: what random examples, which begin anew, never see."""
    random = Random(seed)
    try:
        for _ in range(200):
            draw = random.random()
            if draw < 0.15:
                jobs = [
                    (
                        random.choice(["a", "a", "b", None]),
                        random.choice(["one", "two"]),
                        random.choice([20, 50, 50, 80]),
                    )
                    for _ in range(random.randint(1, 12))
                ]
                queue = random.choice(["paced", "paced", "paced", "free"])
                machine.submit(queue, jobs, random.choice([0, 0, 0, 4]))
            elif draw < 0.55:
                narrowed = random.choice([None, None, None, ("one",), ("two",)])
                slots = random.choice([None, None, None, 0, 1, 3])
                queues = random.choice([("paced",), ("paced", "free")])
                machine.lease(random.randint(1, 8), queues, narrowed, slots)
            elif draw < 0.67:
                machine.settle(random.choice([Complete(), Complete(), Release(), Snooze(3)]))
            elif draw < 0.7:
                machine.cancel(random.randint(0, 50))
            elif draw < 0.74:
                machine.reprioritize(random.randint(0, 50), random.choice([10, 50, 90]))
            elif draw < 0.95:
                machine.pass_time(random.choice([0.001, 0.0104167, 0.05, 0.333334, 2, 5, 11]))
            else:
                machine.change(
                    random.choice(RATES),
                    random.choice(RATES),
                    random.choice([None, None, 1, 3]),
                    random.choice([None, None, 4]),
                )
            machine.the_accounts_are_true()
        assert machine.paced, "nobody ever had to wait"
    finally:
        machine.teardown()


@pytest.mark.parametrize("seed", range(drawn(6)))
def test_a_long_day_on_the_memory_store(seed: int) -> None:
    drive(MemoryPaced(), seed)


@pytest.mark.parametrize("seed", range(drawn(4)))
def test_a_long_day_on_the_sqlite_store(seed: int) -> None:
    drive(SQLitePaced(), seed)


def test_the_same_on_postgresql(lent_stores: Callable[[Env], Store]) -> None:
    class PostgresPaced(PacedMachine):
        def make_store(self, env: Env) -> Store:
            return lent_stores(env)

    few = settings(max_examples=drawn(12), stateful_step_count=40, deadline=None)
    run_state_machine_as_test(PostgresPaced, settings=few)


TestMemoryPaced = MemoryPaced.TestCase
TestMemoryPaced.settings = settings(max_examples=drawn(60), stateful_step_count=50, deadline=None)
TestSQLitePaced = SQLitePaced.TestCase
TestSQLitePaced.settings = settings(max_examples=drawn(25), stateful_step_count=40, deadline=None)
