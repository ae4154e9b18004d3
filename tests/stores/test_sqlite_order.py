"""How the SQLite store keeps its order: by seeks alone, in bounded writes, for nothing if plain."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest

from leasehold.core.model.budget import PLACED_AT_ONCE
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete
from leasehold.core.model.priority import default_tier
from leasehold.core.model.queue_config import QueueConfig
from leasehold.core.rules.queue_orders import update
from leasehold.env import Env, ManualClock, to_micros
from leasehold.stores.sqlite import SQLiteStore
from leasehold.stores.sqlite.leasing import order
from leasehold.stores.sqlite.rules.orders import QueueBook
from leasehold.stores.sqlite.writing.step import READ_STATE
from leasehold.stores.tables import order as table_order
from leasehold.stores.tables import rebalance
from leasehold.stores.tables.order import SPREAD
from leasehold.stores.tables.parking import NEXT_TIER

ALL = LeaseRequest(worker="w", limit=100_000)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> Iterator[SQLiteStore]:
    env = Env(clock=clock, random=Random(7))
    store = SQLiteStore(tmp_path / "jobs.db", env=env, durability="normal")
    yield store
    store.close()


def plan(store: SQLiteStore, statement: str, values: tuple[object, ...]) -> str:
    with store._database.read() as db:
        rows = db.execute(f"EXPLAIN QUERY PLAN {statement}", values)
        return "\n".join(str(row[3]) for row in rows)


def rows(store: SQLiteStore, table: str) -> int:
    with store._database.read() as db:
        row = db.execute(f"SELECT count(*) FROM {table}").fetchone()
        assert row is not None
        return int(str(row[0]))


STATEMENTS: dict[str, tuple[str, tuple[object, ...]]] = {
    "the spread of a lane": (SPREAD, (1,)),
    "the spread of a group": (order.SPREAD_OF_GROUP, ("p", 1)),
    "the next tier of a lane": (NEXT_TIER, (1, 2, 3)),
    "the next tier of a group": (order.NEXT_TIER_OF_GROUP, ("p", 1, 2, 3)),
    "a lane": (order.READY_IN_LANE, (1,)),
    "a tier": (order.READY_IN_TIER, (1, 2)),
    "a group": (order.READY_IN_GROUP, ("p", 1)),
    "a tier of a group": (order.READY_IN_TIER_OF_GROUP, ("p", 1, 2)),
    "places in a lane": (order.PLACES_IN_LANE, (1,)),
    "places in a tier": (order.PLACES_IN_TIER, (1, 2)),
    "crossings": (rebalance.CROSSING, (1, 2)),
    "what is placed anew": (rebalance.AFTER, (1, 2, 3, 4, 5)),
    "taking one out": (order.LEAVE, (1, 2, 3, 4)),
    "taking one out by number": (order.LEAVE_BY_NUMBER, (1,)),
    "finding one": (table_order.FIND_STANDING, (1,)),
}
# The jobs table is large, and so is every index on what is pending.
LARGE = ("ready", "job", "place", "raised")


@pytest.mark.parametrize("what", STATEMENTS)
def test_leasing_seeks_and_never_scans_or_sorts(store: SQLiteStore, what: str) -> None:
    text = plan(store, *STATEMENTS[what])
    assert "SEARCH" in text
    assert "TEMP B-TREE" not in text, text
    for table in LARGE:
        assert f"SCAN {table}" not in text, text


def test_a_group_is_sought_in_its_own_index(store: SQLiteStore) -> None:
    for what in (
        "a group",
        "a tier of a group",
        "the next tier of a group",
        "the spread of a group",
    ):
        assert "ready_by_parent (parent_id=? AND lane=?" in plan(store, *STATEMENTS[what])


def test_every_write_learns_for_one_seek_whether_any_job_crosses(store: SQLiteStore) -> None:
    text = plan(store, READ_STATE, ())
    assert "SEARCH place USING COVERING INDEX place_by_crossing" in text


def test_a_tier_further_on_costs_the_same_however_deep_the_first(store: SQLiteStore) -> None:
    """Counted in rows that SQLite steps over, which no busy machine can change."""
    steps = {}
    for depth in (100, 4000):
        drafts = [Draft(id=f"{depth}-{n}", task=f"{depth}", priority=n % 2) for n in range(depth)]
        store.submit(drafts)
        with store._database.read() as db:
            lane = db.execute("SELECT id FROM lane WHERE task = ?", (f"{depth}",)).fetchone()
            assert lane is not None
            ticks = 0

            def count() -> bool:
                nonlocal ticks
                ticks += 1
                return False

            db.set_progress_handler(count, 1)
            found = db.execute(NEXT_TIER, (*lane, default_tier(1), 1 << 40)).fetchall()
            db.set_progress_handler(None)
        assert found[0][0] == default_tier(0)
        steps[depth] = ticks
    assert steps[4000] <= 2 * steps[100]


def test_plain_jobs_have_no_place_of_their_own(store: SQLiteStore, clock: ManualClock) -> None:
    store.create_queue("limited", QueueConfig(max_concurrency=5), actor="me")
    for queue in ("default", "limited", "default"):
        store.submit([Draft(id=f"{queue}-{clock.monotonic()}", task="t", queue=queue, priority=7)])
        clock.advance(5000)
    assert [rows(store, table) for table in ("ready", "place", "raised")] == [3, 0, 0]


def test_places_go_with_the_jobs_that_had_them(store: SQLiteStore, clock: ManualClock) -> None:
    due = store.now() + timedelta(hours=2)
    store.submit([Draft(id=f"due-{n}", task="t", deadline=due) for n in range(4)])
    store.submit([Draft(id="delayed", task="t", delay_seconds=1)])
    store.cancel(["due-0"], reason="enough", actor="me")
    clock.advance(1)
    store.promote()
    assert rows(store, "place") == 4
    leases = store.exchange(request=ALL).leases
    assert rows(store, "place") == 0
    store.exchange([Settlement(each.job_id, each.version, Complete()) for each in leases])
    assert store.check() == []


def test_more_crossings_than_one_write_takes(store: SQLiteStore, clock: ManualClock) -> None:
    due = store.now() + timedelta(hours=2)
    jobs = 2 * PLACED_AT_ONCE + 10
    store.submit([Draft(id=f"{n}", task="t", deadline=due) for n in range(jobs)])
    clock.advance(3 * 3600)
    crossed = f"SELECT count(*) FROM place WHERE crosses_at > {to_micros(store.now())}"
    for expected in (PLACED_AT_ONCE, 2 * PLACED_AT_ONCE):
        store.exchange(request=LeaseRequest(worker="w", queues=("nothing",)))
        with store._database.read() as db:
            row = db.execute(crossed).fetchone()
        assert row == (expected,)
    store.recover()
    assert store.position(f"{jobs - 1}") == jobs - 1
    assert store.check() == []


def test_whoever_comes_next_goes_on_with_a_change(store: SQLiteStore) -> None:
    jobs = 2 * PLACED_AT_ONCE + 10
    store.submit([Draft(id=f"{n}", task="t", priority=n % 101) for n in range(jobs)])
    # The process that changed the rule dies before it has placed anybody anew.
    changes = {"max_priority": 3}
    store._database.writer.run(lambda step: update(QueueBook(step), "default", changes, "me"))
    assert rows(store, "place") == 0
    store.exchange(request=LeaseRequest(worker="w", queues=("nothing",)))
    assert 0 < rows(store, "place") <= PLACED_AT_ONCE
    # Those that were moved ahead are met once more.
    for _ in range(5):
        store.recover()
    assert rows(store, "rescoring") == 0
    assert [lease.job_id for lease in store.exchange(request=ALL).leases][:3] == ["3", "4", "5"]
