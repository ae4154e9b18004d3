"""Counters of lanes that cannot be right are counted while everybody else goes on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete
from leasehold.core.model.status import Status
from leasehold.env import Env, ManualClock
from leasehold.stores.sqlite import SQLiteStore
from leasehold.stores.sqlite.writing import recounting
from support.metering import metered

STEPS_OF_A_WRITE = 6_000


class DiedError(Exception):
    """Stands for the end of a process."""


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> Iterator[SQLiteStore]:
    store = SQLiteStore(tmp_path / "jobs.db", env=Env(clock=clock), durability="normal")
    yield store
    store.close()


def submit(store: SQLiteStore, prefix: str, count: int) -> None:
    store.submit([Draft(id=f"{prefix}-{n}", task="t", priority=n % 100) for n in range(count)])


def damage(store: SQLiteStore, value: str = "'garbage'") -> None:
    db = apsw.Connection(str(store.describe()["path"]))
    db.execute(f"UPDATE lane SET pending = {value}, completed = {value}")
    db.close()


def work(store: SQLiteStore, prefix: str) -> None:
    """Jobs come and go, so that counters grow and shrink."""
    submit(store, prefix, 5)
    leases = store.exchange((), LeaseRequest(worker="w", limit=8)).leases
    done = [Settlement(each.job_id, each.version, Complete()) for each in leases[:6]]
    store.exchange(done)


def meanwhile(monkeypatch: pytest.MonkeyPatch, *actions: Callable[[], object]) -> None:
    """Something happens right before each of the two counts."""
    count, left = recounting.count, list(actions)

    def disturbed(db: apsw.Connection, lanes: Collection[int]) -> dict[int, Any]:
        action = left.pop(0) if left else None
        if action is not None:
            action()
        return count(db, lanes)

    monkeypatch.setattr(recounting, "count", disturbed)


@pytest.mark.parametrize("jobs", [100, 10_000])
def test_no_write_counts(store: SQLiteStore, jobs: int) -> None:
    submit(store, "job", jobs)
    damage(store)
    with metered(store) as meter:
        store.recover()
    assert meter.largest <= STEPS_OF_A_WRITE
    assert store.stats().counts[Status.PENDING] == jobs
    assert store.check() == []


def test_others_write_between_its_steps(
    store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(store, "job", 50)
    damage(store)
    meanwhile(
        monkeypatch, lambda: work(store, "before-the-first"), lambda: work(store, "before-the-last")
    )
    store.recover()
    assert store.stats().counts[Status.COMPLETED] == 12
    assert store.check() == []


def test_whoever_comes_later_goes_on_for_one_who_died(
    store: SQLiteStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(store, "job", 50)
    damage(store)

    def die() -> None:
        raise DiedError

    with monkeypatch.context() as patched:
        meanwhile(patched, lambda: work(store, "before"), die)
        with pytest.raises(DiedError):
            store.recover()
    work(store, "after")
    store.recover()
    assert any("are counted as" in line for line in store.check()), "it may still be at work"
    clock.advance(recounting.SILENT_MICROS / 1e6 + 1)
    store.recover()
    assert store.check() == []


def test_of_two_at_once_one_puts_it_right(
    store: SQLiteStore, tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(store, "job", 50)
    damage(store)
    other = SQLiteStore(tmp_path / "jobs.db", env=Env(clock=clock), durability="normal")

    def overtake() -> None:
        damage(store, "-7")
        other.recover()
        work(other, "overtaken")

    meanwhile(monkeypatch, lambda: None, overtake)
    store.recover()
    other.close()
    assert store.check() == []
