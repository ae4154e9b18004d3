"""Starts that are raced for by processes that are killed: no second has more than the rate says.

The starts are watched twice: by a ledger outside the store, which the processes write as soon as
they hold a lease, and afterwards by the attempts in the store, which also knows of leases whose
holder was killed before it could tell.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from leasehold.core.model.queue_config import QueueConfig
from leasehold.env import to_micros
from leasehold.stores.sqlite import SQLiteStore
from support.acknowledged import Acknowledged
from support.effort import drawn
from support.killing import all_jobs, under_fire

pytestmark = pytest.mark.faults

RATE = 60
KEY_RATE = 10
PROCESSES = 4
KILLS = 30
SECOND = 1_000_000


def paced_store(path: Path) -> SQLiteStore:
    store = SQLiteStore(path)
    config = QueueConfig(starts_per_second=RATE, key_starts_per_second=KEY_RATE)
    store.create_queue("default", config, actor="test")
    return store


def race(path: Path, told: Acknowledged, random: Random, function: str = "crowd") -> None:
    functions = [f"support.start_children:{function}"] * PROCESSES
    under_fire(path, told, random, functions, kills=KILLS, lines_between_kills_max=10)


def most_in_a_second(starts: list[int]) -> int:
    starts = sorted(starts)
    return max(sum(first <= at < first + SECOND for at in starts) for first in starts)


def closest(starts: list[int]) -> int:
    starts = sorted(starts)
    return min(after - before for before, after in pairwise(starts))


def by_key(store: SQLiteStore, begun: dict[str, list[int]]) -> dict[str | None, list[int]]:
    found: defaultdict[str | None, list[int]] = defaultdict(list)
    for job_id, moments in begun.items():
        job = store.get(job_id)
        assert job is not None
        found[job.limit_key] += moments
    return found


def attempts(store: SQLiteStore) -> dict[str, list[int]]:
    return {
        job.id: [to_micros(each.started_at) for each in store.attempts(job.id)]
        for job in all_jobs(store)
        if job.started_at is not None
    }


@pytest.mark.parametrize("seed", [1, 2][: drawn(2)])
def test_no_second_has_more_starts_than_the_rates(
    folder: Path, acknowledged: Acknowledged, seed: int
) -> None:
    store = paced_store(folder / "jobs.db")
    race(folder / "jobs.db", acknowledged, Random(seed))
    ledger, kept = acknowledged.begun, attempts(store)
    # What was told is in the store, too; what is only there was leased by one that was killed.
    assert all(set(moments) <= set(kept[job_id]) for job_id, moments in ledger.items())
    for begun in (ledger, kept):
        assert most_in_a_second([at for each in begun.values() for at in each]) <= RATE
        keyed = by_key(store, begun)
        for key in ("a", "b"):
            assert most_in_a_second(keyed[key]) <= KEY_RATE
            assert closest(keyed[key]) >= SECOND / KEY_RATE
    assert store.check() == []
    store.close()


def test_a_store_that_lets_one_too_many_start_is_found_out(
    folder: Path, acknowledged: Acknowledged
) -> None:
    store = paced_store(folder / "jobs.db")
    race(folder / "jobs.db", acknowledged, Random(3), "crowd_carelessly")
    keyed = by_key(store, acknowledged.begun)
    assert closest(keyed["a"]) < SECOND / KEY_RATE
    store.close()
