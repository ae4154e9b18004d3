"""Looking after the store itself: the sweep, silent holders, the time; command schedules."""

from __future__ import annotations

import asyncio

import pytest

from leasehold import AsyncTaskQueue, Every, InvalidJobError, Status, TaskQueue
from leasehold.env import ManualClock


def test_a_sweep_takes_back_what_expired(still: TaskQueue, clock: ManualClock) -> None:
    job = still.submit("t")
    assert still.lease(wait=0, worker="me", lease_seconds=10) is not None
    assert still.sweep().recovered == 0
    clock.advance(11)
    report = still.sweep()
    assert (report.expired_found, report.recovered, job.status()) == (1, 1, Status.PENDING)


def test_stuck_jobs_name_their_silent_holder(still: TaskQueue, clock: ManualClock) -> None:
    still.submit("t", job_id="one")
    assert still.lease(wait=0, worker="me") is not None
    clock.advance(100)
    assert still.stuck() == []
    clock.advance(21)
    assert [(job.job_id, job.worker) for job in still.stuck()] == [("one", "me")]


def test_the_time_is_the_stores(still: TaskQueue, clock: ManualClock) -> None:
    assert still.now() == clock.now()


def test_nobody_is_lost_while_nobody_died(queue: TaskQueue) -> None:
    queue.start()
    assert queue.lost_workers() == []


def test_a_schedule_may_run_a_command(still: TaskQueue, clock: ManualClock) -> None:
    schedule = still.schedule_command(
        "tidy", "rm -f *.tmp", Every(60), cwd="/tmp", priority="high", misfire="skip"
    )
    assert (schedule.task, schedule.draft.misfire) == ("command", "skip")
    clock.advance(60)
    still.store.fire_schedules()
    [job] = still.search()
    assert (job.task, job.priority) == ("command", 75)
    assert job.payload == {"shell": "rm -f *.tmp", "cwd": "/tmp"}


def test_a_command_that_cannot_be_run_is_no_schedule(still: TaskQueue) -> None:
    with pytest.raises(InvalidJobError, match="the command is empty"):
        still.schedule_command("tidy", "", Every(60))
    assert still.schedules.list() == []


def test_awaited(url: str) -> None:
    async def main() -> None:
        async with AsyncTaskQueue(url, num_workers=0) as queue:
            await queue.schedule_command("tidy", ["true"], Every(60))
            assert [known.task for known in await queue.schedules.list()] == ["command"]
            assert (await queue.sweep()).recovered == 0

    asyncio.run(main())
