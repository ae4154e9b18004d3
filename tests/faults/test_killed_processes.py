"""kill -9, hundreds of times, on one store: nothing acknowledged is lost, nothing is done twice."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from leasehold.core.lease import LeaseRequest, Settlement
from leasehold.core.outcome import Complete
from leasehold.core.search import JobFilter
from leasehold.core.status import Event
from leasehold.stores.sqlite import SQLiteStore
from leasehold.testing.conformance.base import assert_history_replays
from support.acknowledged import Acknowledged
from support.store_children import MAX_RETRIES
from support.zygote import Zygote, zygote

pytestmark = pytest.mark.faults

PROCESSES = 4
KILLS_PER_ROUND = 100
ROUNDS = 4
LINES_BETWEEN_KILLS_MAX = 60


def one_round(
    zygote: Zygote, path: Path, told: Acknowledged, random: Random, function: str = "churn"
) -> None:
    """Kill a random process again and again, each time starting another in its place."""

    def spawn() -> None:
        name = f"p{zygote.kills}-{len(zygote.alive)}"
        seed = random.randrange(2**32)
        zygote.spawn(f"support.store_children:{function}", str(path), name, seed, told.tell_fd)

    for _ in range(PROCESSES):
        spawn()
    for _ in range(KILLS_PER_ROUND - PROCESSES):
        wanted = random.randint(1, LINES_BETWEEN_KILLS_MAX)
        while wanted > 0:
            news = told.listen()
            assert news, "the processes have fallen silent"
            wanted -= news
        zygote.kill(random.choice(zygote.alive))
        spawn()
    zygote.kill_all()


def assert_kept(store: SQLiteStore, told: Acknowledged) -> None:
    """Everything acknowledged is there, once."""
    assert store.check() == []
    for job_id in told.submitted:
        job = store.get(job_id)
        assert job is not None, f"job {job_id} was acknowledged and is lost"
        assert job.attempts <= MAX_RETRIES + 1
    assert set(told.leased.values()) <= {1}, "a lease version was granted twice"
    assert set(told.settled.values()) <= {1}, "a settlement was accepted twice"


def assert_told_by_history(store: SQLiteStore, told: Acknowledged) -> None:
    """Each job's history is whole and holds every lease and settlement that was acknowledged."""
    jobs, cursor = [], None
    while True:
        page = store.search(JobFilter(), limit=1000, cursor=cursor)
        jobs += page.jobs
        cursor = page.next_cursor
        if cursor is None:
            break
    leased, settled = set(), set()
    for job in jobs:
        assert_history_replays(store, job)
        history = store.history(job.id)
        versions = [event.lease_version for event in history if event.event is Event.LEASED]
        assert versions == sorted(set(versions)), f"job {job.id}: versions do not grow: {versions}"
        terminal = [event for event in history if event.after and event.after.is_terminal]
        changes = [event for event in terminal if event.before is not event.after]
        assert len(changes) == 1, f"job {job.id} ended {len(changes)} times"
        leased |= {(job.id, version) for version in versions}
        settled |= {(job.id, event.lease_version, event.event.value) for event in history}
    assert told.leased.keys() <= leased
    assert told.settled.keys() <= settled
    assert not set(told.refused) & {(job_id, version) for job_id, version, _ in told.settled}


def finish_all(store: SQLiteStore) -> None:
    """Once the faults stop, every job ends."""
    store.recover()
    while True:
        answer = store.exchange((), LeaseRequest(worker="last", limit=500))
        if not answer.leases:
            if answer.next_due_at is None:
                return
            continue
        store.exchange(
            [Settlement(lease.job_id, lease.version, Complete()) for lease in answer.leases]
        )


@pytest.mark.parametrize("seed", [11, 12])
def test_nothing_is_lost_or_done_twice(folder: Path, acknowledged: Acknowledged, seed: int) -> None:
    path = folder / "jobs.db"
    told = acknowledged
    random = Random(seed)
    with zygote("support.store_children", pass_fds=(told.tell_fd,)) as processes:
        for _ in range(ROUNDS):
            one_round(processes, path, told, random)
            told.drain()
            store = SQLiteStore(path)
            assert_kept(store, told)
            store.close()
        assert processes.kills == ROUNDS * KILLS_PER_ROUND
    store = SQLiteStore(path)
    finish_all(store)
    assert_kept(store, told)
    assert_told_by_history(store, told)
    # The processes got somewhere between the kills.
    assert len(told.submitted) > KILLS_PER_ROUND
    assert any(event == "completed" for _, _, event in told.settled)
    assert store.stats().recovered > 0
    store.close()


def test_a_store_that_acknowledges_too_soon_is_found_out(
    folder: Path, acknowledged: Acknowledged
) -> None:
    told, path = acknowledged, folder / "jobs.db"
    with zygote("support.store_children", pass_fds=(told.tell_fd,)) as processes:
        one_round(processes, path, told, Random(13), "churn_carelessly")
    told.drain()
    store = SQLiteStore(path)
    with pytest.raises(AssertionError, match="was acknowledged and is lost"):
        assert_kept(store, told)
    store.close()
