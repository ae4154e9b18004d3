from __future__ import annotations

import pytest

from leasehold.core.model.outcome import JobError
from leasehold.core.model.status import Event, Status
from leasehold.env import ManualClock
from leasehold.errors import LeaseConflictError, LeaseExpiredError, LeaseLostError
from leasehold.worker.leases import LeaseManager
from support.workers import MoodyStore, submit_to


@pytest.fixture
def leases(timed_store: MoodyStore) -> LeaseManager:
    return LeaseManager(timed_store, "me", lease_seconds=60)


def test_acquire_leases_the_best_jobs_and_no_more_than_asked(
    timed_store: MoodyStore, leases: LeaseManager
) -> None:
    for number, priority in enumerate((10, 90, 50)):
        submit_to(timed_store, "t", id=f"job-{number}", priority=priority)
    taken = leases.acquire(limit=2)
    assert [lease.job_id for lease in taken] == ["job-1", "job-2"]
    assert {lease.worker for lease in taken} == {"me"}
    assert {lease.lease_seconds for lease in taken} == {60}


def test_acquire_is_narrowed_by_queue_task_and_parent(
    timed_store: MoodyStore, leases: LeaseManager
) -> None:
    submit_to(timed_store, "t", id="here")
    submit_to(timed_store, "t", id="there", queue="other")
    submit_to(timed_store, "u", id="task")
    submit_to(timed_store, "t", id="child", parent_id="family")
    assert [one.job_id for one in leases.acquire(["other"], 9)] == ["there"]
    assert [one.job_id for one in leases.acquire(limit=9, tasks=["u"])] == ["task"]
    assert [one.job_id for one in leases.acquire(limit=9, parent_id="family")] == ["child"]


def test_complete_keeps_result_and_note(timed_store: MoodyStore, leases: LeaseManager) -> None:
    job_id = submit_to(timed_store, "t")
    [lease] = leases.acquire()
    assert leases.complete(lease, b"42", note=b'"by hand"').status is Status.COMPLETED
    assert timed_store.job(job_id).result == 42
    assert timed_store.attempts(job_id)[0].note == "by hand"


@pytest.mark.parametrize(
    ("error", "retryable", "event"),
    [
        (OSError("gone"), None, Event.FAILED),
        (KeyError("x"), None, Event.DEAD),
        (KeyError("x"), True, Event.FAILED),
        (OSError("gone"), False, Event.DEAD),
        (JobError("Mine", "as data"), None, Event.FAILED),
    ],
)
def test_fail_classifies_unless_told(
    timed_store: MoodyStore,
    leases: LeaseManager,
    error: BaseException | JobError,
    retryable: bool | None,
    event: Event,
) -> None:
    submit_to(timed_store, "t")
    [lease] = leases.acquire()
    settled = leases.fail(lease, error, retryable=retryable, retry_after_seconds=7)
    assert settled.event is event
    if event is Event.FAILED:
        assert settled.run_at is not None
        assert (settled.run_at - timed_store.now()).total_seconds() == 7


def test_snooze_and_release_spend_no_attempt(timed_store: MoodyStore, leases: LeaseManager) -> None:
    job_id = submit_to(timed_store, "t")
    [lease] = leases.acquire()
    assert leases.release(lease, reason="not mine").status is Status.PENDING
    [lease] = leases.acquire()
    assert lease.attempt == 1
    assert leases.snooze(lease, 60).status is Status.SCHEDULED
    assert timed_store.job(job_id).attempts == 0


def test_a_stale_holder_is_told_and_changes_nothing(
    timed_store: MoodyStore, leases: LeaseManager, clock: ManualClock
) -> None:
    job_id = submit_to(timed_store, "t")
    [stale] = leases.acquire()
    clock.advance(61)
    with pytest.raises(LeaseExpiredError):
        leases.renew(stale)
    timed_store.recover()
    with pytest.raises(LeaseLostError):
        leases.complete(stale, b"1")
    LeaseManager(timed_store, "other").acquire()
    with pytest.raises(LeaseConflictError):
        leases.release(stale)
    assert timed_store.job(job_id).worker == "other"


def test_renew_answers_with_the_new_expiry(
    timed_store: MoodyStore, leases: LeaseManager, clock: ManualClock
) -> None:
    submit_to(timed_store, "t")
    [lease] = leases.acquire()
    clock.advance(30)
    renewed = leases.renew(lease)
    assert (renewed.expires_at - clock.now()).total_seconds() == 60
    assert renewed.next_heartbeat_seconds == 6
