"""Limits per key under random verbs, on every store, beside a model that sorts all jobs itself."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

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
from leasehold.core.rules import leasing as walking
from leasehold.core.rules import rebalancing
from leasehold.core.rules.group_rounds import GroupRounds
from leasehold.env import Env, ManualClock
from leasehold.stores.sqlite import SQLiteStore
from leasehold.stores.sqlite.leasing import lease as leasing
from leasehold.stores.sqlite.leasing import order
from leasehold.stores.sqlite.writing.step import Step
from leasehold.stores.tables import parking as shelf
from support.effort import THOROUGH, drawn
from support.machines import OnMemory, OnSQLite

if TYPE_CHECKING:
    from support.indexed_store import IndexedStore

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
        jobs=st.lists(
            st.tuples(keys, groups, tasks, st.sampled_from([20, 50, 50, 80])),
            min_size=2, max_size=8,
        ),
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
        until = None if deadline is None else self.store.now() + timedelta(seconds=deadline)
        for key, group, task, priority in jobs:
            name = f"job-{len(self.numbers)}"
            self.numbers[name] = len(self.numbers)
            drafts.append(
                Draft(
                    id=name, task=task, queue=queue, retry=Constant(2), max_retries=2,
                    delay_seconds=delay, limit_key=key, parent_id=group, priority=priority,
                    deadline=until,
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
        fifo=st.sampled_from([False, False, True]),
    )
    def change(self, limit: int | None, most: int | None, fifo: bool) -> None:
        changes = {"key_concurrency": limit, "max_concurrency": most, "fifo_mode": fifo}
        self.config = self.store.update_queue("limited", changes, actor="me").config

    @rule(chance=st.integers(0, 9))
    def delete_by_force(self, chance: int) -> None:
        if chance:
            return  # Most runs are to go on for long.
        self.store.delete_queue("limited", force=True, actor="me")
        self.config = QueueConfig(key_concurrency=1)
        self.store.create_queue("limited", self.config, actor="me")

    @invariant()
    def the_accounts_are_true(self) -> None:
        assert self.store.check() == []


class MemoryKeys(OnMemory, KeysMachine):
    """In memory."""


class SQLiteKeys(OnSQLite, KeysMachine):
    """On a file."""


def drive(machine: KeysMachine, seed: int) -> None:
    """A long day with many jobs of few keys: what random examples, which begin anew, never see."""
    random = Random(seed)
    fell_short = 0
    try:
        for _ in range(150):
            draw = random.random()
            if draw < 0.2:
                jobs = [
                    (
                        random.choice(["a", "a", "a", "b", None]),
                        random.choice([None, None, "g", "h"]),
                        random.choice(["one", "two"]),
                        random.choice([20, 50, 50, 80]),
                    )
                    for _ in range(random.randint(1, 8))
                ]
                queue = random.choice(["limited", "limited", "limited", "free"])
                delay = random.choice([0, 0, 0, 4])
                machine.submit(queue, jobs, delay, random.choice([None, None, 600, 7200]))
            elif draw < 0.55:
                narrowed = random.choice([None, None, ("one",), ("two",)])
                group = random.choice([None, None, "g"])
                before = len(machine.held)
                machine.lease(random.randint(1, 5), ("limited",), narrowed, group)
                fell_short += len(machine.held) == before
            elif draw < 0.8:
                ends = [random.randint(0, 20) for _ in range(random.randint(1, 3))]
                machine.settle(random.choice([Complete(), Complete(), Release(), Snooze(3)]), ends)
            elif draw < 0.85:
                machine.cancel(random.randint(0, 50))
            elif draw < 0.92:
                machine.reprioritize(random.randint(0, 50), random.choice([10, 50, 90]))
            elif draw < 0.97:
                machine.pass_time(random.choice([1, 5, 11, 1800, 100_000]))
            else:
                machine.change(random.choice([None, 1, 2, 3]), random.choice([None, 3]), False)
            machine.the_accounts_are_true()
        assert fell_short, "no key was ever full"
    finally:
        machine.teardown()


@pytest.mark.parametrize("seed", range(drawn(6)))
def test_a_long_day_on_the_memory_store(seed: int) -> None:
    drive(MemoryKeys(), seed)


@pytest.mark.parametrize("seed", range(drawn(6)))
def test_a_long_day_on_the_sqlite_store(seed: int) -> None:
    drive(SQLiteKeys(), seed)


def test_the_same_on_postgresql(lent_stores: Callable[[Env], Store]) -> None:
    class PostgresKeys(KeysMachine):
        def make_store(self, env: Env) -> Store:
            return lent_stores(env)

    few = settings(max_examples=drawn(12), stateful_step_count=50, deadline=None)
    run_state_machine_as_test(PostgresKeys, settings=few)


def test_the_same_on_postgresql_through_redis(
    indexed_stores: Callable[[Env], IndexedStore],
) -> None:
    class IndexedKeys(KeysMachine):
        store: IndexedStore

        def make_store(self, env: Env) -> Store:
            return indexed_stores(env)

        @rule()
        def fill(self) -> None:
            self.store.fill()

    few = settings(max_examples=drawn(12), stateful_step_count=50, deadline=None)
    run_state_machine_as_test(IndexedKeys, settings=few)


TestMemoryKeys = MemoryKeys.TestCase
TestMemoryKeys.settings = settings(max_examples=drawn(80), stateful_step_count=50, deadline=None)
TestSQLiteKeys = SQLiteKeys.TestCase
TestSQLiteKeys.settings = settings(max_examples=drawn(40), stateful_step_count=50, deadline=None)


# -- SQLite: by seeks alone, in bounded writes, for nothing where no key is limited ---------------


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[SQLiteStore]:
    store = SQLiteStore(tmp_path / "jobs.db", env=Env(clock=ManualClock()), durability="normal")
    yield store
    store.close()


def of_key(key: str | None, count: int, **options: Any) -> list[Draft]:
    name = options.pop("name", key)
    return [Draft(id=f"{name}-{n}", task="t", limit_key=key, **options) for n in range(count)]


def steps_of_a_lease(store: SQLiteStore, **narrowed: Any) -> tuple[list[str], int]:
    """What is leased, and how many steps SQLite's machine makes for it."""
    steps = 0

    def count() -> bool:
        nonlocal steps
        steps += 1
        return False

    def leased(step: Step) -> list[str]:
        step.db.set_progress_handler(count, 1)
        try:
            request = LeaseRequest(worker="w", limit=3, **narrowed)
            granted = leasing.lease(step, request, GroupRounds()).granted
            return [lease.job_id for _, lease in granted]
        finally:
            step.db.set_progress_handler(None)

    return store._database.writer.run(leased), steps


VERY_MANY = 100_000 if THOROUGH else 10_000


def test_leasing_behind_very_many_parked_jobs_reads_none_of_them(tmp_path: Path) -> None:
    steps: dict[int, list[int]] = defaultdict(list)
    for parked in (100, VERY_MANY):
        store = SQLiteStore(tmp_path / f"{parked}.db", durability="normal")
        store.create_queue("default", QueueConfig(key_concurrency=1), actor="me")
        for start in range(0, parked, 10_000):
            count = min(10_000, parked)
            store.submit(of_key("full", count, name=f"full-{start}", priority=90, parent_id="g"))
        assert len(store.exchange(request=LeaseRequest(worker="w", limit=9)).leases) == 1
        narrowings: list[dict[str, Any]] = [{}, {"tasks": ("t",)}, {"parent_id": "g"}]
        for turn, narrowed in enumerate(narrowings):
            small, free = f"small-{turn}", f"free-{turn}"
            store.submit(
                of_key(small, 2, parent_id="g") + of_key(None, 2, name=free, parent_id="g")
            )
            leased, count = steps_of_a_lease(store, **narrowed)
            steps[parked].append(count)
            assert leased == [f"{small}-0", f"{free}-0", f"{free}-1"]
        store.close()
    for many, few in zip(steps[VERY_MANY], steps[100], strict=True):
        assert many < 1.2 * few


def test_nobody_meets_a_job_of_a_full_key_twice(sqlite: SQLiteStore) -> None:
    """What is shown in other lanes when a key fills up is parked by the lease that meets it."""
    sqlite.create_queue("default", QueueConfig(key_concurrency=50), actor="me")
    for task in ("one", "two", "three"):
        drafts = [Draft(id=f"{task}-{n}", task=task, limit_key="a") for n in range(50)]
        sqlite.submit(drafts)
    assert len(sqlite.exchange(request=LeaseRequest(worker="w", limit=200)).leases) == 50
    sqlite.submit(of_key(None, 6, name="free"))
    steps_of_a_lease(sqlite)
    assert steps_of_a_lease(sqlite)[1] < 2000
    with sqlite._database.read() as db:
        shown = db.execute("SELECT count(*) FROM ready WHERE lane > 0").fetchall()
    assert shown == [(0,)]
    assert sqlite.check() == []


PLANS: dict[str, tuple[str, tuple[object, ...]]] = {
    "the last that is shown": (shelf.NTH_SHOWN, (1, 2, 3)),
    "the first that is parked": (shelf.FIRST_PARKED, (-1, 2)),
    "what runs of a key": (shelf.RUNNING_OF_KEY, ("q", "k")),
    "who is counted": (order.COUNTED, ("[1]",)),
    "the key of a job": (order.KEY_OF_UNCOUNTED, (1,)),
    "changing lanes": (shelf.CHANGE_LANE, (-1, 1, 2, 3, 4)),
    "closing an account": (shelf.CLOSE_ACCOUNT, (1,)),
    "what is parked of a group": (order.PARKED_IN_GROUP, ("g", -9)),
}


@pytest.mark.parametrize("what", PLANS)
def test_limits_per_key_seek_and_never_scan_or_sort(sqlite: SQLiteStore, what: str) -> None:
    statement, values = PLANS[what]
    with sqlite._database.read() as db:
        rows = db.execute(f"EXPLAIN QUERY PLAN {statement}", values).fetchall()
    text = "\n".join(str(row[3]) for row in rows)
    assert "SEARCH" in text
    assert "TEMP B-TREE" not in text, text
    for table in ("ready", "job", "place", "key_lane"):
        assert f"SCAN {table}" not in text, text


def test_a_store_without_limits_per_key_pays_no_statement(sqlite: SQLiteStore) -> None:
    sqlite.create_queue("other", QueueConfig(max_concurrency=5), actor="me")
    said: list[str] = []

    def note(_: object, statement: str, __: object) -> bool:
        said.append(statement)
        return True

    def watch(step: Step) -> None:
        step.db.exec_trace = note

    sqlite._database.writer.run(watch)
    sqlite.submit(of_key("a", 5))
    leases = sqlite.exchange(request=LeaseRequest(worker="w", limit=9)).leases
    sqlite.exchange([Settlement(each.job_id, each.version, Complete()) for each in leases])
    assert len(leases) == 5
    assert said
    assert not [statement for statement in said if "key_lane" in statement]


def test_accounts_of_keys_that_are_gone_are_not_kept(sqlite: SQLiteStore) -> None:
    sqlite.create_queue("default", QueueConfig(key_concurrency=1), actor="me")
    for n in range(30):
        sqlite.submit([Draft(id=f"job-{n}", task="t", limit_key=f"tenant-{n}")])
    sqlite.cancel(["job-7"], reason="no", actor="me")
    leases = sqlite.exchange(request=LeaseRequest(worker="w", limit=99)).leases
    sqlite.exchange([Settlement(each.job_id, each.version, Complete()) for each in leases])
    with sqlite._database.read() as db:
        assert db.execute("SELECT * FROM key_lane").fetchall() == []


def test_a_limit_is_exact_while_the_pending_jobs_are_dealt_with(
    sqlite: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever set the limit was killed before the pass: leases and sweeps go on with it."""
    monkeypatch.setattr(rebalancing, "PLACED_AT_ONCE", 7)
    monkeypatch.setattr(walking, "TURNED_AWAY_AT_ONCE", 5)
    monkeypatch.setattr(sqlite._database, "rebalance_the_rest", lambda: None)
    sqlite.submit(of_key("a", 60, priority=80) + of_key("b", 3))
    held = sqlite.exchange(request=LeaseRequest(worker="w", limit=3)).leases
    for limit, running in ((2, 3), (4, 4), (1, 4)):
        sqlite.update_queue("default", {"key_concurrency": limit}, actor="me")
        for _ in range(3):
            found = sqlite.exchange(request=LeaseRequest(worker="w", limit=9)).leases
            held += [lease for lease in found if lease.job_id.startswith("a")]
            assert sqlite.check() == []
        assert len(held) == sqlite.key_info("default", "a").running == running
    for _ in range(30):
        sqlite.recover()
    assert sqlite.key_info("default", "b").running == 3
    sqlite.update_queue("default", {"key_concurrency": None}, actor="me")
    served = [lease.job_id for lease in held]
    for _ in range(30):
        found = sqlite.exchange(request=LeaseRequest(worker="w", limit=9)).leases
        served += [lease.job_id for lease in found]
        assert sqlite.check() == []
    assert served == [f"a-{n}" for n in range(60)]
