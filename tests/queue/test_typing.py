"""Checked by mypy as much as by pytest: submits are typed like the functions."""

from __future__ import annotations

from typing import Any, assert_type

import pytest

from leasehold import (
    AsyncJobHandle,
    AsyncTask,
    AsyncTaskQueue,
    InvalidJobError,
    Job,
    JobHandle,
    LeaseholdError,
    NewJob,
    Task,
    TaskQueue,
    Workflow,
)
from leasehold.aio.faces import AsyncWorkflowRun
from leasehold.testing import memory_queue

queue: TaskQueue = memory_queue()


@queue.task
def bare(name: str, times: int = 1) -> str:
    return name * times


@queue.task(priority="high", retry=lambda attempt, error: attempt * 2.0, permanent=LookupError)
def decorated(name: str, *, flag: bool) -> list[int]:
    return [len(name)] if flag else []


@queue.task(timeout_seconds=5)
async def awaited(number: int) -> float:
    return number / 2


@queue.task
async def awaited_bare(number: int) -> float:
    return number / 2


def plain(name: str) -> bytes:
    return name.encode()


async def plain_awaited(name: str) -> bytes:
    return name.encode()


def test_a_task_keeps_the_types_of_its_function() -> None:
    assert_type(bare("a", times=2), str)
    assert_type(bare.submit("a", times=2), JobHandle[str])
    assert_type(decorated.submit("a", flag=True), JobHandle[list[int]])
    assert_type(awaited.submit(1), JobHandle[float])
    assert_type(awaited_bare.submit(1), JobHandle[float])
    assert_type(bare.options(priority="low", delay=5).submit("a"), JobHandle[str])
    assert_type(bare.job("a"), NewJob)
    assert isinstance(bare, Task)
    assert isinstance(awaited, AsyncTask)


def test_a_handle_has_the_type_of_the_result() -> None:
    job = bare.submit("a")

    async def types() -> None:
        assert_type(job.result(), str)
        assert_type(job.wait(), Job)
        assert_type(queue.wait(job), Job)
        assert_type(queue.wait([job]), list[Job])
        assert_type(await awaited(1), float)
        assert_type(await job.aresult(), str)
        assert_type(await queue.asubmit(plain_awaited, "a"), JobHandle[bytes])
        assert_type(await queue.asubmit(plain, "a"), JobHandle[bytes])
        assert_type(queue.submit_many([bare.job("a")]), list[JobHandle[Any]])

    assert callable(types)


def test_plain_functions_are_typed_by_their_result() -> None:
    assert_type(queue.submit(plain, "a"), JobHandle[bytes])
    assert_type(queue.submit(plain_awaited, "a"), JobHandle[bytes])
    assert_type(queue.submit(bare, "a"), JobHandle[str])
    assert_type(queue.submit(awaited, 1), JobHandle[float])
    assert_type(queue.submit("by name", 1), JobHandle[Any])
    assert_type(queue.submit(plain, "a", priority="high"), JobHandle[bytes])
    with pytest.raises(InvalidJobError):
        queue.submit(plain, "a", priority="urgent")  # type: ignore[call-overload]


def test_wrong_arguments_are_type_errors_and_refused() -> None:
    with pytest.raises(InvalidJobError):
        bare.submit()  # type: ignore[call-arg]
    with pytest.raises(InvalidJobError):
        bare.submit("a", colour="red")  # type: ignore[call-arg]
    with pytest.raises(InvalidJobError):
        decorated.submit("a", True)  # type: ignore[call-arg]
    with pytest.raises(InvalidJobError):
        bare.options(colour="red")  # type: ignore[call-arg]
    bare.submit(5)  # type: ignore[arg-type]


def test_the_awaitable_face_has_the_same_types() -> None:
    async def types(queue: AsyncTaskQueue, job: AsyncJobHandle[str]) -> None:
        assert_type(await queue.submit(plain, "a", priority="high"), AsyncJobHandle[bytes])
        assert_type(await queue.submit(plain_awaited, "a"), AsyncJobHandle[bytes])
        assert_type(await queue.submit(bare, "a"), AsyncJobHandle[str])
        assert_type(await queue.submit("by name", 1), AsyncJobHandle[Any])
        task = queue.task(plain)
        assert_type(await task.options(priority="low").submit("a"), AsyncJobHandle[bytes])
        assert_type(task("a"), bytes)
        assert_type(await queue.task(name="n")(plain_awaited)("a"), bytes)
        assert_type(await queue.every(60)(plain_awaited).submit("a"), AsyncJobHandle[bytes])
        assert_type(await queue.submit(task, "a"), AsyncJobHandle[bytes])
        assert_type(await queue.search(status="dead"), list[Job])
        await queue.submit(plain, "a", priority=object())  # type: ignore[call-overload]
        many = await queue.submit_many([bare.job("a")])
        assert_type(many, list[AsyncJobHandle[Any]])
        some = await queue.submit_many([bare.job("a")], partial=True)
        assert_type(some, list[AsyncJobHandle[Any] | LeaseholdError])
        assert_type(await queue.submit_workflow(Workflow()), AsyncWorkflowRun)
        assert_type(await job.result(), str)
        assert_type(await queue.wait(job), Job)
        assert_type(await queue.wait([job]), list[Job])
        assert_type([each async for each in queue.search(status="dead")], list[Job])
        assert_type([each async for each in queue.dead_letters], list[Job])
        assert_type(await queue.cancel_many(status="pending", reason="late"), int)
        await queue.cancel_many(colour="red")  # type: ignore[call-arg]
        assert_type(queue.task(plain)("a"), bytes)

    assert callable(types)
