"""Every verb of the store does bounded work in one write, however many jobs there are.

While one process writes, all others wait. So each verb is run on a store of 100 jobs and on one of
100,000, with breakers, keys, lateness, dependencies, limits and schedules in play, and the steps of
SQLite's machine are counted write by write. A verb that is not measured here fails the first test.

To make so many jobs takes long. Unless the run is a thorough one, there are a tenth as many, for a
library whose budgets are a tenth of what they are: a process of its own measures it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import apsw
import msgspec
import pytest

from leasehold.core.contract.local_store import LocalStore
from leasehold.core.model.breaker import Breaker
from leasehold.core.model.budget import (
    BURIED_AT_ONCE,
    DEPENDENTS_AT_ONCE,
    FORGOTTEN_AT_ONCE,
    INHERITED_AT_ONCE,
    PARKED_KEYS_AT_ONCE,
    PASSED_OVER_AT_ONCE,
    PLACED_AT_ONCE,
    PROMOTED_AT_ONCE,
    PURGE_AT_ONCE,
    RECOVERED_AT_ONCE,
    RESTED_AT_ONCE,
    SCHEDULED_JOBS_AT_ONCE,
    TURNED_AWAY_AT_ONCE,
    batched,
)
from leasehold.core.model.job import Draft, Job
from leasehold.core.model.joblog import LogLine
from leasehold.core.model.lease import Lease, LeaseRequest, Renewal, Settlement
from leasehold.core.model.outcome import Complete, Fail, JobError
from leasehold.core.model.queue_config import QueueConfig, QueueState
from leasehold.core.model.records import WorkerInfo
from leasehold.core.model.retention import BATCH_MAX, RetentionPolicy, Scope
from leasehold.core.model.schedule import ScheduleDraft
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Event, Status
from leasehold.core.model.timing import Every
from leasehold.core.model.tokens import TokenDraft
from leasehold.core.rules import ended_dependents, queue_orders
from leasehold.core.rules.filter_orders import (
    ORDERED_AT_ONCE,
    CancelAll,
    DiscardAll,
    Order,
    Ordered,
    ReplayAll,
)
from leasehold.core.rules.operations import Advance, Operation, OperationDraft
from leasehold.env import SYSTEM, Env, ManualClock
from leasehold.errors import InvalidTransitionError, LeaseholdError, QueueClosedError
from leasehold.stores.sqlite import SQLiteStore
from leasehold.stores.sqlite.rules import orders
from support import measured_bounds
from support.measured_bounds import PART
from support.metering import metered, steps_on
from support.once import once_per_run

SMALL, LARGE = 100, 100_000 // PART
STEPS_OF_A_WRITE: Final = 6_000
"""What any write may take: the clock, the counters, the minute's look at all lanes."""
STEPS_OF_A_ROW: Final = 800
"""What may be done for one job that is moved, with its history, its key and its place."""
STEPS_MORE: Final = 1_000
"""What a call about one job may do more in a large store: less than to look at all of a queue."""
IN_ONE_CALL: Final = 5_000
RATE_OF_KEYS: Final = {"key_starts_per_second": 1_000_000}


class Scene:
    """A store with a tenth of its jobs in each kind of trouble."""

    def __init__(self, path: Path, size: int) -> None:
        self.clock = ManualClock()
        self.store = SQLiteStore(path, env=Env(clock=self.clock), durability="normal")
        self.share = share = size // 10
        store = self.store
        for name in ("keyed", "late-keyed", "spread"):
            store.create_queue(name, QueueConfig(key_concurrency=1), actor="me")
        store.create_queue("limited", QueueConfig(max_concurrency=1), actor="me")
        store.create_queue("paced", QueueConfig(starts_per_second=0.0001), actor="me")
        for name in ("resting", "rested"):
            slow = 0.0001 if name == "resting" else 0.01
            store.create_queue(name, QueueConfig(key_starts_per_second=slow), actor="me")
        store.create_queue("rated", QueueConfig(client_rate_per_second=1.0), actor="me")
        for name in ("paused", "doomed"):
            store.create_queue(name, QueueConfig(), actor="me")
            store.set_queue_state(name, QueueState.PAUSED, actor="me")
        self.fill("finished", share, start_within_seconds=5)
        self.finish("finished")
        self.fill("late", share // 2, start_within_seconds=5)
        self.fill("late-keyed", share // 2, start_within_seconds=5, limit_key="one")
        self.fill("probed", share // 2)
        self.break_circuit("probed")
        self.fill("keyed", share // 2, limit_key="one")
        self.lease("keyed")
        self.submit([self.draft("spread", n, limit_key=f"key-{n}") for n in range(share)])
        self.fill("limited", share // 2)
        self.fill("paced", share // 2)
        self.fill("resting", share // 2, limit_key="one")
        keys = [f"key-{n}" for n in range(share // 2) for _ in range(2)]
        self.submit([self.draft("rested", n, limit_key=key) for n, key in enumerate(keys)])
        for name in ("paced", "resting", "rested"):
            begun = self.lease(name, limit=share)
            store.exchange([Settlement(each.job_id, each.version, Complete()) for each in begun])
        # Each key has a job of each group, the first of which is shown or runs.
        for name in ("grouped", "grouped-full"):
            store.create_queue(name, QueueConfig(key_concurrency=1), actor="me")
            for group in ("first", "second"):
                of_group = {"name": f"{name}-{group}", "parent_id": group}
                self.submit(
                    [self.draft(name, n, limit_key=f"{n}", **of_group) for n in range(share // 2)]
                )
        self.lease("grouped-full", limit=share // 2, lease_seconds=7200)
        self.fill("paused", share // 2)
        self.fill("delayed", share, delay_seconds=5)
        self.fill("doomed", share // 2)
        self.fill("doomed", share // 2, name="doomed-later", delay_seconds=10**6)
        self.submit([self.draft("rated", n, client=f"client-{n}") for n in range(share // 2)])
        self.fill("lost", share)
        self.lost = self.lease("lost", limit=share, lease_seconds=5)
        self.fill("root", 2)
        self.fill("dependent", share, depends_on=("root-0",))
        # A job that waits for very many, and a long chain of jobs; their priority will change.
        self.fill("needed", share)
        needed = tuple(f"needed-{n}" for n in range(share))
        self.submit([self.draft("wide", 0, depends_on=needed)])
        self.fill("chain", 1)
        self.submit(
            [self.draft("chain", n, depends_on=(f"chain-{n - 1}",)) for n in range(1, share)]
        )
        self.fill("aged", share // 2, deadline=self.clock.now() + timedelta(hours=1))
        every = Every(60)
        for n in range(max(1, share // 200)):
            job = Draft(id="tick", task="t", queue="ticks")
            draft = ScheduleDraft(name=f"s-{n}", timing=every, job=job, misfire="catch_up")
            store.set_schedule(draft, actor="me")
        self.fill("plain", 50)
        # Now they are late, due, expired, and may be probed.
        self.clock.advance(3600)

    def draft(self, queue: str, n: int, *, name: str | None = None, **options: Any) -> Draft:
        return Draft(id=f"{name or queue}-{n}", task="t", queue=queue, **options)

    def fill(self, queue: str, count: int, **options: Any) -> None:
        self.submit([self.draft(queue, n, **options) for n in range(count)])

    def submit(self, drafts: list[Draft]) -> None:
        for some in batched(drafts, IN_ONE_CALL):
            self.store.submit(list(some))

    def lease(self, queue: str, **options: Any) -> list[Lease]:
        return self.store.exchange(
            request=LeaseRequest(worker="w", queues=(queue,), **options)
        ).leases

    def finish(self, queue: str) -> None:
        while leases := self.lease(queue, limit=1000):
            self.store.exchange(
                [Settlement(each.job_id, each.version, Complete()) for each in leases]
            )

    def break_circuit(self, queue: str) -> None:
        [lease] = self.lease(queue)
        failure = Fail(JobError("E", "no"), breaker=Breaker(failures=1, pause_seconds=60))
        self.store.exchange([Settlement(lease.job_id, lease.version, failure)])

    def ids(self, queue: str, count: int) -> list[str]:
        where = JobFilter(queues=(queue,))
        return [job.id for job in self.store.search(where, limit=count).jobs]


class Measure(NamedTuple):
    """One way to call a verb, and how many rows one of its writes may deal with."""

    verb: str
    call: Callable[[Scene], object]
    rows: int = 1

    @property
    def bound(self) -> int:
        return STEPS_OF_A_WRITE + STEPS_OF_A_ROW * self.rows


def exchange(queue: str, **options: Any) -> Callable[[Scene], object]:
    return lambda scene: scene.lease(queue, **options)


def refused(call: Callable[[Scene], object]) -> Callable[[Scene], object]:
    def attempt(scene: Scene) -> object:
        with pytest.raises(LeaseholdError):
            call(scene)
        return None

    return attempt


def held(scene: Scene) -> Lease:
    """A lease of a new job."""
    scene.submit([Draft(id=f"held-{scene.clock.monotonic()}", task="t", queue="held")])
    [lease] = scene.lease("held")
    scene.clock.advance(1)
    return lease


def settle_failure(scene: Scene) -> None:
    lease = held(scene)
    scene.store.exchange([Settlement(lease.job_id, lease.version, Fail(JobError("E", "no")))])


def reprioritize(job: str, priority: int) -> Callable[[Scene], object]:
    def call(scene: Scene) -> object:
        job_id = f"chain-{scene.share - 1}" if job == "last of the chain" else job
        return scene.store.reprioritize(job_id, priority, actor="me")

    return call


def cancel_and_discard(scene: Scene) -> None:
    scene.store.cancel(["plain-12"], reason="so", actor="me")
    scene.store.discard(["plain-12"], actor="me")


def prune(scene: Scene) -> None:
    policy = RetentionPolicy(completed_seconds=1.0)
    scope = Scope(force=True)
    report = scene.store.prune(policy, scope=scope, actor="me")
    while report.more:
        report = scene.store.prune(policy, run=report.run, scope=scope, actor="me")


def purge(scene: Scene) -> None:
    scene.store.purge_queue("paused", JobFilter(), actor="me")


def open_transaction(scene: Scene) -> int:
    lease = held(scene)
    transaction = scene.store.open_transaction(lease.job_id, lease.version)
    settlement = Settlement(lease.job_id, lease.version, Complete())
    connection = cast("apsw.Connection", transaction.connection)
    return steps_on(connection, lambda: transaction.complete(settlement))


def submit_within(scene: Scene) -> int:
    connection = scene.store.connect()

    def work() -> None:
        with connection.transaction():
            scene.store.submit_within(connection, [Draft(id="within", task="t")])

    try:
        return steps_on(cast("apsw.Connection", connection), work)
    finally:
        connection.close()


def store_verb(name: str, *arguments: Any, **named: Any) -> Measure:
    return Measure(name, lambda scene: getattr(scene.store, name)(*arguments, **named))


def order(scene: Scene, wanted: Order) -> Ordered:
    return scene.store.order(wanted, JobFilter(queues=("plain",)), actor="me")


def submit_as(scene: Scene) -> object:
    token = scene.store.find_token("digest")
    assert token is not None
    return scene.store.submit_as(token, "digest", [Draft(id="held", task="t")])


def begin_operation(scene: Scene, name: str = "cancel") -> Operation:
    plan = scene.store.plan_operation(CancelAll(), JobFilter(queues=("plain",)))
    draft = OperationDraft(id=name, plan=plan)
    return scene.store.begin_operation(draft, actor="me")


def advance_operation(scene: Scene) -> Advance:
    return scene.store.advance_operation("cancel")


def stop_operation(scene: Scene) -> Operation:
    begin_operation(scene, "stopped")
    return scene.store.stop_operation("stopped", actor="me")


MEASURES: Final = (
    # Those that deal with many jobs come first: they leave nothing for the others to do.
    Measure("promote", lambda scene: scene.store.promote(), PROMOTED_AT_ONCE),
    Measure("exchange", exchange("plain"), PLACED_AT_ONCE + DEPENDENTS_AT_ONCE),
    Measure("exchange", exchange("probed", limit=5), SCHEDULED_JOBS_AT_ONCE),
    Measure("position", lambda scene: scene.store.position("plain-49"), PLACED_AT_ONCE),
    Measure("peek", lambda scene: scene.store.peek("plain", limit=5), 5),
    Measure("fire_schedules", lambda scene: scene.store.fire_schedules(), SCHEDULED_JOBS_AT_ONCE),
    Measure("exchange", exchange("plain", limit=5), 5),
    Measure("exchange", exchange("late", limit=5), PASSED_OVER_AT_ONCE),
    Measure("exchange", exchange("late-keyed", limit=5), PASSED_OVER_AT_ONCE),
    Measure("exchange", exchange("keyed", limit=5), 5),
    Measure("exchange", exchange("spread", limit=5), 5),
    *(
        Measure("exchange", exchange(name, limit=5, parent_id="second"), PARKED_KEYS_AT_ONCE)
        for name in ("grouped", "grouped-full")
    ),
    Measure("exchange", exchange("limited", limit=5), 5),
    Measure("exchange", exchange("paced", limit=5), 5),
    Measure("exchange", exchange("resting", limit=5), 5),
    # All its keys may start a job again.
    Measure("exchange", exchange("rested", limit=5), RESTED_AT_ONCE),
    Measure("exchange", exchange("paused", limit=5), 5),
    Measure("exchange", exchange("aged", limit=5), 5),
    Measure("exchange", settle_failure),
    Measure("recover", lambda scene: scene.store.recover(), RECOVERED_AT_ONCE),
    # The late jobs that the first left are cancelled, so many in each write.
    Measure("recover", lambda scene: scene.store.recover(), PASSED_OVER_AT_ONCE),
    Measure(
        "delete_queue",
        lambda scene: scene.store.delete_queue("doomed", force=True, actor="me"),
        BURIED_AT_ONCE,
    ),
    Measure("purge_queue", purge, PURGE_AT_ONCE),
    Measure("prune", prune, BATCH_MAX),
    # A limit per key is changed, taken away and set while a tenth of all jobs has keys.
    Measure(
        "update_queue",
        lambda scene: scene.store.update_queue("keyed", {"key_concurrency": 10**6}, actor="me"),
        PLACED_AT_ONCE,
    ),
    Measure(
        "update_queue",
        lambda scene: scene.store.update_queue("spread", {"key_concurrency": 2}, actor="me"),
        PLACED_AT_ONCE,
    ),
    Measure(
        "update_queue",
        lambda scene: scene.store.update_queue("spread", {"key_concurrency": None}, actor="me"),
        PLACED_AT_ONCE,
    ),
    Measure(
        "update_queue",
        lambda scene: scene.store.update_queue("spread", {"key_concurrency": 1}, actor="me"),
        PLACED_AT_ONCE,
    ),
    Measure(
        "update_queue",
        lambda scene: scene.store.update_queue("keyed", {"fifo_mode": True}, actor="me"),
        PLACED_AT_ONCE,
    ),
    Measure("exchange", exchange("keyed", limit=5), TURNED_AWAY_AT_ONCE),
    *(
        Measure("reprioritize", reprioritize(job, priority), INHERITED_AT_ONCE)
        for job in ("wide-0", "last of the chain")
        for priority in (99, 1)
    ),
    Measure(
        "update_queue",
        lambda scene: scene.store.update_queue("resting", RATE_OF_KEYS, actor="me"),
        PLACED_AT_ONCE,
    ),
    # The buckets of the keys that have rested are full, and forgotten by who keeps another.
    Measure("exchange", exchange("resting", limit=5), FORGOTTEN_AT_ONCE),
    Measure(
        "cancel",
        lambda scene: scene.store.cancel(["root-0"], reason="enough", actor="me"),
        DEPENDENTS_AT_ONCE,
    ),
    Measure(
        "submit",
        lambda scene: scene.submit([scene.draft("rated", 10**6, client="new")]),
        FORGOTTEN_AT_ONCE,
    ),
    # The others are about one job, one queue or one schedule.
    Measure("submit", lambda scene: scene.submit([scene.draft("plain", 10**6)])),
    Measure("submit", lambda scene: scene.submit([scene.draft("keyed", 10**6, limit_key="one")])),
    Measure("submit", lambda scene: scene.submit([scene.draft("x", 1, depends_on=("root-1",))])),
    Measure(
        "submit",
        refused(lambda scene: scene.submit([scene.draft("plain", 10**6)])),
    ),
    Measure("submit_within", submit_within),
    Measure("open_transaction", open_transaction),
    Measure(
        "renew",
        lambda scene: scene.store.renew("w", [Renewal(*_named(held(scene)), 60.0)]),
    ),
    Measure(
        "report_progress",
        lambda scene: scene.store.report_progress(*_named(held(scene)), b'{"done":1}'),
    ),
    Measure(
        "append_log",
        lambda scene: scene.store.append_log(
            *_named(held(scene)), [LogLine(SYSTEM.now(), "a line")]
        ),
    ),
    Measure(
        "tell",
        lambda scene: scene.store.tell(
            "plain-9", Event.ABANDONED, worker="w", version=0, message="so"
        ),
    ),
    Measure(
        "recover_one",
        lambda scene: scene.store.recover_one(
            *_named(held(scene)), reset_attempts=True, reason="so"
        ),
    ),
    Measure("cancel", lambda scene: scene.store.cancel(["plain-10"], reason="so", actor="me")),
    Measure(
        "replay",
        lambda scene: scene.store.replay(["plain-10"], reset_attempts=True, actor="me"),
    ),
    Measure("reprioritize", lambda scene: scene.store.reprioritize("plain-11", 99, actor="me")),
    Measure(
        "discard",
        cancel_and_discard,
    ),
    Measure(
        "register_worker",
        lambda scene: scene.store.register_worker(
            WorkerInfo(
                id="v",
                host="h",
                pid=1,
                queues=("a",),
                slots=1,
                started_at=scene.clock.now(),
                heartbeat_at=scene.clock.now(),
            )
        ).close(),
    ),
    store_verb(
        "set_schedule",
        ScheduleDraft(name="new", timing=Every(60), job=Draft(id="x", task="t")),
        actor="me",
    ),
    store_verb("pause_schedule", "new", paused=True, actor="me"),
    store_verb("run_schedule", "new", job_id="now", actor="me"),
    store_verb("remove_schedule", "new", actor="me"),
    store_verb("create_queue", "new", QueueConfig(max_depth=5), actor="me"),
    store_verb("set_queue_state", "plain", QueueState.PAUSED, actor="me"),
    store_verb("set_setting", "max_retries", 5, actor="me"),
    store_verb("unset_setting", "max_retries", actor="me"),
    store_verb("pin", "deploy", "v1", "first", actor="me"),
    store_verb("pins", "deploy"),
    store_verb("unpin", "deploy", "v1", actor="me"),
    store_verb("create_token", TokenDraft(name="ci", roles=("producer",)), "digest", actor="me"),
    store_verb("tokens"),
    store_verb("find_token", "digest"),
    Measure("submit_as", submit_as),
    store_verb("end_session", "ci", "session"),
    store_verb("is_session_over", "ci", "session"),
    store_verb("revoke_token", "ci", actor="me"),
    store_verb("signing_key"),
    Measure("subscribe", lambda scene: scene.store.subscribe(cast("Any", object()))()),
    Measure("order", lambda scene: order(scene, CancelAll()), ORDERED_AT_ONCE),
    Measure("order", lambda scene: order(scene, ReplayAll()), ORDERED_AT_ONCE),
    store_verb("plan_operation", CancelAll(), JobFilter(queues=("plain",), tasks=("t",))),
    Measure("begin_operation", begin_operation),
    Measure("advance_operation", advance_operation, ORDERED_AT_ONCE),
    Measure("stop_operation", stop_operation),
    store_verb("submit_once", "r-1", [Draft(id="once", task="t")]),
    store_verb("exchange_once", "r-2", (), LeaseRequest(worker="w", queues=("plain",), limit=10)),
    # Last of those that write: from here on every change is written down, too.
    store_verb("changes"),
    store_verb("changes", "0"),
    # These only read, and hold up nobody: their writes are none.
    store_verb("stuck", 60.0),
    store_verb("workers"),
    store_verb("operations"),
    store_verb("operation", "cancel"),
    store_verb("get", "plain-1"),
    store_verb("graph", ["root-1"]),
    store_verb("search", JobFilter(statuses=(Status.DEAD,))),
    store_verb("find_ids", "plain"),
    store_verb("attempts", "plain-0"),
    store_verb("history", "plain-0"),
    store_verb("log", "plain-0"),
    store_verb("history_page", "plain-0"),
    store_verb("log_page", "plain-0"),
    store_verb("audit_page"),
    store_verb("stats"),
    store_verb("queues"),
    store_verb("cleanups"),
    store_verb("archived", "finished-0"),
    store_verb("search_archive", JobFilter()),
    store_verb("count", JobFilter(limit_key="key")),
    store_verb("now"),
    store_verb("check"),
    store_verb("describe"),
    store_verb("schedules"),
    store_verb("get_schedule", "s-0"),
    store_verb("queue_info", "plain"),
    store_verb("list_queues"),
    store_verb("key_info", "keyed", "one"),
    store_verb("settings"),
    store_verb("metrics"),
    store_verb("metrics_by_queue"),
    store_verb("series"),
    store_verb("daily"),
    Measure("timeline", lambda scene: scene.store.timeline(["leased"], since=scene.store.now())),
    store_verb("failures"),
    store_verb("worker_totals"),
    store_verb("lifetimes"),
    store_verb("address"),
    Measure("connect", lambda scene: scene.store.connect().close()),
    Measure("owns", lambda scene: _with_connection(scene, scene.store.owns)),
    Measure("lend", lambda scene: _with_connection(scene, scene.store.lend)),
    Measure("backup", lambda scene: scene.store.backup(str(_beside(scene)), actor="me")),
    store_verb("close"),
)


def _named(lease: Lease) -> tuple[str, int]:
    return lease.job_id, lease.version


def _with_connection(scene: Scene, use: Callable[[Any], object]) -> None:
    connection = scene.store.connect()
    use(connection)
    connection.close()


def _beside(scene: Scene) -> Path:
    return Path(str(scene.store.describe()["path"])).with_name(f"copy-{scene.share}")


class Steps(msgspec.Struct):
    """Of the largest write of a measure, in a small store and in a large one; and its bound."""

    small: int
    large: int
    bound: int


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> list[Steps]:
    """Measured once for all processes of the suite, among which these tests may be shared out."""

    def measure(place: Path) -> None:
        program = [sys.executable, measured_bounds.__file__, str(place)]
        done = subprocess.run(program, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    known = once_per_run(tmp_path_factory, "largest-writes.json", measure)
    return msgspec.json.decode(known.read_bytes(), type=list[Steps])


def measured(folder: Path) -> list[Steps]:
    small, large = (_largest(Scene(folder / f"{size}.db", size)) for size in (SMALL, LARGE))
    return [Steps(small[n], large[n], each.bound) for n, each in enumerate(MEASURES)]


def _largest(scene: Scene) -> list[int]:
    """The steps of the largest write of each measure."""
    found: list[int] = []
    for measure in MEASURES:
        if measure.verb == "close":
            scene.store.close()
            found.append(0)
            continue
        with metered(scene.store) as meter:
            answer = measure.call(scene)
        beside = answer if measure.verb in ("submit_within", "open_transaction") else 0
        assert isinstance(beside, int)
        found.append(max(meter.largest, beside))
    return found


WITHOUT_BOUND = {"repair_clock"}
"""It is refused while anybody works, and sets all times back in one write or none."""


def test_every_verb_of_the_contract_is_measured() -> None:
    verbs = {name for name in dir(LocalStore) if not name.startswith("_")}
    assert verbs == {measure.verb for measure in MEASURES} | WITHOUT_BOUND


@pytest.mark.parametrize("number", range(len(MEASURES)), ids=lambda n: f"{n}-{MEASURES[n].verb}")
def test_one_write_does_bounded_work(steps: list[Steps], number: int) -> None:
    measure, taken = MEASURES[number], steps[number]
    assert taken.small <= taken.bound
    assert taken.large <= taken.bound, f"{taken} at {SMALL} and at {LARGE} jobs"
    if measure.rows == 1:
        assert taken.large <= taken.small + STEPS_MORE, f"{taken} at {SMALL} and at {LARGE} jobs"


def prune_the_dead(store: SQLiteStore, *, times: int) -> None:
    policy = RetentionPolicy(dead_seconds=0, cancelled_seconds=None, completed_seconds=None)
    for _ in range(times):
        report = store.prune(policy, scope=Scope(force=True), actor="me")
        while report.more:
            report = store.prune(policy, run=report.run, scope=Scope(force=True), actor="me")


@pytest.mark.parametrize("delete", ["discard", "order", "prune"])
def test_a_job_that_very_many_depended_on_is_deleted_in_bounded_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, delete: str
) -> None:
    at_once, parts = 100, 10
    monkeypatch.setattr(ended_dependents, "DEPENDENTS_LOOKED_AT_ONCE", at_once)
    store = SQLiteStore(tmp_path / "jobs.db", durability="normal")
    store.submit([Draft(id="root", task="t", queue="roots")])
    names = [f"after-{n}" for n in range(parts * at_once)]
    store.submit([Draft(id=each, task="t", depends_on=("root",)) for each in names])
    [lease] = store.exchange(request=LeaseRequest(worker="w", queues=("roots",))).leases
    fatal = Fail(JobError("E", "no"), retryable=False)
    store.exchange([Settlement("root", lease.version, fatal)])
    assert store.stats().counts[Status.CANCELLED] == len(names)
    verbs: dict[str, Callable[[], object]] = {
        "discard": lambda: store.discard(["root"], actor="me"),
        "order": lambda: store.order(DiscardAll(), JobFilter(queues=("roots",)), actor="me"),
        # Each clean-up goes on where the one before has left off.
        "prune": lambda: prune_the_dead(store, times=parts),
    }
    with metered(store) as meter:
        verbs[delete]()
    assert store.get("root") is None
    assert meter.largest <= STEPS_OF_A_WRITE
    assert store.check() == []
    store.close()


def test_a_dependent_that_is_replayed_counts_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ended_dependents, "DEPENDENTS_LOOKED_AT_ONCE", 2)
    store = SQLiteStore(tmp_path / "jobs.db", durability="normal")
    store.submit([Draft(id="root", task="t", queue="roots")])
    names = [f"after-{n}" for n in range(9)]
    ignoring = [
        Draft(id=each, task="t", depends_on=("root",), on_dependency_failure="ignore")
        for each in names
    ]
    store.submit(ignoring)
    store.cancel(["root", *names[:-1]], reason="so", actor="me")
    [refused] = store.discard(["root"], actor="me")
    assert isinstance(refused, InvalidTransitionError)
    # All but the last were looked at, and are not again.
    store.replay(names[:1], reset_attempts=False, actor="me")
    store.cancel(names[-1:], reason="so", actor="me")
    [refused] = store.discard(["root"], actor="me")
    assert isinstance(refused, InvalidTransitionError)
    store.cancel(names[:1], reason="so", actor="me")
    [discarded] = store.discard(["root"], actor="me")
    assert isinstance(discarded, Job)
    store.close()


def test_a_delete_that_is_cut_short_is_finished_by_the_next_sweep(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "jobs.db", durability="normal")
    count = 2 * BURIED_AT_ONCE + 7
    store.submit([Draft(id=f"{n}", task="t") for n in range(count)])
    # What a process leaves that dies after the first two writes of `delete_queue`.
    assert not store._database.write(
        lambda step: queue_orders.delete(orders.QueueBook(step), "default", "me", force=True)
    )
    with store._database.read() as db:
        found = orders.QueueReader(db, 0).waiting_in("default")
    some = found[:BURIED_AT_ONCE]
    store._database.write(
        lambda step: queue_orders.bury(orders.QueueBook(step), "default", some, 0)
    )
    info = store.queue_info("default")
    assert info is not None
    assert info.state is QueueState.DELETING
    assert info.counts[Status.DEAD] == BURIED_AT_ONCE
    with pytest.raises(QueueClosedError, match="being deleted"):
        store.submit([Draft(id="early", task="t")])
    with pytest.raises(QueueClosedError, match="being deleted"):
        store.set_queue_state("default", QueueState.ACTIVE, actor="me")
    assert store.exchange(request=LeaseRequest(worker="w")).leases == []
    store.recover()
    assert store.stats().counts[Status.DEAD] == count
    [job] = store.search(JobFilter(ids=("0",))).jobs
    assert job.reason == "its queue 'default' was deleted by me"
    store.submit([Draft(id="new", task="t")])
    assert len(store.exchange(request=LeaseRequest(worker="w")).leases) == 1
    assert store.check() == []
    store.close()
