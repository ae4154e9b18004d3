"""The clock of a SQLite store: several processes, what is written down, and setting it back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from leasehold.core.model.job import Draft
from leasehold.core.model.joblog import LogLine
from leasehold.core.model.lease import LeaseRequest, Renewal, Renewed, Settlement
from leasehold.core.model.outcome import Complete
from leasehold.core.model.retention import RetentionPolicy, Scope
from leasehold.core.model.search import JobFilter
from leasehold.env import Env, ManualClock, to_micros
from leasehold.stores.sqlite import SQLiteStore
from leasehold.stores.tables import clock_repair as repairing

HOUR = 3600
YEARS = 14 * 365 * 24 * HOUR
REQUEST = LeaseRequest(worker="w", limit=9, lease_seconds=300)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> Iterator[SQLiteStore]:
    store = SQLiteStore(tmp_path / "jobs.db", env=Env(clock=clock))
    yield store
    assert store.check() == []
    store.close()


def opened(store: SQLiteStore, clock: ManualClock) -> SQLiteStore:
    """What another process would open: it remembers nothing."""
    return SQLiteStore(store._database.files.database, env=Env(clock=clock))


def go_wrong(store: SQLiteStore, clock: ManualClock) -> None:
    clock.step_wall_clock(YEARS)
    store.promote()
    clock.advance(61)
    store.promote()
    assert store.now() == clock.now()


def test_who_comes_after_a_jump_finds_nothing_to_sweep(
    store: SQLiteStore, clock: ManualClock
) -> None:
    store.submit([Draft(id="a", task="t", max_retries=0)])
    [lease] = store.exchange((), REQUEST).leases
    clock.step_wall_clock(8 * HOUR)
    newcomer = opened(store, clock)
    assert newcomer.recover().expired_found == 0
    newcomer.close()
    clock.advance(61)
    newcomer = opened(store, clock)
    assert newcomer.recover().expired_found == 0
    assert newcomer.now() == clock.now()
    newcomer.close()
    [renewed] = store.renew("w", [Renewal("a", lease.version, 300)])
    assert isinstance(renewed, Renewed)


def test_who_comes_after_a_sleep_finds_nothing_to_sweep(
    store: SQLiteStore, clock: ManualClock
) -> None:
    store.submit([Draft(id="a", task="t", max_retries=0)])
    [lease] = store.exchange((), REQUEST).leases
    clock.suspend(8 * HOUR)
    newcomer = opened(store, clock)
    assert newcomer.recover().expired_found == 0
    newcomer.close()
    [renewed] = store.renew("w", [Renewal("a", lease.version, 300)])
    assert isinstance(renewed, Renewed)


def test_a_process_with_a_wrong_clock_of_its_own_moves_nobody(
    store: SQLiteStore, clock: ManualClock
) -> None:
    wrong = ManualClock(clock.now())
    wrong._boot_id = clock._boot_id
    other = SQLiteStore(store._database.files.database, env=Env(clock=wrong))
    wrong.step_wall_clock(YEARS)
    begun = store.now()
    for number in range(200):
        clock.advance(1)
        wrong.advance(1)
        other.submit([Draft(id=f"{number}", task="t")])
        store.promote()
    assert (store.now() - begun).total_seconds() == 200
    other.close()


def test_a_write_that_fails_moves_no_clock(store: SQLiteStore, clock: ManualClock) -> None:
    store.submit([Draft(id="a", task="t")])
    [lease] = store.exchange((), REQUEST).leases
    clock.suspend(8 * HOUR)
    with pytest.raises(Exception, match="'a'"):
        store.submit([Draft(id="a", task="t")])
    [renewed] = store.renew("w", [Renewal("a", lease.version, 300)])
    assert isinstance(renewed, Renewed)
    assert renewed.granted_seconds == 300


def test_a_jump_in_an_applications_transaction_that_is_rolled_back(
    store: SQLiteStore, clock: ManualClock
) -> None:
    store.submit([Draft(id="a", task="t")])
    [lease] = store.exchange((), REQUEST).leases
    clock.suspend(8 * HOUR)
    connection = store.connect()

    def give_up() -> None:
        with connection.transaction():
            store.submit_within(connection, [Draft(id="b", task="t")])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        give_up()
    connection.close()
    assert store.recover().expired_found == 0
    [renewed] = store.renew("w", [Renewal("a", lease.version, 300)])
    assert isinstance(renewed, Renewed)


def test_every_process_goes_by_the_clock_that_was_set_back(
    store: SQLiteStore, clock: ManualClock
) -> None:
    other = opened(store, clock)
    go_wrong(store, clock)
    other.submit([Draft(id="a", task="t")])
    assert other.now() == store.now()
    clock.step_wall_clock(-YEARS)
    store.repair_clock(actor="me")
    # It has shown the wrong time itself, and does not drag the store there again.
    assert other.now() == clock.now()
    other.submit([Draft(id="b", task="t")])
    assert store.now() == clock.now()
    other.close()


def test_nothing_is_left_in_the_future(store: SQLiteStore, clock: ManualClock) -> None:
    store.submit([Draft(id="old", task="t")])
    go_wrong(store, clock)
    store.submit([Draft(id=f"{number}", task="t") for number in range(4)])
    leases = store.exchange((), LeaseRequest(worker="w", limit=3, lease_seconds=300)).leases
    store.append_log(leases[0].job_id, leases[0].version, [LogLine(clock.now(), "a line")])
    store.exchange([Settlement(each.job_id, each.version, Complete()) for each in leases])
    clock.advance(120)
    policy = RetentionPolicy(completed_seconds=60)
    report = store.prune(policy, scope=Scope(force=True), actor="me")
    while report.more:
        report = store.prune(policy, run=report.run, scope=Scope(force=True), actor="me")
    clock.step_wall_clock(-YEARS)
    repair = store.repair_clock(actor="me")
    assert repair.changed.keys() >= {"job", "archive", "cleanup", "span"}
    now = to_micros(clock.now())
    with store._database.read() as db:
        late = [
            (table, column)
            for table, column in time_columns(db)
            if table != "store_state"
            and db.execute(f"SELECT 1 FROM {table} WHERE {column} > ?", (now,)).fetchone()
        ]
    assert late == []
    assert store.archived(leases[0].job_id) is not None
    assert len(store.search(JobFilter()).jobs) == 2


KNOWN_TIMES = {
    # Set by a person, or reckoned from what is: they stay.
    ("job", "deadline"),
    ("place", "crosses_at"),
    # Put off from a moment, and still as far off.
    ("waiting", "due"),
    ("dependent", "due"),
    ("job", "start_by"),
    ("lane", "held_until"),
    ("bucket", "full_at"),
    ("resting", "until"),
    ("idempotency", "expires_at"),
    ("pruned_key", "expires_at"),
    ("schedule", "next_at"),
    ("schedule", "due_at"),
    # In places, and in figures.
    ("ready", "turn"),
    ("place", "turn"),
    ("rescoring", "turn"),
    ("archive", "day"),
    ("span", "at"),
    # The clock itself; and nothing runs, nobody works while it is set back.
    ("store_state", "clock"),
    ("store_state", "basis_clock"),
    ("running", "acquired_at"),
    ("running", "expires_at"),
    ("running", "heartbeat_at"),
    ("running", "available_at"),
    ("worker", "started_at"),
    ("worker", "heartbeat_at"),
}


def time_columns(db: apsw.Connection) -> Iterator[tuple[str, str]]:
    tables = [
        str(row[0]) for row in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
    ]
    for table in sorted(tables):
        for row in db.execute(f"SELECT name FROM pragma_table_info('{table}')"):
            if re.search(r"(^|_)(at|clock|until|by|due|since|day|deadline|turn)$", str(row[0])):
                yield table, str(row[0])


NO_TIMES = {
    ("queue", "created_by"),
    ("queue", "changed_by"),
    ("dependent", "ended_by"),
    ("running", "moved_by"),
    ("store_state", "doubt_by"),
    ("store_state", "doubt_since"),
}


def test_whoever_adds_a_time_says_what_becomes_of_it(store: SQLiteStore) -> None:
    happened = {
        (table, column) for table, columns in repairing.HAPPENED.items() for column in columns
    }
    with store._database.read() as db:
        assert set(time_columns(db)) - happened - KNOWN_TIMES - NO_TIMES == set()
