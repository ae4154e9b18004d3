"""Retention as an application sees it: policy, prune, archive, results that expire."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from leasehold import (
    AsyncTaskQueue,
    CleanUp,
    InvalidRetentionError,
    JobNotFoundError,
    ResultExpiredError,
    RetentionPolicy,
    TaskQueue,
)
from leasehold.core.model.status import Status
from leasehold.env import Env, ManualClock

DAY = 24 * 3600


def finish(queue: TaskQueue, *names: str) -> None:
    for name in names:
        queue.submit("t", job_id=name)
        lease = queue.lease(wait=0)
        assert lease is not None
        queue.ack(lease, name)


def test_a_policy_of_ones_own(make_queue: Callable[..., TaskQueue], clock: ManualClock) -> None:
    policy = RetentionPolicy(completed_seconds=10 * DAY, worth_cleaning=1)
    queue = make_queue(num_workers=0, env=Env(clock), retention=policy)
    finish(queue, "job")
    clock.advance(10 * DAY - 1)
    queue.prune(force=True)
    assert queue.get_status("job") is Status.COMPLETED
    clock.advance(DAY)
    record = queue.prune()
    if record is None:  # The memory store was faster: it forgets by itself.
        queue.prune(force=True)
    with pytest.raises(JobNotFoundError):
        queue.get("job")
    assert queue.archive.get("job").result_summary == '"job"'


def test_prune_waits_for_its_day_unless_forced(still: TaskQueue) -> None:
    finish(still, "one", "two")
    assert still.prune() is None
    assert still.cleanups() == []
    forced = still.prune(force=True)
    assert isinstance(forced, CleanUp)
    assert (forced.pruned, forced.actor) == (0, "python")
    emergency = still.prune(emergency=True)
    assert emergency is not None
    assert emergency.completed == 2
    assert still.cleanups() == [emergency, forced]
    assert [record.action for record in still.audit_log()] == ["prune", "prune"]
    assert still.get_queue_stats()["total_cleaned"] == 2


def test_dead_letters_stay_unless_asked_for(still: TaskQueue) -> None:
    still.submit("t", job_id="dead")
    lease = still.lease(wait=0)
    assert lease is not None
    still.nack(lease, "broken", requeue=False)
    still.prune(emergency=True)
    assert [letter.id for letter in still.dead_letters] == ["dead"]
    with pytest.raises(InvalidRetentionError, match="emergency=True"):
        still.prune(force=True, dead=True)
    still.prune(emergency=True, dead=True)
    assert len(still.dead_letters) == 0
    [old] = still.archive.search(status="dead")
    assert old.error is not None
    assert (old.id, old.error.message) == ("dead", "broken")


def test_an_archived_job_is_not_found_but_remembered(still: TaskQueue) -> None:
    job = still.submit("t", job_id="job")
    lease = still.lease(wait=0)
    assert lease is not None
    still.ack(lease, 1)
    still.prune(emergency=True)
    for look in (job.job, job.result, job.wait, lambda: still.history(job)):
        with pytest.raises(JobNotFoundError, match=r"it was completed .* and archived"):
            look()
    assert still.archive.get(job).status is Status.COMPLETED
    with pytest.raises(JobNotFoundError, match="the archive has no job"):
        still.archive.get("nobody")
    with pytest.raises(JobNotFoundError, match="there is no job 'nobody'"):
        still.get("nobody")


def test_the_archive_is_searched_page_by_page(
    still: TaskQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leasehold.queue.archive.PAGE_SIZE", 2)
    finish(still, "one", "two", "three")
    still.prune(emergency=True)
    today = still.store.now().date()
    found = [job.id for job in still.archive.search(task="t", first_day=today, last_day=today)]
    assert found == ["three", "two", "one"]


def test_a_result_expires(still: TaskQueue, clock: ManualClock) -> None:
    job = still.submit("t", result_ttl_seconds=60)
    lease = still.lease(wait=0)
    assert lease is not None
    still.ack(lease, [1, 2])
    clock.advance(59)
    assert job.result() == [1, 2]
    clock.advance(1)
    with pytest.raises(ResultExpiredError, match="only kept for 1m "):
        job.result()
    still.prune(force=True)
    with pytest.raises(ResultExpiredError):
        job.result()
    assert job.status() is Status.COMPLETED


def test_it_may_be_awaited(still: TaskQueue) -> None:
    async def look() -> None:
        queue = AsyncTaskQueue(still.store, num_workers=0)
        cleanup = await queue.prune(emergency=True)
        assert cleanup is not None
        assert cleanup.completed == 2
        assert await queue.cleanups() == [cleanup]
        assert (await queue.archived("one")).status is Status.COMPLETED
        assert [job.id async for job in queue.search_archive(task="t")] == ["two", "one"]
        await queue.shutdown()

    finish(still, "one", "two")
    asyncio.run(look())


def test_a_task_may_say_how_long_its_results_count(still: TaskQueue) -> None:
    @still.task(name="short", result_ttl_seconds=5)
    def short() -> int:
        return 1

    job = short.submit()
    assert job.job().result_ttl_seconds == 5
