"""Dependencies between real processes: submitted while they end, and killed at any moment."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from leasehold.core.model.budget import DEPENDENTS_AT_ONCE
from leasehold.core.model.job import Draft, Job
from leasehold.core.model.lease import LeaseRequest
from leasehold.core.model.status import Event, Status
from leasehold.stores.sqlite import SQLiteStore
from leasehold.testing.conformance.base import assert_history_replays
from support.acknowledged import Acknowledged
from support.effort import drawn
from support.killing import finish_all, under_fire
from support.zygote import zygote

pytestmark = pytest.mark.faults

KILLS = drawn(120)
KINDS = ["submit_dependents", "settle_at_random", "settle_at_random"]


def job_of(store: SQLiteStore, job_id: str) -> Job:
    job = store.get(job_id)
    assert job is not None, f"job {job_id} was acknowledged and is lost"
    return job


def assert_kept(store: SQLiteStore, job: Job) -> None:
    """S8 for one job, from its own history and that of its dependencies."""
    history = store.history(job.id)
    assert_history_replays(store, job)
    needed = [job_of(store, needed) for needed in job.depends_on]
    ends = [store.history(each.id)[-1] for each in needed]
    ended = [event for event in history if event.event in (Event.CANCELLED, Event.DEAD)]
    assert len(ended) <= 1, f"job {job.id} was ended {len(ended)} times"
    assert sum(event.event is Event.UNBLOCKED for event in history) <= 1
    leased = [event for event in history if event.event is Event.LEASED]
    if leased:
        assert all(end.at <= leased[0].at for end in ends), f"job {job.id} ran too early"
    failed = [each for each in needed if each.status is not Status.COMPLETED]
    if failed and job.on_dependency_failure != "ignore":
        assert not leased
        wanted = Status.DEAD if job.on_dependency_failure == "fail" else Status.CANCELLED
        assert job.status is wanted
        assert job.reason is not None
        assert any(f"dependency {each.id} " in job.reason for each in failed)
    else:
        assert leased, f"job {job.id} never ran, although nothing stood against it"


@pytest.mark.parametrize("seed", [21, 22][: drawn(2)])
def test_nothing_stays_blocked_and_nothing_runs_too_early(
    folder: Path, acknowledged: Acknowledged, seed: int
) -> None:
    path, told, random = folder / "jobs.db", acknowledged, Random(seed)
    SQLiteStore(path).close()
    functions = [f"support.dependency_children:{kind}" for kind in KINDS]
    under_fire(path, told, random, functions, kills=KILLS, lines_between_kills_max=40)
    store = SQLiteStore(path)
    assert store.check() == []
    finish_all(store)
    assert store.check() == []
    counts = store.stats().counts
    assert [counts[each] for each in (Status.BLOCKED, Status.PENDING, Status.RUNNING)] == [0, 0, 0]
    for job_id in told.submitted:
        assert_kept(store, job_of(store, job_id))
    # The processes got somewhere, and every way to end was taken.
    assert len(told.submitted) > KILLS
    assert all(counts[each] for each in (Status.COMPLETED, Status.DEAD, Status.CANCELLED))
    store.close()


@pytest.mark.parametrize("by", ["sweep", "lease", "submit"])
def test_whoever_comes_next_goes_on_where_a_killed_process_stopped(
    folder: Path, acknowledged: Acknowledged, by: str
) -> None:
    path, told = folder / "jobs.db", acknowledged
    count = 2 * DEPENDENTS_AT_ONCE
    store = SQLiteStore(path)
    dependents = [Draft(id=f"b{n}", task="t", depends_on=("a",)) for n in range(count)]
    store.submit([Draft(id="a", task="t"), *dependents])
    store.close()
    with zygote("support.dependency_children", pass_fds=(told.tell_fd,)) as processes:
        pid = processes.spawn(
            "support.dependency_children:end_and_stop_half_way", str(path), "a", told.tell_fd
        )
        while not told.listen():
            pass
        processes.kill(pid)
    store = SQLiteStore(path)
    assert store.stats().counts[Status.BLOCKED] == count - DEPENDENTS_AT_ONCE
    assert store.check() == []
    if by == "sweep":
        store.recover()
    elif by == "submit":
        store.submit([Draft(id="other", task="t", delay_seconds=3600)])
    else:
        for _ in range(3):
            assert store.exchange((), LeaseRequest(worker="w")).leases == []
    assert store.stats().counts[Status.BLOCKED] == 0
    assert store.stats().counts[Status.CANCELLED] == count + 1
    assert store.check() == []
    store.close()
