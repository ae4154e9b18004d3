"""A workload that takes the SQLite store through every kind of write, one call at a time.

Every call depends on nothing but the store and the clock, so two runs do exactly the same, and the
whole content of the store after each call (`content`) can be foretold.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final

import apsw

from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest, Renewal, Settlement
from leasehold.core.model.lives import NO_LIFE
from leasehold.core.model.outcome import Cancel, Complete, Fail, JobError, Outcome, Release, Snooze
from leasehold.core.model.retry import Constant
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Event, Status
from leasehold.env import Env, ManualClock
from leasehold.stores.sqlite import SQLiteStore
from leasehold.stores.sqlite.disk.files import Durability
from leasehold.stores.sqlite.disk.life import LockedLife
from leasehold.testing.conformance.base import assert_history_replays, said
from support.lives import die, enter

Call = Callable[[SQLiteStore], object]
Content = dict[str, list[tuple[Any, ...]]]

TABLES = (
    "lane", "job", "ready", "waiting", "running", "finished", "attempt", "event", "idempotency",
    "progress", "log", "worker", "audit", "store_state", "place", "raised", "rescoring",
)  # fmt: skip


def new_env(turned_seconds: float = 0, boot_id: str = "the first start") -> Env:
    """The same time and the same chance in every run, on a machine that was started once."""
    clock = ManualClock()
    clock._boot_id = boot_id
    clock.advance(turned_seconds)
    return Env(clock=clock, random=Random(5))


def open_store(path: Path, durability: Durability = "full", env: Env | None = None) -> SQLiteStore:
    return SQLiteStore(path, durability=durability, env=env or new_env())


LIFE_AT: Final = {"worker": 9, "running": 13}
"""The places of the columns named `life`."""


def content(store: SQLiteStore) -> Content:
    """Every row of every table that the calls write."""
    with store._database.read() as db:
        return rows(db)


def rows(db: apsw.Connection) -> Content:
    return {table: db.execute(f"SELECT * FROM {table}").fetchall() for table in TABLES}


def without_floor(found: Content) -> Content:
    """The same without the version floor, which opening the store may raise, and without the
    numbers of lives, which are drawn anew for a registration that is tried again.
    """
    lives = {
        table: [(*row[:at], row[at] != NO_LIFE, *row[at + 1 :]) for row in found[table]]
        for table, at in LIFE_AT.items()
    }
    state = [(*row[:2], *row[3:]) for row in found["store_state"]]
    return {**found, **lives, "store_state": state}


def held(store: SQLiteStore) -> set[tuple[str, int]]:
    """(job, version) of every lease that runs now."""
    jobs = store.search(JobFilter(statuses=(Status.RUNNING,)), limit=1000).jobs
    return {(job.id, job.lease_version) for job in jobs}


def assert_sound(store: SQLiteStore) -> None:
    """The store's own check, and that each job's history tells its state (HIS-1, HIS-2)."""
    assert store.check() == []
    for job in store.search(JobFilter(), limit=1000).jobs:
        assert_history_replays(store, job)
        assert job.attempts <= job.allowance


def submit(*ids: str, task: str = "work", **options: Any) -> Call:
    drafts = [
        Draft(id=job_id, task=task, max_retries=1, retry=Constant(5), **options) for job_id in ids
    ]
    return lambda store: store.submit(drafts)


def lease(limit: int, **options: Any) -> Call:
    return lambda store: store.exchange(
        request=LeaseRequest(worker="w", limit=limit, lease_seconds=60, **options)
    )


def _version(store: SQLiteStore, job_id: str) -> int:
    job = store.get(job_id)
    return 0 if job is None else job.lease_version


def settle(request: LeaseRequest | None = None, **outcomes: Outcome) -> Call:
    def call(store: SQLiteStore) -> object:
        settlements = [
            Settlement(job_id, _version(store, job_id), outcome)
            for job_id, outcome in outcomes.items()
        ]
        return store.exchange(settlements, request)

    return call


def _stale(store: SQLiteStore) -> object:
    return store.exchange([Settlement("a", _version(store, "a") - 1, Complete(b'"too late"'))])


def _renew(store: SQLiteStore) -> object:
    return store.renew("w", [Renewal(id_, version, 60) for id_, version in sorted(held(store))])


_lives: list[LockedLife] = []


def _enter(store: SQLiteStore) -> None:
    _lives.append(enter(store, "w"))


def end_lives() -> None:
    """Let the workers that the workload registered be gone; call it when a run is over."""
    while _lives:
        die(_lives.pop())


def _tell(store: SQLiteStore) -> None:
    store.tell("a", Event.HEARTBEAT_FAILED, worker="w", version=1, message="missed one")


def _recover_at(seconds: float) -> Call:
    """A sweep so many seconds after the start; the same however often it is repeated."""

    def call(store: SQLiteStore) -> object:
        clock = store._database.env.clock
        assert isinstance(clock, ManualClock)
        clock.advance(max(0, seconds - clock.monotonic()))
        return store.recover()

    return call


FAILURE = Fail(JobError("OSError", "no luck", "Traceback ..."))
FATAL = Fail(JobError("ValueError", "never"), retryable=False)
_NEXT = LeaseRequest(worker="w", limit=2, lease_seconds=60)

CALLS: tuple[Call, ...] = (
    submit("a", "b", "c", "d", "e", "f"),
    _enter,
    submit("k1", task="keyed", idempotency_key="key", metadata={"n": 1}, parent_id="group"),
    submit("k1", task="keyed", idempotency_key="key"),
    submit("later", queue="default", delay_seconds=30),
    lease(4),
    lambda store: store.append_log("a", _version(store, "a"), said("one", "two")),
    lambda store: store.report_progress("a", _version(store, "a"), b'{"done": 1}'),
    _tell,
    _renew,
    settle(a=Complete(b'"' + b"x" * 9000 + b'"'), b=FAILURE, c=Snooze(3), d=Release()),
    settle(_NEXT),
    lambda store: store.cancel(["d", "f"], reason="enough", actor="me"),
    settle(_NEXT, d=FAILURE, e=Cancel("sold out")),
    lambda store: store.replay(["d", "e"], reset_attempts=False, actor="me"),
    lambda store: store.reprioritize("d", 90, actor="me"),
    _stale,
    _recover_at(10),
    lease(3),
    _recover_at(110),
    lease(9),
    settle(b=FATAL, d=Complete(b"1", b'{"note": true}')),
    lambda store: store.discard(["a", "f"], actor="me"),
    submit("a", "f", queue="other", payload=b'"' + b"y" * 20_000 + b'"'),
    lease(9, queues=("other", "default"), tasks=("work",)),
    lambda store: store.recover_one("a", _version(store, "a"), reset_attempts=True, reason="stuck"),
    _recover_at(210),
    lease(9, queues=("default", "other")),
    settle(a=Complete(), f=FAILURE, later=Complete(b"2"), k1=Complete(b"3")),
)  # fmt: skip
