"""Lone submits go on with the state that the last one has left, as long as nobody else writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete
from leasehold.core.model.queue_config import QueueConfig
from leasehold.env import Env, ManualClock
from leasehold.errors import DuplicateJobError, QueueFullError
from leasehold.stores.sqlite import SQLiteStore
from leasehold.stores.sqlite.writing.step import READ_STATE


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteStore]:
    opened = SQLiteStore(tmp_path / "jobs.db")
    yield opened
    opened.close()


@pytest.fixture
def other(store: SQLiteStore, tmp_path: Path) -> Iterator[SQLiteStore]:
    """Another one on the same file, as another process has it."""
    del store  # It is there first.
    opened = SQLiteStore(tmp_path / "jobs.db")
    yield opened
    opened.close()


def submit(store: SQLiteStore, *job_ids: str) -> None:
    for job_id in job_ids:
        store.submit([Draft(id=job_id, task="t")])


def numbers(store: SQLiteStore) -> list[Any]:
    with store._database.read() as db:
        return db.execute("SELECT id FROM job ORDER BY seq").fetchall()


def statements_of(store: SQLiteStore, job_id: str) -> list[str]:
    told: list[str] = []
    db = store._database.side.db
    db.trace_v2(apsw.SQLITE_TRACE_STMT, lambda event: told.append(event["sql"].strip()))
    submit(store, job_id)
    db.trace_v2(0, None)
    return told


def test_a_lone_submit_takes_six_statements(store: SQLiteStore) -> None:
    # The first makes the lane, the second learns its number, the third reads the state.
    submit(store, "a", "b", "c")
    told = statements_of(store, "d")
    assert [each.split()[0] for each in told] == [
        "BEGIN", "INSERT", "INSERT", "UPDATE", "UPDATE", "COMMIT",
    ]  # fmt: skip
    assert store.check() == []


def test_submits_of_two_processes_in_turn_share_no_number(
    store: SQLiteStore, other: SQLiteStore
) -> None:
    submit(store, "a", "b", "c")
    submit(other, "d", "e", "f")
    assert READ_STATE.strip() in statements_of(store, "g")
    submit(other, "h")
    assert numbers(store) == [(each,) for each in "abcdefgh"]
    assert store.check() == []


def test_a_rule_that_another_process_has_set_counts_at_once(
    store: SQLiteStore, other: SQLiteStore
) -> None:
    submit(store, "a", "b", "c")
    other.create_queue("default", QueueConfig(max_depth=4), actor="test")
    submit(store, "d")
    with pytest.raises(QueueFullError):
        submit(store, "e")


def test_its_own_other_writes_are_seen(store: SQLiteStore) -> None:
    submit(store, "a", "b", "x")
    store.submit([Draft(id="late", task="t", depends_on=("a",))])
    [lease] = store.exchange(request=LeaseRequest(worker="w", limit=1)).leases
    submit(store, "c")
    store.exchange([Settlement(lease.job_id, lease.version, Complete(None))])
    submit(store, "d", "e")
    leases = store.exchange(request=LeaseRequest(worker="w", limit=10)).leases
    assert sorted(each.job_id for each in leases) == ["b", "c", "d", "e", "late", "x"]
    assert store.check() == []


def test_a_submit_that_clashes_leaves_nothing_to_the_next(store: SQLiteStore) -> None:
    submit(store, "a", "b", "c")
    for n in range(2):
        with pytest.raises(DuplicateJobError):
            submit(store, "a")
        submit(store, f"d{n}", f"e{n}")
    assert store.stats().submitted == 7
    assert store.check() == []


def test_a_connection_that_was_opened_anew_asks_again(
    store: SQLiteStore, other: SQLiteStore
) -> None:
    """As it is after a fork: versions of two connections cannot be compared."""
    submit(store, "a", "b", "c")
    database = store._database
    remembered = database.writer._remembered
    assert database.close_for_fork(1.0) is None
    database.resume_after_fork()
    submit(other, "d", "e")
    database.open_to_write()
    # Were only versions compared, this would be the worst that can happen.
    cursor, _ = remembered._step_at
    remembered._step_at = (cursor, database.side.db.data_version())
    submit(store, "f")
    assert numbers(store) == [(each,) for each in "abcdef"]
    assert store.check() == []


def test_a_new_minute_is_noticed_between_lone_submits(tmp_path: Path) -> None:
    clock = ManualClock()
    store = SQLiteStore(tmp_path / "jobs.db", env=Env(clock=clock))
    submit(store, "a", "b", "c", "d")
    clock.advance(61)
    submit(store, "e")
    clock.advance(61)
    submit(store, "f")
    assert [point.submitted for point in store.series(minutes=4)][-3:] == [4, 1, 1]
    store.close()


def test_a_clock_that_jumps_is_noticed_between_lone_submits(tmp_path: Path) -> None:
    clock = ManualClock()
    store = SQLiteStore(tmp_path / "jobs.db", env=Env(clock=clock))
    submit(store, "a", "b", "c", "d")
    clock.step_wall_clock(3600)
    submit(store, "e")
    with store._database.read() as db:
        [[doubt]] = db.execute("SELECT doubt_since FROM store_state").fetchall()
    assert doubt is not None
    store.close()


def test_a_job_that_is_added_beside_other_changes_leaves_nothing_to_go_on_with(
    store: SQLiteStore,
) -> None:
    """A submit under a request id writes its reply, too: only the plain one is known for all."""
    remembered = store._database.writer._remembered
    submit(store, "a", "b", "c")
    assert remembered._step is not None
    store.submit_once("request", [Draft(id="d", task="t")])
    assert remembered._step is None
    submit(store, "e")
    assert numbers(store) == [(each,) for each in "abcde"]
