"""Starts that are raced for by processes that are killed: no second has more than the rate says.

Some lease from the store themselves, as fast as it goes; others are real workers.

The starts are watched twice: by a ledger outside the store, which the processes write as soon as
they hold a lease, and afterwards by the attempts in the store, which also knows of leases whose
holder was killed before it could tell.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from leasehold import TaskQueue
from leasehold.core.contract.store import Store
from leasehold.core.model.job import Draft
from leasehold.core.model.queue_config import QueueConfig
from leasehold.env import to_micros
from leasehold.stores.sqlite import SQLiteStore
from support.acknowledged import Acknowledged
from support.effort import drawn
from support.killing import all_jobs, kill_again_and_again, under_fire
from support.servers import Schemas
from support.start_children import KEYS
from support.zygote import zygote

pytestmark = pytest.mark.faults

RATE = 60
KEY_RATE = 10
PROCESSES = 4
KILLS = drawn(30, one_in=2)
WORKER_KILLS = 6
STARTS_BETWEEN_KILLS = 15
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


def by_key(store: Store, begun: dict[str, list[int]]) -> dict[str | None, list[int]]:
    found: defaultdict[str | None, list[int]] = defaultdict(list)
    for job_id, moments in begun.items():
        job = store.get(job_id)
        assert job is not None
        found[job.limit_key] += moments
    return found


def attempts(store: Store) -> dict[str, list[int]]:
    return {
        job.id: [to_micros(each.started_at) for each in store.attempts(job.id)]
        for job in all_jobs(store)
        if job.started_at is not None
    }


def assert_paced(store: Store, acknowledged: Acknowledged) -> dict[str, list[int]]:
    """No second has more starts than the rates, by the ledger and by the store; its attempts."""
    ledger, kept = acknowledged.begun, attempts(store)
    # What was told is in the store, too; what is only there was leased by one that was killed.
    assert all(set(moments) <= set(kept[job_id]) for job_id, moments in ledger.items())
    for begun in (ledger, kept):
        assert most_in_a_second([at for each in begun.values() for at in each]) <= RATE
        keyed = by_key(store, begun)
        for key in ("a", "b"):
            assert most_in_a_second(keyed[key]) <= KEY_RATE
            assert closest(keyed[key]) >= SECOND / KEY_RATE
    return kept


@pytest.mark.parametrize("seed", [1, 2][: drawn(2)])
def test_no_second_has_more_starts_than_the_rates(
    folder: Path, acknowledged: Acknowledged, seed: int
) -> None:
    store = paced_store(folder / "jobs.db")
    race(folder / "jobs.db", acknowledged, Random(seed))
    assert_paced(store, acknowledged)
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


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, folder: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{folder / 'jobs.db'}"
        return
    schemas: Schemas = request.getfixturevalue("schemas")
    lent = schemas.lend()
    yield lent
    schemas.take_back(lent)


def race_workers(
    queue: TaskQueue, url: str, told: Acknowledged, random: Random, function: str = "work"
) -> None:
    """Real workers share a queue whose jobs may start only so fast; one after another is killed."""
    config = QueueConfig(starts_per_second=RATE, key_starts_per_second=KEY_RATE)
    queue.store.create_queue("default", config, actor="test")
    # There is always more to do than may start.
    count = WORKER_KILLS * STARTS_BETWEEN_KILLS + 2 * RATE
    keys = random.choices(KEYS, k=count)
    queue.store.submit(
        [Draft(id=f"{n}", task="call", limit_key=key, max_retries=50) for n, key in enumerate(keys)]
    )
    with zygote("support.paced_worker", pass_fds=(told.tell_fd,)) as processes:

        def start() -> int:
            return processes.spawn(f"support.paced_worker:{function}", url, told.tell_fd)

        def wait_for_starts() -> None:
            wanted = sum(map(len, told.begun.values())) + random.randint(1, STARTS_BETWEEN_KILLS)
            while sum(map(len, told.begun.values())) < wanted:
                assert told.listen(), "the workers have fallen silent"

        starts = [start] * PROCESSES
        kill_again_and_again(processes, starts, random, kills=WORKER_KILLS, pause=wait_for_starts)
        processes.kill_all()
    told.drain()


def test_workers_that_are_killed_start_no_more_than_the_rates(
    url: str, acknowledged: Acknowledged
) -> None:
    with TaskQueue(url, num_workers=0) as queue:
        race_workers(queue, url, acknowledged, Random(5))
        store = queue.store
        kept = assert_paced(store, acknowledged)
        # No run without a start of its own.
        assert set(acknowledged.leased.values()) == {1}
        runs = Counter(job_id for job_id, _ in acknowledged.leased)
        assert all(count <= len(kept[job_id]) for job_id, count in runs.items())
        assert store.check() == []


def test_workers_that_start_one_too_many_are_found_out(
    folder: Path, acknowledged: Acknowledged
) -> None:
    url = f"sqlite:///{folder / 'jobs.db'}"
    with TaskQueue(url, num_workers=0) as queue:
        race_workers(queue, url, acknowledged, Random(6), "work_carelessly")
        keyed = by_key(queue.store, acknowledged.begun)
        assert closest(keyed["a"]) < SECOND / KEY_RATE
