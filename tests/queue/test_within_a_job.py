"""What a task asks of the queue that its own job is in: it must not wait for itself."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import Any

import pytest

from leasehold import JobFailedError, ResultTimeoutError, Status, TaskQueue, UnsupportedError

from .conftest import MakeQueue

WAIT = 60


def refused(call: Any, *arguments: Any, **options: Any) -> str:
    """The words of the refusal."""
    with pytest.raises(UnsupportedError) as caught:
        call(*arguments, **options)
    return str(caught.value)


@pytest.mark.parametrize("timeout", [None, WAIT])
def test_a_task_cannot_join_its_own_queue(queue: TaskQueue, timeout: float | None) -> None:
    @queue.task(name="waits")
    def waits() -> str:
        return refused(queue.join, timeout)

    job = waits.submit()
    assert "queue.wait(jobs)" in job.result(WAIT)
    assert job.id in job.result(WAIT)
    queue.join(WAIT)


def test_a_task_cannot_await_the_end_of_its_own_queue(queue: TaskQueue) -> None:
    @queue.task(name="waits")
    async def waits() -> str:
        with pytest.raises(UnsupportedError) as caught:
            await queue.ajoin()
        return str(caught.value)

    assert "depends_on" in waits.submit().result(WAIT)


def test_a_task_may_join_what_it_is_not_in(make_queue: MakeQueue) -> None:
    queue, other = make_queue(queues=["default", "other"]), TaskQueue("memory://", num_workers=1)
    inner = TaskQueue(queue.store, queues=["inner"], num_workers=0)

    @other.task(name="work")
    def work() -> None: ...

    @queue.task(name="waits")
    def waits() -> int:
        inner.join(WAIT)
        work.submit()
        other.join(WAIT)
        return other.count(status="completed").jobs

    with other:
        assert waits.submit().result(WAIT) == 1


@pytest.mark.parametrize("wait", [True, False])
def test_a_task_cannot_shut_down_its_own_worker(queue: TaskQueue, wait: bool) -> None:
    @queue.task(name="ends")
    def ends() -> str:
        return refused(queue.shutdown, wait)

    @queue.task(name="ends_too")
    async def ends_too() -> str:
        with pytest.raises(UnsupportedError) as caught:
            await queue.ashutdown(wait)
        return str(caught.value)

    for task in (ends, ends_too):
        job = task.submit()
        assert "SIGTERM" in job.result(WAIT)
        # Nothing was closed, and nothing is handed back to run again.
        assert job.status() is Status.COMPLETED
        assert len(queue.attempts(job)) == 1
    queue.shutdown(timeout=WAIT)


def test_a_task_may_shut_down_a_queue_of_its_own(queue: TaskQueue) -> None:
    @queue.task(name="uses_another")
    def uses_another() -> int:
        with TaskQueue("memory://", num_workers=1) as other:
            task = other.task(name="inner")(lambda: 5)
            return int(task.submit().result(WAIT))

    assert uses_another.submit().result(WAIT) == 5
    asyncio.run(queue.ashutdown(timeout=WAIT))


def test_a_task_that_waits_in_vain_is_told_of_workflows(make_queue: MakeQueue) -> None:
    queue = make_queue(num_workers=1)

    @queue.task(name="inner")
    def inner() -> None: ...

    @queue.task(name="outer")
    def outer() -> str:
        with pytest.raises(ResultTimeoutError) as late:
            inner.submit().result(timeout=0.01)
        return str(late.value)

    @queue.task(name="awaiting")
    async def awaiting() -> str:
        with pytest.raises(ResultTimeoutError) as late:
            await inner.submit().aresult(timeout=0.01)
        return str(late.value)

    for task in (outer, awaiting):
        job = task.submit()
        told = job.result(WAIT)
        assert f"Job {job.id} waits for it and keeps its slot" in told
        assert told.endswith("depends_on, or as a workflow")


def test_why_names_slots_that_are_held_by_tasks_which_ignore_their_timeout(
    make_queue: MakeQueue,
) -> None:
    queue = make_queue(num_workers=2)
    begun, let_go = threading.Event(), threading.Event()

    @queue.task(name="ignores", timeout_seconds=0.05, max_retries=0)
    def ignores() -> None:
        let_go.wait(WAIT)

    @queue.task(name="works")
    def works() -> None:
        begun.set()
        let_go.wait(WAIT)

    with suppress(JobFailedError):
        ignores.submit().result(WAIT)  # It is dead, and its thread goes on.
    running = works.submit()
    assert begun.wait(WAIT)
    waiting = works.submit()
    told = queue.why(waiting)
    assert told.kind == "workers_busy"
    assert "1 of 2 slots is held by tasks that do not stop after their timeout" in told.text
    let_go.set()
    queue.wait([running, waiting], WAIT)
