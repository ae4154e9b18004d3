from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from leasehold.codec import CallCodec
from leasehold.core.model.outcome import Cancel, Complete, Fail
from leasehold.worker.context import StopCause, current_job
from leasehold.worker.executors.aio import AsyncExecutor
from leasehold.worker.task import TaskDefinition
from support.runs import WatchedRun, call_run

SECONDS = 20.0


@pytest.fixture
def executor() -> Iterator[AsyncExecutor]:
    executor = AsyncExecutor()
    yield executor
    executor.close()


def test_many_run_at_once_each_with_its_own_context(executor: AsyncExecutor) -> None:
    together = asyncio.Barrier(20)

    async def task() -> int:
        await together.wait()  # Only if all have begun does any go on.
        return current_job().attempt

    runs = [call_run(task, job_id=f"job-{number}", attempt=number) for number in range(1, 21)]
    for watched in runs:
        executor.start(watched.run)
    for number, watched in enumerate(runs, start=1):
        assert watched.outcome() == Complete(str(number).encode(), None, "json")


def test_an_error_is_a_failure(executor: AsyncExecutor) -> None:
    async def task() -> None:
        raise OSError("net")

    watched = call_run(task)
    executor.start(watched.run)
    outcome = watched.outcome()
    assert isinstance(outcome, Fail)
    assert (outcome.error.type, outcome.error.message) == ("OSError", "net")


def test_a_call_for_another_version_of_the_task_is_tried_again(executor: AsyncExecutor) -> None:
    async def task(order: int) -> None: ...

    codec = CallCodec(task)
    watched = WatchedRun(TaskDefinition("t", task, codec, "async"), b'{"args":[],"kwargs":{}}')
    executor.start(watched.run)
    outcome = watched.outcome()
    assert isinstance(outcome, Fail)
    assert outcome.retryable
    assert "another version of task 't'" in outcome.error.message


def test_stopping_cancels_the_task_and_lets_it_clean_up(executor: AsyncExecutor) -> None:
    begun, cleaned = threading.Event(), threading.Event()

    async def task() -> None:
        begun.set()
        try:
            await asyncio.sleep(3600)
        finally:
            cleaned.set()

    watched = call_run(task)
    executor.start(watched.run)
    assert begun.wait(SECONDS)
    watched.context.stop(StopCause.CANCELLED, "enough")
    executor.stop(watched.run)
    assert watched.outcome() == Cancel("enough")
    assert cleaned.is_set()


def test_a_task_stopped_before_its_first_step_still_ends(executor: AsyncExecutor) -> None:
    blocked, go = threading.Event(), threading.Event()

    async def block() -> None:
        blocked.set()
        go.wait(SECONDS)

    async def never() -> None:
        raise AssertionError

    blocker, watched = call_run(block), call_run(never)
    executor.start(blocker.run)
    assert blocked.wait(SECONDS)
    executor.start(watched.run)
    watched.context.stop(StopCause.CANCELLED, "at once")
    executor.stop(watched.run)
    go.set()
    assert watched.outcome() == Cancel("at once")
    assert blocker.outcome() == Complete(b"null", None, "json")


def test_closing_ends_what_runs() -> None:
    executor = AsyncExecutor()
    begun = threading.Event()

    async def task() -> None:
        begun.set()
        await asyncio.sleep(3600)

    watched = call_run(task)
    executor.start(watched.run)
    assert begun.wait(SECONDS)
    executor.close()
    assert watched.run.ended
