"""Garbage in any column of `store_state` or `lane`: `check` names it, a write replaces it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import apsw
import pytest

from leasehold.core.model.budget import MENDED_AT_ONCE
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete, Fail, JobError
from leasehold.core.model.queue_config import QueueConfig
from leasehold.core.model.retention import RetentionPolicy, Scope
from leasehold.core.model.status import Status
from leasehold.env import Env, ManualClock
from leasehold.errors import QueueFullError, StoreCorruptError
from leasehold.stores.sqlite import SQLiteStore
from leasehold.stores.sqlite.schema.cells import CELLS
from leasehold.stores.sqlite.writing.own_state import STATE_COLUMNS
from support.effort import THOROUGH
from support.metering import metered

LANE_COLUMNS: Final = tuple(name for name in CELLS["lane"] if name not in ("id", "queue", "task"))
GARBAGE: Final = {
    "text": "'garbage'",
    "empty": "''",
    "blob": "x'00ff17'",
    "bad text": "CAST(x'ff00fe' AS TEXT)",
    "huge": str(2**62),
    "negative": "-3",
    "real": "1.5",
}
TEXTS: Final = {"boot_id"}


class Damaged:
    """A store that others damage while it is open here."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.path = folder / "jobs.db"
        self.clock = ManualClock()
        self.store = self.open()
        self.granted: set[tuple[str, int]] = set()
        self.store.submit([Draft(id=f"before-{n}", task="t", priority=60) for n in range(4)])
        self.lease(Fail(JobError("E", "no")))

    def open(self) -> SQLiteStore:
        return SQLiteStore(self.path, env=Env(clock=self.clock), durability="normal")

    def damage(self, statement: str) -> None:
        """By a connection of SQLite's own, to the file that is open."""
        db = apsw.Connection(str(self.path))
        db.execute("PRAGMA ignore_check_constraints = ON").fetchall()
        db.execute(statement)
        assert db.changes() > 0
        db.close()

    def reopen(self) -> None:
        self.store.close()
        self.store = self.open()

    def lease(self, outcome: Any) -> str:
        (lease,) = self.store.exchange((), LeaseRequest(worker="w")).leases
        assert (lease.job_id, lease.version) not in self.granted, "no version is granted twice"
        self.granted.add((lease.job_id, lease.version))
        self.store.exchange([Settlement(lease.job_id, lease.version, outcome)])
        return lease.job_id

    def goes_on(self, job_id: str) -> None:
        """It takes jobs, gives every one of them out, and all its figures are right."""
        self.store.submit([Draft(id=job_id, task="t", priority=99)])
        self.store.recover()
        before = self.store.stats().counts
        assert before[Status.PENDING] == 4
        done = {self.lease(Complete()) for _ in range(2)}
        assert job_id in done
        assert self.store.stats().counts[Status.COMPLETED] == 2
        assert self.store.check() == []
        job = self.store.get(job_id)
        assert job is not None
        assert abs((job.created_at - self.clock.now()).total_seconds()) < 5


@pytest.fixture
def damaged(tmp_path: Path) -> Iterator[Damaged]:
    made = Damaged(tmp_path)
    yield made
    made.store.close()


def kinds_of(columns: Iterable[str], count: int) -> Iterator[tuple[str, str]]:
    """Each column with so many kinds of garbage, others from column to column; thoroughly, all."""
    for number, column in enumerate(columns):
        # A text may be any.
        kinds = ["blob", "bad text"] if column in TEXTS else [*GARBAGE]
        first = number * count % len(kinds)
        for garbage in (
            kinds if THOROUGH else [*kinds, *kinds][first : first + min(count, len(kinds))]
        ):
            yield column, garbage


def states() -> Iterator[tuple[str, str, bool]]:
    """In a store that is open, or is opened then, by turns; in a thorough run, both."""
    for number, (column, garbage) in enumerate(kinds_of(STATE_COLUMNS, 3)):
        for reopened in (False, True) if THOROUGH else (number % 2 == 1,):
            yield column, garbage, reopened


@pytest.mark.parametrize(("column", "garbage", "reopened"), [*states()])
def test_state(damaged: Damaged, column: str, garbage: str, reopened: bool) -> None:
    damaged.damage(f"UPDATE store_state SET {column} = {GARBAGE[garbage]}")
    (told,) = (line for line in damaged.store.check() if f"store_state.{column}" in line)
    assert "cannot be right" in told
    if reopened:
        damaged.reopen()
    else:
        with pytest.raises(StoreCorruptError, match=rf"store_state\.{column}"):
            damaged.store.now()
    damaged.goes_on("after")
    damaged.reopen()
    assert damaged.store.check() == []


@pytest.mark.parametrize(("column", "garbage"), [*kinds_of(LANE_COLUMNS, 2)])
def test_lanes(damaged: Damaged, column: str, garbage: str) -> None:
    damaged.damage(f"UPDATE lane SET {column} = {GARBAGE[garbage]}")
    assert any(f"lane.{column}" in line for line in damaged.store.check())
    damaged.store.recover()
    assert damaged.store.check() == []
    damaged.goes_on("after")


@pytest.mark.parametrize("garbage", GARBAGE)
def test_a_lease_meets_a_damaged_breaker(damaged: Damaged, garbage: str) -> None:
    """Text and blobs are above all numbers; a time without end would hold the lane for ever."""
    damaged.damage(f"UPDATE lane SET held_until = {GARBAGE[garbage]}")
    if garbage == "huge":
        damaged.store.recover()
    assert damaged.lease(Complete()).startswith("before-")


def test_a_row_that_is_gone_is_made_anew(damaged: Damaged) -> None:
    damaged.damage("DELETE FROM store_state")
    assert any("store_state" in line for line in damaged.store.check())
    damaged.goes_on("after")


def test_a_number_that_is_used_is_not_given_again(damaged: Damaged) -> None:
    damaged.damage("UPDATE store_state SET next_seq = 2")
    assert any("next_seq" in line for line in damaged.store.check())
    damaged.goes_on("after")


@pytest.mark.parametrize("column", ["queue", "task"])
@pytest.mark.parametrize("garbage", ["blob", "bad text"])
def test_a_name_that_is_lost_is_told(damaged: Damaged, column: str, garbage: str) -> None:
    damaged.damage(f"UPDATE lane SET {column} = {GARBAGE[garbage]}")
    assert any(f"lane.{column}" in line and "backup" in line for line in damaged.store.check())


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE ready SET lane = 77",
        "UPDATE ready SET lane = 'garbage'",
        "UPDATE ready SET lane = -5 WHERE seq = (SELECT min(seq) FROM ready)",
        "UPDATE ready SET seq = 7777 WHERE seq = (SELECT min(seq) FROM ready)",
        "UPDATE ready SET seq = 'garbage' WHERE seq = (SELECT min(seq) FROM ready)",
        "UPDATE ready SET tier = x'17'",
        "UPDATE ready SET turn = 'garbage'",
        "UPDATE waiting SET seq = 7777 WHERE status = 1",
        "UPDATE waiting SET due = x'17' WHERE status = 1",
        "UPDATE waiting SET due = NULL WHERE status <> 1",
        "UPDATE blocker SET needs = 7777",
        "UPDATE blocker SET needs = 'garbage'",
        "UPDATE blocker SET seq = 'garbage'",
        "UPDATE blocker SET seq = 7777",
        "DELETE FROM blocker",
    ],
)
def test_what_would_wait_for_ever_is_told(damaged: Damaged, statement: str) -> None:
    damaged.store.submit([Draft(id="waits", task="t", depends_on=("before-3",))])
    assert damaged.store.check() == []
    damaged.damage(statement)
    assert damaged.store.check() != []


def spoil(path: Path, statement: str) -> None:
    db = apsw.Connection(str(path))
    db.execute(statement)
    db.close()


@pytest.mark.parametrize("column", ["older_at", "older_ended", "newer_at", "newer_ended"])
@pytest.mark.parametrize("garbage", ["'x'", "''", "x'00ff'", "1e308", "NULL"])
def test_how_a_queue_drains_is_measured_anew(tmp_path: Path, column: str, garbage: str) -> None:
    store = SQLiteStore(tmp_path / "jobs.db")
    store.create_queue("q", QueueConfig(max_depth=1), actor="me")
    store.submit([Draft(id="a", task="t", queue="q")])
    spoil(tmp_path / "jobs.db", f"UPDATE queue SET {column} = {garbage}")
    with pytest.raises(QueueFullError):
        store.submit([Draft(id="b", task="t", queue="q")])
    [lease] = store.exchange((), LeaseRequest(worker="w", queues=("q",))).leases
    store.exchange([Settlement(lease.job_id, lease.version, Complete())])
    store.submit([Draft(id="c", task="t", queue="q")])
    store.close()


def test_a_bucket_that_cannot_be_read_is_full(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "jobs.db")
    store.create_queue("q", QueueConfig(rate_per_second=1), actor="me")
    store.submit([Draft(id="a", task="t", queue="q")])
    spoil(tmp_path / "jobs.db", "UPDATE bucket SET full_at = 'x'")
    store.submit([Draft(id="b", task="t", queue="q")])
    store.close()


@pytest.mark.parametrize("garbage", ["'x'", "x'00ff'", "''"])
def test_a_key_that_rests_until_nobody_knows_when_is_looked_at(
    tmp_path: Path, garbage: str
) -> None:
    clock = ManualClock()
    store = SQLiteStore(tmp_path / "jobs.db", env=Env(clock=clock))
    store.create_queue("q", QueueConfig(key_starts_per_second=0.1), actor="me")
    store.submit([Draft(id=name, task="t", queue="q", limit_key="k") for name in "ab"])
    request = LeaseRequest(worker="w", queues=("q",))
    assert len(store.exchange((), request).leases) == 1
    spoil(tmp_path / "jobs.db", f"UPDATE resting SET until = {garbage}")
    answer = store.exchange((), request)
    assert answer.leases == []
    assert answer.next_due_at == clock.now() + timedelta(seconds=10)
    clock.advance(10)
    assert len(store.exchange((), request).leases) == 1
    assert store.check() == []
    store.close()


@pytest.mark.parametrize("garbage", [*GARBAGE.values(), "'00ff'"])
def test_a_signing_key_that_cannot_be_read_is_told_and_never_used(
    damaged: Damaged, garbage: str
) -> None:
    key = damaged.store.signing_key()
    spoil(damaged.path, f"UPDATE meta SET value = {garbage} WHERE key = 'signing_key'")
    with pytest.raises(StoreCorruptError, match="delete that row"):
        damaged.store.signing_key()
    assert any("meta.value" in line for line in damaged.store.check())
    spoil(damaged.path, "DELETE FROM meta WHERE key = 'signing_key'")
    assert len(damaged.store.signing_key()) == len(key)
    assert damaged.store.signing_key() != key


@pytest.mark.parametrize("column", ["version_floor", "next_seq", "clock", "queue_generation"])
def test_no_repair_of_the_state_goes_through_all_jobs(tmp_path: Path, column: str) -> None:
    some, more = (steps_of_repair(tmp_path, column, times) for times in (1, 5))
    assert more < some + 1000


def steps_of_repair(folder: Path, column: str, times: int) -> int:
    """How much the write does that meets damage where so many were archived, and as many ended."""
    damaged = Damaged(folder / f"{times}")
    store = damaged.store
    for kept in (False, True):
        for first in range(0, times * MENDED_AT_ONCE, MENDED_AT_ONCE):
            names = range(first, first + MENDED_AT_ONCE)
            store.submit([Draft(id=f"{n}", task="t", queue="failing") for n in names])
        request = LeaseRequest(worker="w", queues=("failing",), limit=times * MENDED_AT_ONCE)
        leases = store.exchange(request=request).leases
        failed = Fail(JobError("E", "no"), retryable=False)
        store.exchange([Settlement(each.job_id, each.version, failed) for each in leases])
        damaged.clock.advance(3600)
        policy = RetentionPolicy(dead_seconds=None if kept else 1.0)
        report = store.prune(policy, scope=Scope(force=True), actor="me")
        while report.more:
            report = store.prune(policy, run=report.run, scope=Scope(force=True), actor="me")
    damaged.damage(f"UPDATE store_state SET {column} = 'garbage'")
    with metered(store) as meter:
        store.submit([Draft(id="new", task="t")])
    assert store.check() == []
    if column == "version_floor":
        (lease,) = store.exchange(request=LeaseRequest(worker="w")).leases
        assert lease.version > max(each.version for each in leases)
    store.close()
    return meter.largest
