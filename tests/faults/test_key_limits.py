"""Keys that are raced for by processes that are killed: their limit is never exceeded by one.

The limit is watched twice: by a trigger in the database itself, which sees every row that any
process writes, and afterwards by the intervals of all attempts.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pytest

from leasehold.core.model.queue_config import QueueConfig
from leasehold.core.model.status import Status
from leasehold.stores.sqlite import SQLiteStore
from leasehold.stores.sqlite.writing.step import Step
from support.acknowledged import Acknowledged
from support.effort import drawn
from support.killing import all_jobs, finish_all, under_fire

pytestmark = pytest.mark.faults

LIMIT = 2
PROCESSES = 4
KILLS = drawn(40)

WATCH = """
    CREATE TABLE seen (key TEXT PRIMARY KEY, most INTEGER NOT NULL);
    CREATE TRIGGER watch_running AFTER INSERT ON running BEGIN
        INSERT INTO seen
        SELECT coalesce(job.limit_key, 'none'), count(*) FROM running JOIN job USING (seq)
            WHERE job.limit_key IS (SELECT limit_key FROM job WHERE seq = new.seq)
            GROUP BY job.limit_key
        ON CONFLICT DO UPDATE SET most = max(most, excluded.most);
    END;
"""


def limited_store(path: Path) -> SQLiteStore:
    store = SQLiteStore(path)
    store.create_queue("default", QueueConfig(key_concurrency=LIMIT), actor="test")

    def watch(step: Step) -> None:
        step.execute(WATCH)

    store._database.writer.run(watch)
    return store


def most_seen(store: SQLiteStore) -> dict[str, int]:
    with store._database.read() as db:
        return {str(key): int(str(most)) for key, most in db.execute("SELECT key, most FROM seen")}


def race(path: Path, told: Acknowledged, random: Random, function: str = "crowd") -> None:
    functions = [f"support.key_children:{function}"] * PROCESSES
    under_fire(path, told, random, functions, kills=KILLS)


def most_at_once(store: SQLiteStore) -> Counter[str | None]:
    """By key, how many attempts overlapped at most; an end counts before a start of its moment."""
    moments: list[tuple[datetime, int, str | None]] = []
    for job in all_jobs(store):
        for attempt in store.attempts(job.id):
            moments.append((attempt.started_at, 1, job.limit_key))
            moments.append(
                (attempt.ended_at or datetime.max.replace(tzinfo=UTC), -1, job.limit_key)
            )
    running: Counter[str | None] = Counter()
    most: Counter[str | None] = Counter()
    for _, change, key in sorted(moments, key=lambda moment: moment[:2]):
        running[key] += change
        most[key] = max(most[key], running[key])
    return most


@pytest.mark.parametrize("seed", [1, 2][: drawn(2)])
def test_no_key_ever_runs_more_than_its_limit(
    folder: Path, acknowledged: Acknowledged, seed: int
) -> None:
    path, told = folder / "jobs.db", acknowledged
    store = limited_store(path)
    race(path, told, Random(seed))
    seen = most_seen(store)
    assert (seen["a"], seen["b"]) == (LIMIT, LIMIT)
    assert seen["none"] > LIMIT
    most = most_at_once(store)
    assert (most["a"], most["b"]) == (LIMIT, LIMIT)
    assert store.check() == []
    nothing_leaked(store)
    assert all(store.get(job_id) is not None for job_id in told.submitted)
    store.close()


def nothing_leaked(store: SQLiteStore) -> None:
    """The killed held slots: after one sweep every slot is to be had again, and everything ends."""
    store.recover()
    assert store.stats().counts[Status.RUNNING] == 0
    assert store.check() == []
    finish_all(store)
    left = store.stats().counts[Status.PENDING]
    assert left == 0, f"{left} jobs wait for a slot that nobody has"
    assert store.check() == []


def test_a_store_that_lets_one_too_many_run_is_found_out(
    folder: Path, acknowledged: Acknowledged
) -> None:
    path, told = folder / "jobs.db", acknowledged
    store = limited_store(path)
    race(path, told, Random(3), "crowd_carelessly")
    assert most_seen(store)["a"] > LIMIT
    assert most_at_once(store)["a"] > LIMIT
    store.close()
