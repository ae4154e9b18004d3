"""The kit that we ship for other people's tests."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from leasehold import (
    AsyncTaskQueue,
    JobFailedError,
    ResultTimeoutError,
    Retry,
    Snooze,
    Status,
    TaskQueue,
    UnknownTaskError,
    current_job,
)
from leasehold.testing import (
    Drained,
    InlineQueue,
    ManualClock,
    assert_submitted,
    drain,
    memory_queue,
    refute_submitted,
    submitted,
)


def greet(name: str, greeting: str = "Hello") -> str:
    return f"{greeting} {name}"


def fragile() -> str:
    if current_job().attempt < 3:
        raise ConnectionError("not yet")
    return "at last"


def broken() -> None:
    raise ValueError("broken")


def sleepy() -> Snooze | str:
    return "awake" if current_job().fencing_token > 1 else Snooze(60)


def reports() -> None:
    current_job().progress(1, total=2)
    current_job().log("halfway")


another = memory_queue()


@another.task
def of_another_queue() -> None: ...


@another.task(name="named")
def named_in_another_queue() -> None: ...


async def awaited(name: str) -> str:
    await asyncio.sleep(0)
    return name


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def queue(clock: ManualClock) -> TaskQueue:
    return memory_queue(clock)


def test_drain_runs_what_is_due_and_what_that_submits(queue: TaskQueue) -> None:
    def chain(left: int) -> None:
        if left:
            queue.submit(chain, left - 1, task_name="chain")

    queue.submit(chain, 5, task_name="chain")
    queue.submit(awaited, "x", queue="other")
    queue.submit(greet, "later", delay=60)
    assert drain(queue) == Drained(completed=7)
    assert queue.get_queue_stats()["scheduled"] == 1


def test_retries_follow_the_clock(queue: TaskQueue, clock: ManualClock) -> None:
    job = queue.submit(fragile, retry=[60])
    assert drain(queue).failed == 1
    assert drain(queue).attempts == 0
    clock.advance(60)
    assert drain(queue).errors[0].message == "not yet"
    clock.advance(60)
    assert drain(queue).completed == 1
    assert job.result() == "at last"


def test_drain_counts_every_kind_of_end(queue: TaskQueue, clock: ManualClock) -> None:
    dead, snoozed = queue.submit(broken), queue.submit(sleepy)
    done = drain(queue)
    assert (done.dead, done.snoozed, done.attempts) == (1, 1, 2)
    assert "another exception" not in (done.errors[0].traceback or "")
    with pytest.raises(JobFailedError, match="broken"):
        dead.result()
    clock.advance("30s")
    clock.advance(timedelta(seconds=30))
    drain(queue)
    assert snoozed.result() == "awake"


def test_reports_are_kept(queue: TaskQueue) -> None:
    job = queue.submit(reports)
    drain(queue)
    assert job.progress == {"done": 1, "total": 2}
    assert queue.log(job) == ["halfway"]


def test_a_task_without_code_here_is_an_error_and_the_job_stays(queue: TaskQueue) -> None:
    job = queue.submit("elsewhere", 1)
    with pytest.raises(UnknownTaskError, match="elsewhere"):
        drain(queue)
    assert (job.status(), job.job().attempts) == (Status.PENDING, 0)


def test_a_task_of_another_queue_object_says_so() -> None:
    with pytest.raises(UnknownTaskError, match=r"belongs to another queue object.*testing\.md"):
        InlineQueue().submit(of_another_queue)
    with pytest.raises(UnknownTaskError, match="belongs to the queue object that made it"):
        InlineQueue().submit(named_in_another_queue)


def test_an_endless_drain_ends(queue: TaskQueue) -> None:
    def again() -> Retry:
        return Retry(after=0)

    queue.submit(again, task_name="again", max_retries=1000)
    with pytest.raises(RuntimeError, match="20 jobs were run"):
        drain(queue, jobs_max=20)


def test_inline_runs_at_once(clock: ManualClock) -> None:
    queue = InlineQueue(clock)
    assert queue.submit(greet, "Ada").status() is Status.COMPLETED
    later = queue.submit(greet, "Bob", delay=60)
    with pytest.raises(ResultTimeoutError, match="advance the clock"):
        later.result(timeout=1000)
    clock.advance(60)
    assert later.result() == "Hello Bob"
    with pytest.raises(JobFailedError, match="broken"):
        queue.submit(broken).result()


def test_inline_jobs_may_submit_others(clock: ManualClock) -> None:
    queue = InlineQueue(clock)

    def parent() -> None:
        queue.submit(greet, "child", job_id="child")

    queue.submit(parent, task_name="parent")
    assert queue.get_result("child") == "Hello child"


def test_inline_can_be_awaited(clock: ManualClock) -> None:
    async def main() -> str:
        queue = InlineQueue(clock)
        job = await queue.asubmit(awaited, "x")
        value = await job.aresult(10)
        later = await queue.asubmit(awaited, "x", delay=60)
        with pytest.raises(ResultTimeoutError, match="advance the clock"):
            await later.aresult()
        await queue.ashutdown()
        return value

    assert asyncio.run(main()) == "x"


async def wave(name: str) -> str:
    await asyncio.sleep(0)
    return f"{name} waves"


def test_jobs_are_run_where_an_event_loop_runs(queue: TaskQueue, clock: ManualClock) -> None:
    """As in a test that is a coroutine itself: an event loop runs in its thread."""
    waves = queue.task(name="wave")(wave)
    inline = InlineQueue(clock)

    async def main() -> None:
        job = await waves.asubmit("Ada")
        assert drain(queue) == Drained(completed=1)
        assert await job.aresult() == "Ada waves"
        assert inline.submit(wave, "Eve").result() == "Eve waves"

    asyncio.run(main())


def test_an_awaitable_queue_is_tested_like_any_other() -> None:
    queue = AsyncTaskQueue("memory://", num_workers=0)
    waves = queue.task(name="wave")(wave)

    async def main() -> None:
        async with queue:
            job = await waves.submit("Ada")
            assert [found.id for found in assert_submitted(queue, waves, args=("Ada",))] == [job.id]
            refute_submitted(queue, waves, kwargs={"name": "Eve"})
            with pytest.raises(AssertionError, match=r"All jobs of that task, 1:\s+.*Ada"):
                assert_submitted(queue, waves, args=("Eve",))
            assert drain(queue) == Drained(completed=1)
            assert await job.result() == "Ada waves"
            assert len(submitted(queue, waves)) == 1

    asyncio.run(main())


def test_assert_submitted_finds_the_call_however_it_was_written(queue: TaskQueue) -> None:
    queue.submit(greet, "Ada", greeting="Hi", metadata={"tenant": "a"})
    queue.submit(greet, "Bob", queue="other")
    assert len(assert_submitted(queue, greet, count=2)) == 2
    assert_submitted(queue, greet, args=("Ada", "Hi"))
    assert_submitted(queue, greet, kwargs={"greeting": "Hi", "name": "Ada"}, count=1)
    assert_submitted(queue, greet, args=("Bob", "Hello"), queue="other")
    assert_submitted(queue, greet, metadata={"tenant": "a"}, count=1)
    refute_submitted(queue, greet, args=("Ada",))
    refute_submitted(queue, broken)
    assert [job.payload["args"][0] for job in submitted(queue, greet)] == ["Ada", "Bob"]


def test_what_was_not_submitted_fails_with_what_was(queue: TaskQueue) -> None:
    queue.submit(greet, "Ada")
    with pytest.raises(AssertionError, match=r"(?s)a matching job of .*, found none\..*'Ada'"):
        assert_submitted(queue, greet, args=("Bob",))
    with pytest.raises(AssertionError, match=r"a job of .*none\. Jobs of other tasks: .*greet"):
        assert_submitted(queue, broken)
    with pytest.raises(AssertionError, match=r"(?s)expected no job of .*, found 1:\n.*'Ada'"):
        refute_submitted(queue, greet)


def test_assert_submitted_works_by_name_too(queue: TaskQueue) -> None:
    queue.submit("elsewhere", 1, key="a")
    assert_submitted(queue, "elsewhere", args=(1,), kwargs={"key": "a"})
    refute_submitted(queue, "elsewhere", args=(2,))


def test_waiting_where_time_stands_still_is_refused_at_once() -> None:
    with memory_queue() as queue:
        job = queue.submit(max, 3, 7)
        with pytest.raises(ResultTimeoutError, match=r"is pending, and nothing runs.*: drain"):
            job.result(timeout=1)
        later = queue.submit(max, 3, 7, delay=60)
        with pytest.raises(ResultTimeoutError, match=r"scheduled until .*advance the clock, then"):
            queue.wait(later)
        with pytest.raises(ResultTimeoutError, match="nothing runs by itself here"):
            queue.join()
        drain(queue)
        assert job.result(timeout=1) == 7


def test_a_failed_assertion_shows_the_line_of_the_test(queue: TaskQueue) -> None:
    """Pytest leaves out the frames that say so."""
    with pytest.raises(AssertionError) as failed:
        assert_submitted(queue, "nothing")
    shown = failed.traceback.filter(failed)
    assert [Path(str(each.path)).name for each in shown] == ["test_kit.py"]
