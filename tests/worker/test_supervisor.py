from __future__ import annotations

import pytest

from leasehold.core.model.status import Status
from leasehold.env import ManualClock
from leasehold.worker.leases import LeaseManager
from leasehold.worker.supervisor import Supervisor
from support.workers import MoodyStore, submit_to


@pytest.fixture
def silent(timed_store: MoodyStore, clock: ManualClock) -> MoodyStore:
    """A store with two jobs whose worker has been silent for 130 s, and one that is fresh."""
    for job_id in ("one", "two"):
        submit_to(timed_store, "t", id=job_id, max_retries=0 if job_id == "two" else 3)
    LeaseManager(timed_store, "silent").acquire(limit=2)
    clock.advance(130)
    submit_to(timed_store, "t", id="fresh")
    LeaseManager(timed_store, "busy").acquire()
    return timed_store


def test_it_finds_only_what_is_silent(silent: MoodyStore) -> None:
    stuck = Supervisor(silent).find_stuck()
    assert {job.job_id for job in stuck} == {"one", "two"}
    assert {job.worker for job in stuck} == {"silent"}
    assert Supervisor(silent).find_stuck(silent_seconds=140) == []


@pytest.mark.parametrize("seconds", [-1, float("nan")])
def test_what_is_no_time_is_refused(silent: MoodyStore, seconds: float) -> None:
    with pytest.raises(ValueError, match="silent_seconds must be 0 or more"):
        Supervisor(silent).find_stuck(silent_seconds=seconds)
    with pytest.raises(ValueError, match="running_seconds must be 0 or more"):
        Supervisor(silent).find_stuck(running_seconds=seconds)


def test_requeue_reports_what_it_did_and_did_not(silent: MoodyStore) -> None:
    report = Supervisor(silent).requeue()
    [requeued], [refused] = report.requeued, report.not_requeued
    assert (requeued.job.job_id, requeued.job.worker) == ("one", "silent")
    assert silent.job("one").status is Status.PENDING
    assert (refused.job.job_id, refused.status) == ("two", Status.DEAD)
    assert "no attempt left" in refused.reason


def test_each_job_that_is_taken_leaves_an_audit_record(silent: MoodyStore) -> None:
    Supervisor(silent, actor="ann").requeue()
    records = silent.audit_page().records
    assert {(each.actor, each.action, each.count) for each in records} == {("ann", "requeue", 1)}
    assert sorted(each.detail["jobs"][0] for each in records) == ["one", "two"]


def test_requeue_with_reset_gives_all_attempts_back(silent: MoodyStore) -> None:
    report = Supervisor(silent).requeue(reset_attempts=True)
    assert len(report.requeued) == 2
    assert silent.job("two").attempts == 0


def test_a_job_that_moved_on_is_left_alone(silent: MoodyStore) -> None:
    supervisor = Supervisor(silent)
    stale = next(job for job in supervisor.find_stuck() if job.job_id == "one")
    supervisor.requeue(stale)
    LeaseManager(silent, "new").acquire()
    report = supervisor.requeue(stale)
    assert report.requeued == ()
    assert report.not_requeued[0].reason
    assert silent.job("one").worker == "new"


def test_a_job_that_runs_for_too_long_though_the_heart_beats(
    timed_store: MoodyStore, clock: ManualClock
) -> None:
    submit_to(timed_store, "t", id="hangs", priority=80)
    leases = LeaseManager(timed_store, "busy")
    [lease] = leases.acquire(lease_seconds=600)
    clock.advance(500)
    leases.renew(lease)
    supervisor = Supervisor(timed_store)
    assert supervisor.find_stuck() == []
    assert supervisor.requeue(running_seconds=501).requeued == ()
    [found] = supervisor.find_stuck(running_seconds=500)
    assert (found.worker, found.priority, found.started_at) == ("busy", 80, lease.acquired_at)
    report = supervisor.requeue(silent_seconds=None, running_seconds=500)
    assert [each.job for each in report.requeued] == [found]
    assert timed_store.job("hangs").status is Status.PENDING
