"""kill -9, again and again, on one store: nothing acknowledged is lost, nothing is done twice."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from leasehold.core.model.status import Event
from leasehold.stores.sqlite import SQLiteStore
from leasehold.testing.conformance.base import assert_history_replays
from support.acknowledged import Acknowledged
from support.effort import drawn
from support.killing import all_jobs, finish_all, under_fire
from support.store_children import MAX_RETRIES

pytestmark = pytest.mark.faults

PROCESSES = 4
KILLS_PER_ROUND = drawn(100)
ROUNDS = drawn(4)


def one_round(path: Path, told: Acknowledged, random: Random, function: str = "churn") -> None:
    functions = [f"support.store_children:{function}"] * PROCESSES
    under_fire(path, told, random, functions, kills=KILLS_PER_ROUND - PROCESSES)


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
    leased, settled = set(), set()
    for job in all_jobs(store):
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


@pytest.mark.parametrize("seed", [11, 12][: drawn(2)])
def test_nothing_is_lost_or_done_twice(folder: Path, acknowledged: Acknowledged, seed: int) -> None:
    path = folder / "jobs.db"
    told = acknowledged
    random = Random(seed)
    for _ in range(ROUNDS):
        one_round(path, told, random)
        store = SQLiteStore(path)
        assert_kept(store, told)
        store.close()
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
    one_round(path, told, Random(13), "churn_carelessly")
    store = SQLiteStore(path)
    with pytest.raises(AssertionError, match="was acknowledged and is lost"):
        assert_kept(store, told)
    store.close()
