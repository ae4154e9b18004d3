"""Leasing in a loop of one's own."""

from __future__ import annotations

import threading

import pytest

from leasehold import (
    LeaseConflictError,
    LeaseExpiredError,
    LeaseLostError,
    NewJob,
    Status,
    TaskQueue,
)
from leasehold.core.model.budget import LATE_AT_ONCE, PASSED_OVER_AT_ONCE
from leasehold.env import ManualClock
from leasehold.errors import StoreBusyError

WAIT = 30


def resize(path: str, width: int = 64) -> str:
    return f"{path}@{width}"


def test_lease_ack_and_result(still: TaskQueue) -> None:
    job = still.submit(resize, "cat.png", width=32)
    lease = still.lease(worker="me")
    assert lease is not None
    assert (lease.job_id, lease.worker, lease.attempt) == (job.id, "me", 1)
    assert still.arguments(lease) == (["cat.png"], {"width": 32})
    settled = still.ack(lease, "done", note={"took": 3})
    assert settled.status is Status.COMPLETED
    assert job.result(0) == "done"
    assert still.attempts(job)[0].note == {"took": 3}


def test_a_call_that_does_not_wait_spends_one_budget_on_late_jobs(
    still: TaskQueue, clock: ManualClock
) -> None:
    """However many nobody started in time: each call takes some out, and answers."""
    still.submit_many([NewJob(resize, (f"{n}",), start_within_seconds=1) for n in range(3000)])
    job = still.submit(resize, "in time", priority=1)
    clock.advance(2)
    assert still.lease(wait=0) is None
    spent = LATE_AT_ONCE + PASSED_OVER_AT_ONCE
    assert still.store.stats().counts[Status.CANCELLED] == spent
    found = [still.lease(wait=0) for _ in range(3000 // PASSED_OVER_AT_ONCE)]
    assert [lease.job_id for lease in found if lease is not None] == [job.id]


def test_a_sweep_that_has_to_wait_in_vain_fails_no_lease(
    still: TaskQueue, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    swept = []

    def busy() -> None:
        swept.append(clock.now())
        raise StoreBusyError("somebody else is writing")

    monkeypatch.setattr(still.store, "recover", busy)
    clock.advance(3600)
    still.submit("work", job_id="job")
    lease = still.lease(worker="me", wait=0)
    assert lease is not None
    assert lease.job_id == "job"
    assert swept


def test_nothing_there_is_none(still: TaskQueue) -> None:
    assert still.lease(wait=0) is None
    assert still.lease_many(5, wait=0) == []


def test_the_best_first_and_at_most_so_many(still: TaskQueue) -> None:
    low = still.submit(resize, "a", priority="low")
    high = still.submit(resize, "b", priority="high")
    third = still.submit(resize, "c", priority="low")
    assert [job.id for job in still.peek(limit=5)] == [high.id, low.id, third.id]
    leases = still.lease_many(2, wait=0)
    assert [lease.job_id for lease in leases] == [high.id, low.id]


def test_leasing_is_narrowed_by_queue_task_and_parent(still: TaskQueue) -> None:
    still.submit(resize, "a")
    other_queue = still.submit(resize, "a", queue="other")
    other_task = still.submit("rotate", "a")
    child = still.submit(resize, "a", parent_id="group")
    assert still.lease("other", wait=0).job_id == other_queue.id  # type: ignore[union-attr]
    assert still.lease(tasks=["rotate"], wait=0).job_id == other_task.id  # type: ignore[union-attr]
    assert still.lease(parent="group", tasks=[resize], wait=0).job_id == child.id  # type: ignore[union-attr]


def test_nack_classifies_an_exception_unless_told(still: TaskQueue) -> None:
    still.submit_many([NewJob(resize, ("a",)) for _ in range(4)])
    leases = still.lease_many(4, wait=0)
    errors = [ValueError("bad"), OSError("down"), ValueError("bad"), OSError("down")]
    told = [None, None, True, False]
    settled = [
        still.nack(lease, error, requeue=requeue).status
        for lease, error, requeue in zip(leases, errors, told, strict=True)
    ]
    assert settled == [Status.DEAD, Status.FAILED, Status.FAILED, Status.DEAD]


def test_nack_retries_with_its_own_delay_or_gives_up(still: TaskQueue, clock: ManualClock) -> None:
    job = still.submit(resize, "a")
    lease = still.lease(wait=0)
    assert lease is not None
    settled = still.nack(lease, ValueError("bad"), retry_after=60)
    assert settled.status is Status.FAILED
    assert settled.run_at is not None
    assert (settled.run_at - clock.now()).total_seconds() == 60
    clock.advance(61)
    again = still.lease(wait=0)
    assert again is not None
    assert still.nack(again, "hopeless", requeue=False).status is Status.DEAD
    error = still.get(job).error
    assert error is not None
    assert error.message == "hopeless"


def test_a_stale_holder_is_refused(still: TaskQueue, clock: ManualClock) -> None:
    still.submit(resize, "a")
    lease = still.lease(wait=0, lease_seconds=10)
    assert lease is not None
    clock.advance(61)
    with pytest.raises(LeaseExpiredError):
        still.extend(lease)
    # The next lease call also sweeps, so that an expired job comes back without any worker.
    second = still.lease(worker="other", wait=0)
    assert second is not None
    assert (second.job_id, second.attempt) == (lease.job_id, 2)
    with pytest.raises(LeaseConflictError):
        still.ack(lease, "late")
    still.ack(second, "in time")
    with pytest.raises(LeaseLostError):
        still.ack(lease, "later")


def test_what_is_said_twice_is_answered_twice_and_counts_once(
    still: TaskQueue, clock: ManualClock
) -> None:
    """As after a lost connection: nobody knows whether the first one arrived."""
    job = still.submit(resize, "a")
    first = still.lease(wait=0)
    assert first is not None
    assert still.nack(first, "no") == still.nack(first, "no")
    assert still.get(job).failure_count == 1
    with pytest.raises(LeaseLostError):
        still.ack(first, "no, it is done")
    clock.advance(61)
    second = still.lease(wait=0)
    assert second is not None
    still.requeue(second)
    still.requeue(second)
    third = still.lease(wait=0)
    assert third is not None
    assert still.ack(third, "done") == still.ack(third, "done")
    assert job.result(0) == "done"
    assert still.get_queue_stats()["completed"] == 1
    with pytest.raises(LeaseLostError):
        still.nack(third, "no, it failed")


def test_extend_and_heartbeat_keep_leases(still: TaskQueue, clock: ManualClock) -> None:
    still.submit(resize, "a")
    still.submit(resize, "b")
    leases = still.lease_many(2, wait=0, lease_seconds=100)
    clock.advance(50)
    renewed = still.extend(leases[0], 500)
    assert (renewed.expires_at - clock.now()).total_seconds() == 500
    assert renewed.next_heartbeat_seconds == 50
    still.ack(leases[1])
    answers = still.heartbeat(leases)
    assert not isinstance(answers[0], LeaseLostError)
    assert isinstance(answers[1], LeaseLostError)
    assert still.heartbeat([]) == []


def test_requeue_hands_back_a_lease_or_replays_a_job(still: TaskQueue) -> None:
    job = still.submit(resize, "a", max_retries=0)
    lease = still.lease(wait=0)
    assert lease is not None
    still.requeue(lease, reason="not mine")
    assert (job.status(), job.job().attempts) == (Status.PENDING, 0)
    again = still.lease(wait=0)
    assert again is not None
    still.nack(again, "no")
    assert job.status() is Status.DEAD
    still.requeue(job)
    assert job.status() is Status.PENDING


def test_a_lease_waits_for_the_next_submit(still: TaskQueue) -> None:
    leased: list[str] = []

    def consume() -> None:
        lease = still.lease(wait=1_000_000)
        assert lease is not None
        leased.append(lease.job_id)

    thread = threading.Thread(target=consume)
    thread.start()
    while not still.ready._callbacks:
        thread.join(0.001)
    job = still.submit(resize, "a")
    thread.join(WAIT)
    assert leased == [job.id]


def test_a_lease_waits_until_a_job_is_due_or_the_time_is_up(
    still: TaskQueue, clock: ManualClock
) -> None:
    job = still.submit(resize, "a", delay=60)
    leased: list[str | None] = []

    def consume() -> None:
        for wait in (120, 120):
            lease = still.lease(wait=wait)
            leased.append(lease.job_id if lease else None)

    thread = threading.Thread(target=consume)
    thread.start()
    while thread.is_alive():
        if still.ready._callbacks:  # Time passes only while it waits, however slow the machine is.
            clock.advance(7)
        thread.join(0.001)
    assert leased == [job.id, None]


def test_one_heartbeat_is_for_one_worker(still: TaskQueue) -> None:
    still.submit_many([still.task(resize).job("a"), still.task(resize).job("b")])
    one, two = still.lease(worker="one"), still.lease(worker="two")
    assert one is not None
    assert two is not None
    with pytest.raises(ValueError, match="one worker"):
        still.heartbeat([one, two])
