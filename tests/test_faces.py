"""Both faces, name by name and signature by signature; and that they are what their parts make."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from typing import Any, get_overloads

import pytest
from tools.faces.__main__ import FACES
from tools.faces.awaitable import LEFT_OUT, MAKES_TASKS, NOT_AWAITED, awaitable
from tools.faces.definitions import ROOT

from leasehold import (
    AsyncJobHandle,
    AsyncTask,
    AsyncTaskQueue,
    AwaitedTask,
    JobHandle,
    JobNotFoundError,
    NewJob,
    Status,
    Task,
    TaskQueue,
    WorkflowRun,
    group,
)
from leasehold.aio.faces import (
    AsyncArchive,
    AsyncDeadLetters,
    AsyncOperations,
    AsyncSchedules,
    AsyncSettings,
    AsyncWorkflowRun,
)
from leasehold.queue.archive import Archive
from leasehold.queue.deadletters import DeadLetters
from leasehold.queue.operations import Operations
from leasehold.queue.schedules import Schedules
from leasehold.queue.settings import Settings

PAIRS: list[tuple[type, type]] = [
    (TaskQueue, AsyncTaskQueue),
    (JobHandle, AsyncJobHandle),
    (WorkflowRun, AsyncWorkflowRun),
    (Schedules, AsyncSchedules),
    (Settings, AsyncSettings),
    (DeadLetters, AsyncDeadLetters),
    (Operations, AsyncOperations),
    (Archive, AsyncArchive),
    (Task, AwaitedTask),
]
PARTS = {"archive", "dead_letters", "operations", "schedules", "settings"}
ONLY_AWAITED = {
    AsyncTaskQueue: {"archived", "search_archive", "submit_partly", "wait_all"},
    AsyncSchedules: {"count"},
    AsyncDeadLetters: {"count"},
}
"""Earlier names for what has a name on both faces, and what stands for `len(...)`."""


def public(cls: type) -> set[str]:
    return {name for name in dir(cls) if not name.startswith("_")}


def pairs_of_methods() -> Iterator[tuple[str, Any, Any]]:
    for blocking, awaited in PAIRS:
        for name in sorted(public(blocking) & public(awaited)):
            theirs = getattr(awaited, name)
            ours = inspect.getattr_static(blocking, name)
            yield f"{blocking.__name__}.{name}", ours, theirs


METHODS = [
    (name, ours, theirs)
    for name, ours, theirs in pairs_of_methods()
    if inspect.isfunction(ours) and ours is not theirs
]


@pytest.mark.parametrize("path", FACES)
def test_a_face_is_what_its_definitions_make(path: str) -> None:
    assert (ROOT / path).read_text() == FACES[path](), "run `make faces`"


@pytest.mark.parametrize(("blocking", "awaited"), PAIRS)
def test_both_faces_have_the_same_names(blocking: type, awaited: type) -> None:
    missing = public(blocking) - public(awaited)
    if blocking is TaskQueue:
        # These are attributes of the object: they hold a queue each.
        assert missing >= PARTS | NOT_AWAITED.keys()
        missing -= PARTS | NOT_AWAITED.keys()
    assert missing <= LEFT_OUT.keys(), f"not to be awaited: {sorted(missing - LEFT_OUT.keys())}"
    assert public(awaited) - public(blocking) == ONLY_AWAITED.get(awaited, set())


def test_the_tables_name_what_there_is() -> None:
    names = set().union(*(public(blocking) for blocking, _ in PAIRS))
    assert NOT_AWAITED.keys() <= public(TaskQueue)
    assert LEFT_OUT.keys() <= names


def test_what_is_not_awaited_and_the_parts_are_there_too() -> None:
    queue = AsyncTaskQueue("memory://", num_workers=0)
    for name in NOT_AWAITED:
        assert getattr(queue, name) == getattr(queue.queue, name)
    for name in PARTS:
        assert (
            type(getattr(queue, name)).__name__
            == f"Async{type(getattr(queue.queue, name)).__name__}"
        )
    queue.queue.shutdown()


def signature(func: Callable[..., Any]) -> list[tuple[str, Any, Any, Any]]:
    parameters = inspect.signature(func).parameters.values()
    return [(each.name, each.kind, each.default, each.annotation) for each in parameters]


@pytest.mark.parametrize(("name", "ours", "theirs"), METHODS, ids=[each[0] for each in METHODS])
def test_both_faces_have_the_same_signatures(
    name: str, ours: Callable[..., Any], theirs: Callable[..., Any]
) -> None:
    plain = name.rpartition(".")[2] in MAKES_TASKS or "Iterator" in ours.__annotations__["return"]
    assert inspect.iscoroutinefunction(theirs) != plain
    here, there = [*get_overloads(ours), ours], [*get_overloads(theirs), theirs]
    assert [signature(each) for each in here] == [signature(each) for each in there]
    expected = [awaitable(str(each.__annotations__["return"])) for each in here]
    assert [str(each.__annotations__["return"]) for each in there] == expected


AWAITED_HERE = [
    (TaskQueue.aget, TaskQueue.get),
    (TaskQueue.aget_status, TaskQueue.get_status),
    (TaskQueue.aget_result, TaskQueue.get_result),
    (TaskQueue.aresult_of, TaskQueue.result_of),
    (TaskQueue.acancel, TaskQueue.cancel),
    (TaskQueue.ashutdown, TaskQueue.shutdown),
    (TaskQueue.asubmit, TaskQueue.submit),
    (TaskQueue.asubmit_call, TaskQueue.submit_call),
    (JobHandle.ajob, JobHandle.job),
    (JobHandle.astatus, JobHandle.status),
    (JobHandle.aresult, JobHandle.result),
    (JobHandle.await_end, JobHandle.wait),
    (JobHandle.aestimated_start, JobHandle.estimated_start),
    (JobHandle.acancel, JobHandle.cancel),
    (WorkflowRun.await_end, WorkflowRun.wait),
    (Task.asubmit, Task.submit),
    (AsyncTask.asubmit, AsyncTask.submit),
]


@pytest.mark.parametrize(("awaited", "blocking"), AWAITED_HERE)
def test_what_the_blocking_face_has_to_be_awaited(
    awaited: Callable[..., Any], blocking: Callable[..., Any]
) -> None:
    assert inspect.iscoroutinefunction(awaited)
    assert signature(awaited) == signature(blocking)
    assert awaited.__annotations__["return"] == blocking.__annotations__["return"]


def test_both_are_made_with_the_same_options() -> None:
    assert signature(TaskQueue.__init__) == signature(AsyncTaskQueue.__init__)
    assert len(METHODS) > 90, "where have the methods gone?"


def test_what_the_awaitable_face_lacked_until_it_was_derived() -> None:
    async def main() -> None:
        async with AsyncTaskQueue("memory://", num_workers=0) as queue:
            first = await queue.submit("work", job_id="one")
            second = await queue.submit("work", job_id="two")
            assert (await second.position(), await queue.position(second)) == (1, 1)
            lease = await queue.lease(wait=0)
            assert lease is not None
            await queue.requeue(lease)
            lease = await queue.lease(wait=0)
            assert lease is not None
            await queue.nack(lease, "no", requeue=False)
            assert [job.id async for job in queue.dead_letters] == [lease.job_id]
            assert await queue.dead_letters.count() == 1
            assert await queue.dead_letters.replay(task="work") == 1
            assert await queue.cancel_many(task="work", reason="enough") == 2
            assert (await queue.discard(first)).status is Status.CANCELLED
            assert (await queue.audit_log(1))[0].action == "discard"
            with pytest.raises(JobNotFoundError):
                await queue.get(first)

    asyncio.run(main())


def test_iterators_are_read_page_by_page_and_may_be_left() -> None:
    async def main() -> None:
        async with AsyncTaskQueue("memory://", num_workers=0) as queue:
            await queue.submit_many([NewJob("work", (number,)) for number in range(250)])
            assert len([job async for job in queue.search()]) == 250
            async for _ in queue.search(task="work"):
                break
            assert [setting.name async for setting in queue.settings] == [
                setting.name for setting in await queue.settings.list()
            ]

    asyncio.run(main())


def test_a_workflow_that_was_submitted_can_be_awaited() -> None:
    async def main() -> None:
        async with AsyncTaskQueue("memory://", num_workers=1) as queue:
            workflow = group(NewJob(abs, (-1,)), NewJob(abs, (-2,)), then=NewJob(min, (3, 7)))
            run = await queue.submit_workflow(workflow)
            assert list(run) == ["1", "2", "then"]
            assert await run.last.result(30) == 3
            assert {job.status for job in (await run.wait(30)).values()} == {Status.COMPLETED}
            assert set((await run.statuses()).values()) == {Status.COMPLETED}
            assert len((await run.graph()).nodes) == 3
            assert run.last == run["then"]

    asyncio.run(main())


def test_one_wait_is_for_one_job_or_for_several() -> None:
    async def main() -> None:
        async with AsyncTaskQueue("memory://", num_workers=1) as queue:
            jobs = [await queue.submit(abs, -number) for number in range(3)]
            assert (await queue.wait(jobs[0].id, 30)).id == jobs[0].id
            assert [job.id for job in await queue.wait(jobs, 30)] == [job.id for job in jobs]

    asyncio.run(main())


def double(number: int) -> int:
    return 2 * number


async def triple(number: int) -> int:
    return 3 * number


def test_the_submits_of_a_task_are_awaited() -> None:
    async def main() -> None:
        queue = AsyncTaskQueue("memory://", num_workers=1)
        doubled = queue.task(double)
        tripled = queue.task(name="triple", priority="low")(triple)
        ticking = queue.every(3600, name="tick", args=(1,))(queue.task(name="tick")(double))
        async with queue:
            job = await doubled.submit(4)
            assert isinstance(job, AsyncJobHandle)
            assert await job.result(30) == 8
            # Options stay, those of the decorator and those that are given later.
            job = await tripled.options(metadata={"a": 1}).submit(4)
            assert await job.result(30) == 12
            assert ((await job.job()).priority, (await job.job()).metadata) == (25, {"a": 1})
            assert (doubled(4), await tripled(4), ticking(4)) == (8, 12, 8)
            jobs = await queue.submit_many([doubled.job(1), tripled.job(1)])
            assert [done.result for done in await queue.wait(jobs, 30)] == [2, 3]
            assert [schedule.task for schedule in await queue.schedules.list()] == ["tick"]
            job = await queue.submit(doubled, 5)
            assert await job.result(30) == 10

    asyncio.run(main())


def test_a_task_may_be_submitted_within_a_transaction(tmp_path: Any) -> None:
    async def main() -> None:
        async with AsyncTaskQueue(tmp_path / "jobs.db", num_workers=0) as queue:
            doubled = queue.task(double)
            connection = await queue.connect()
            with connection.transaction():
                await doubled.options(connection=connection).submit(4)
                assert await queue.search(task=doubled) == []
            assert [job.task for job in await queue.search(task=doubled)] == [doubled.name]
            connection.close()

    asyncio.run(main())


def test_what_can_be_gone_through_can_be_awaited_as_a_list() -> None:
    async def main() -> None:
        async with AsyncTaskQueue("memory://", num_workers=0) as queue:
            await queue.submit_many([NewJob("work", (number,)) for number in range(250)])
            found = queue.search(task="work")
            assert len(await found) == len([job async for job in found]) == 250
            lease = await queue.lease(wait=0)
            assert lease is not None
            await queue.nack(lease, "no", requeue=False)
            assert [job.id for job in await queue.dead_letters.list()] == [lease.job_id]
            assert [job.id async for job in queue.dead_letters.list()] == [lease.job_id]
            assert await queue.archive.search() == []

    asyncio.run(main())


def test_what_belongs_to_a_transaction_stays_on_its_thread(tmp_path: Any) -> None:
    async def main() -> None:
        async with AsyncTaskQueue(tmp_path / "jobs.db", num_workers=0) as queue:
            connection = await queue.connect()
            with connection.transaction():
                await queue.submit_command(["true"], connection=connection)
                await queue.submit_workflow(group(NewJob(abs, (1,))), connection=connection)
                await queue.submit_many([NewJob(abs, (1,))], partial=True, connection=connection)
            connection.close()
            assert (await queue.get_queue_stats())["pending"] == 3

    asyncio.run(main())
