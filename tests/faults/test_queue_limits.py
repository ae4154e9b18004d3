"""A limited queue, raced for by processes that are killed: never exceeded, not even by one.

The limits are watched by triggers in the database itself: they see every row that any process
writes, before anybody else could, and count the rows for themselves.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete
from leasehold.core.model.queue_config import QueueConfig
from leasehold.stores.sqlite import SQLiteStore
from leasehold.stores.sqlite.writing.step import Step
from support.acknowledged import Acknowledged
from support.effort import drawn
from support.killing import under_fire

pytestmark = pytest.mark.faults

MAX_DEPTH = 6
MAX_CONCURRENCY = 3
PROCESSES = 4
KILLS = drawn(60)

WATCH = """
    CREATE TABLE seen (what TEXT PRIMARY KEY, most INTEGER NOT NULL);
    INSERT INTO seen VALUES ('running', 0), ('pending at a submit', 0);
    CREATE TRIGGER watch_running AFTER INSERT ON running BEGIN
        UPDATE seen SET most = max(most, (SELECT count(*) FROM running)) WHERE what = 'running';
    END;
    -- Only a job that was just submitted has one event: what comes back by itself may exceed.
    CREATE TRIGGER watch_pending AFTER INSERT ON ready WHEN new.events = 1 BEGIN
        UPDATE seen SET most = max(most, (SELECT count(*) FROM ready))
        WHERE what = 'pending at a submit';
    END;
"""


def limited_store(path: Path) -> SQLiteStore:
    store = SQLiteStore(path)
    config = QueueConfig(max_depth=MAX_DEPTH, max_concurrency=MAX_CONCURRENCY)
    store.create_queue("default", config, actor="test")

    def watch(step: Step) -> None:
        step.execute(WATCH)

    store._database.writer.run(watch)
    return store


def most_seen(store: SQLiteStore) -> dict[str, Any]:
    with store._database.read() as db:
        return {str(what): most for what, most in db.execute("SELECT what, most FROM seen")}


def race(path: Path, told: Acknowledged, random: Random, function: str = "crowd") -> None:
    functions = [f"support.queue_children:{function}"] * PROCESSES
    under_fire(path, told, random, functions, kills=KILLS)


@pytest.mark.parametrize("seed", [1, 2][: drawn(2)])
def test_no_limit_is_ever_exceeded(folder: Path, acknowledged: Acknowledged, seed: int) -> None:
    path, told = folder / "jobs.db", acknowledged
    store = limited_store(path)
    race(path, told, Random(seed))
    # Exactly up to the limits, and never beyond.
    assert most_seen(store) == {"running": MAX_CONCURRENCY, "pending at a submit": MAX_DEPTH}
    assert store.stats().rejected > 0
    assert store.check() == []
    nothing_leaked(store)
    assert all(store.get(job_id) is not None for job_id in told.submitted)
    store.close()


def nothing_leaked(store: SQLiteStore) -> None:
    """After the crashes every slot is to be had again, and everything ends."""
    store.recover()
    info = store.queue_info("default")
    assert info is not None
    assert info.running == 0
    left = info.pending
    while left:
        leases = store.exchange((), LeaseRequest(worker="last", limit=100)).leases
        assert len(leases) == min(MAX_CONCURRENCY, left)
        store.exchange([Settlement(each.job_id, each.version, Complete()) for each in leases])
        left -= len(leases)
    assert store.check() == []


def test_a_store_that_lets_one_too_many_in_is_found_out(
    folder: Path, acknowledged: Acknowledged
) -> None:
    path, told = folder / "jobs.db", acknowledged
    store = limited_store(path)
    race(path, told, Random(3), "crowd_carelessly")
    seen = most_seen(store)
    assert seen["running"] > MAX_CONCURRENCY
    assert seen["pending at a submit"] > MAX_DEPTH
    store.close()
