"""Workflows on every store: drawing, running, reading results, cancelling and replaying."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from leasehold import (
    AsyncTaskQueue,
    CycleError,
    InvalidJobError,
    InvalidTransitionError,
    JobCancelledError,
    JobFailedError,
    JobNotFoundError,
    NewJob,
    Status,
    TaskQueue,
    UnknownDependencyError,
    Workflow,
    chain,
    current_job,
    group,
)
from leasehold.core.model.lease import Lease, Settlement
from leasehold.core.model.outcome import Complete
from leasehold.testing import drain

WAIT = 30


@dataclass
class Size:
    width: int
    height: int


def number(value: int) -> int:
    return value


def total() -> int:
    return sum(current_job().dependency_results().values())


def add(value: int) -> int:
    [before] = current_job().dependency_results().values()
    return int(before) + value


def measure(width: int, height: int) -> Size:
    return Size(width, height)


def areas() -> list[int]:
    sizes = current_job().dependency_results(Size).values()
    return [size.width * size.height for size in sizes]


def fail() -> None:
    raise ValueError("no such thing")


async def total_later() -> int:
    await asyncio.sleep(0)
    return total()


def statuses(queue: TaskQueue, *jobs: Any) -> list[str]:
    return [queue.get_status(job).value for job in jobs]


def test_a_job_waits_for_another(queue: TaskQueue) -> None:
    first = queue.submit(number, 3)
    second = queue.submit(number, 4)
    last = queue.submit(total, depends_on=[first, second.id])
    assert last.result(WAIT) == 7
    assert last.job().depends_on == (first.id, second.id)
    assert queue.dependency_results(last) == {first.id: 3, second.id: 4}
    assert queue.submit(add, 1, depends_on=last).result(WAIT) == 8


def test_a_chain(queue: TaskQueue) -> None:
    run = queue.submit_workflow(chain(NewJob(number, (1,)), NewJob(add, (10,)), NewJob(add, (5,))))
    assert run.last.result(WAIT) == 16
    assert list(run) == ["1", "2", "3"]
    assert [handle.id for handle in run.values()] == [f"{run.id}:{n}" for n in (1, 2, 3)]
    assert {job.parent_id for job in queue.search(parent_id=run.id)} == {run.id}


def test_a_group_with_a_callback_of_each_kind(queue: TaskQueue) -> None:
    numbers = [NewJob(number, (value,)) for value in range(5)]
    assert queue.submit_workflow(group(*numbers, then=NewJob(total))).last.result(WAIT) == 10
    assert queue.submit_workflow(group(*numbers, then=NewJob(total_later))).last.result(WAIT) == 10
    assert "then" not in queue.submit_workflow(group(*numbers))


def test_a_callback_in_a_child_process(queue: TaskQueue) -> None:
    task = queue.task(executor="process")(total)
    many = [NewJob(number, (value,)) for value in range(3)]
    assert queue.submit_workflow(group(*many, then=task.job())).last.result(WAIT) == 3
    assert task.submit().result(WAIT) == 0


def test_results_as_what_they_were(queue: TaskQueue) -> None:
    sizes = [NewJob(measure, (2, 3)), NewJob(measure, (4, 5))]
    run = queue.submit_workflow(group(*sizes, then=NewJob(areas)))
    assert run.last.result(WAIT) == [6, 20]
    assert queue.dependency_results(run.last) == {
        run["1"].id: Size(2, 3),
        run["2"].id: Size(4, 5),
    }


def test_any_graph(queue: TaskQueue) -> None:
    workflow = Workflow("order-7")
    # Named before it is there: the order in which one draws does not matter.
    workflow.add("ship", NewJob(total), after=["pay", "pack"])
    workflow.add("pay", NewJob(add, (1,)), after="start")
    workflow.add("pack", NewJob(add, (2,)), after=["start"])
    workflow.add("start", queue.task(number).options(job_id="my-own").job(10))
    run = queue.submit_workflow(workflow)
    ended = run.wait(WAIT)
    assert ended["ship"].result == 23
    assert (run.id, run["start"].id, run["ship"].id) == ("order-7", "my-own", "order-7:ship")
    assert run.statuses() == dict.fromkeys(workflow.nodes, Status.COMPLETED)
    assert set(run.graph().edges) == {
        ("my-own", "order-7:pay"), ("my-own", "order-7:pack"),
        ("order-7:pay", "order-7:ship"), ("order-7:pack", "order-7:ship"),
    }  # fmt: skip


def test_what_cannot_be_a_workflow(still: TaskQueue) -> None:
    job = NewJob(number, (1,))
    with pytest.raises(InvalidJobError, match="no jobs"):
        still.submit_workflow(Workflow())
    workflow = Workflow()
    workflow.add("a", job, after="b")
    with pytest.raises(InvalidJobError, match="'a' comes after 'b'"):
        still.submit_workflow(workflow)
    workflow.add("b", job, after="a")
    with pytest.raises(CycleError, match=r":a -> .*:b -> "):
        still.submit_workflow(workflow)
    with pytest.raises(InvalidJobError, match="already"):
        workflow.add("a", job)
    with pytest.raises(InvalidJobError, match="parent_id"):
        still.submit_workflow(chain(NewJob(number, (1,), parent_id="other")))
    with pytest.raises(UnknownDependencyError, match="nobody"):
        still.submit_workflow(chain(job, NewJob(number, (1,), depends_on="nobody")))
    assert list(still.search()) == []
    with pytest.raises(
        InvalidJobError, match=r"take task\.job.*, not a job that is already submit"
    ):
        group(still.submit(number, 1))  # type: ignore[arg-type]


def test_ten_thousand_and_a_callback(still: TaskQueue) -> None:
    jobs = [NewJob("work", (value,)) for value in range(10_000)]
    run = still.submit_workflow(group(*jobs, then=NewJob("collect")))
    assert len(run) == 10_001
    assert still.get_queue_stats()["blocked"] == 1
    done = 0
    while leases := still.lease_many(1000, wait=0):
        for lease in leases:
            if lease.task == "collect":
                assert done == 10_000
                assert list(still.dependency_results(lease.job_id).values()) == [*range(10_000)]
        _ack(still, leases)
        done += len(leases)
    assert done == 10_001


def _ack(queue: TaskQueue, leases: list[Lease]) -> None:
    settlements = [
        Settlement(
            lease.job_id,
            lease.version,
            Complete(str(queue.arguments(lease)[0][0]).encode() if lease.task == "work" else None),
        )
        for lease in leases
    ]
    queue.store.exchange(settlements)


def test_a_whole_graph_is_cancelled(still: TaskQueue) -> None:
    ignoring = NewJob("c", on_dependency_failure="ignore")
    run = still.submit_workflow(chain(NewJob("a"), NewJob("b"), ignoring))
    behind = still.submit("d", depends_on=run.last)
    assert run.cancel("enough") == 3
    # What is not of the workflow is left to its own policy.
    assert statuses(still, *run.values(), behind) == ["cancelled"] * 4
    assert run.last.job().reason == "enough"
    assert behind.job().reason == f"dependency {run.last.id} was cancelled: enough"
    other = still.submit_workflow(chain(NewJob("a"), ignoring))
    assert still.cancel_graph(other["2"], reason="enough") == 2
    assert still.cancel_graph(other["2"]) == 0
    assert still.lease(wait=0) is None


def test_replayed_from_the_failed_node(still: TaskQueue) -> None:
    workflow = Workflow()
    for name, after in [("a", []), ("b", ["a"]), ("c", ["b"]), ("d", ["c", "a"]), ("x", ["a"])]:
        workflow.add(name, NewJob(name), after=after)
    run = still.submit_workflow(workflow)
    a = still.lease(wait=0)
    assert a is not None
    still.ack(a)
    b = still.lease(tasks=["b"], wait=0)
    assert b is not None
    still.nack(b, "broken", requeue=False)
    names = ["a", "b", "c", "d", "x"]
    assert [run.statuses()[name].value for name in names] == [
        "completed", "dead", "cancelled", "cancelled", "pending",
    ]  # fmt: skip
    with pytest.raises(InvalidTransitionError, match=r"dependency .* is dead"):
        still.replay(run["c"])
    # Whichever of those that were brought down is named, the first one is found.
    assert still.replay_graph(run["d"]) == 3
    assert [run.statuses()[name].value for name in names] == [
        "completed", "pending", "blocked", "blocked", "pending",
    ]  # fmt: skip
    with pytest.raises(InvalidTransitionError, match="none of these 5 jobs is dead or cancelled"):
        run.replay()
    while lease := still.lease(wait=0):
        still.ack(lease)
    assert set(run.statuses().values()) == {Status.COMPLETED}


def test_a_workflow_is_replayed(queue: TaskQueue) -> None:
    run = queue.submit_workflow(
        chain(NewJob(fail), NewJob(number, (1,), on_dependency_failure="fail"))
    )
    run.wait(WAIT)
    with pytest.raises(JobFailedError, match="no such thing"):
        run["1"].result()
    with pytest.raises(JobFailedError, match=r"dependency .*:1 is dead: ValueError: no such thing"):
        run["2"].result()
    assert run.replay() == 2
    run.wait(WAIT)
    assert len(queue.dead_letters) == 2
    # All dead letters in one call, the last submitted first: dependencies are replayed first.
    assert queue.dead_letters.replay() == 2


def test_a_cancelled_dependent_says_why(queue: TaskQueue) -> None:
    run = queue.submit_workflow(chain(NewJob(fail), NewJob(number, (1,))))
    with pytest.raises(JobCancelledError, match=r"dependency .* is dead"):
        run.last.result(WAIT)


def test_an_ignored_failure_leaves_no_result(queue: TaskQueue) -> None:
    jobs = [NewJob(fail), NewJob(number, (5,))]
    run = queue.submit_workflow(group(*jobs, then=NewJob(total, on_dependency_failure="ignore")))
    assert run.last.result(WAIT) == 5


def test_unknown_jobs(still: TaskQueue) -> None:
    for ask in (still.graph, still.cancel_graph, still.replay_graph, still.dependency_results):
        with pytest.raises(JobNotFoundError, match="nobody"):
            ask("nobody")


def test_a_needed_job_cannot_be_discarded(still: TaskQueue) -> None:
    first = still.submit("a")
    last = still.submit("b", depends_on=first)
    lease = still.lease(wait=0)
    assert lease is not None
    still.ack(lease)
    with pytest.raises(InvalidTransitionError, match=f"job {last.id}, which has not ended"):
        still.discard(first)


def test_delay_counts_from_the_submit(still: TaskQueue, clock: Any) -> None:
    first = still.submit("a")
    last = still.submit("b", depends_on=first, delay=60)
    lease = still.lease(wait=0)
    assert lease is not None
    still.ack(lease)
    assert last.status() is Status.SCHEDULED
    clock.advance(60)
    assert still.lease(wait=0) is not None


def test_a_still_queue_is_drained_with_its_workflows(still: TaskQueue) -> None:
    still._tasks.runs_here = True
    run = still.submit_workflow(
        group(*(NewJob(number, (n,)) for n in range(3)), then=NewJob(total))
    )
    assert drain(still).completed == 4
    assert run.last.result(0) == 3


def test_to_be_awaited(url: str) -> None:
    async def main() -> None:
        async with AsyncTaskQueue(url, num_workers=2) as queue:
            first = await queue.submit(number, 2)
            second = await queue.submit(add, 3, depends_on=first.id)
            assert await second.result(WAIT) == 5
            assert await queue.dependency_results(second.id) == {first.id: 2}
            run = await queue.submit_workflow(chain(NewJob(fail), NewJob(number, (1,))))
            await run["2"].wait(WAIT)
            assert len((await queue.graph(run["1"].id)).nodes) == 2
            assert await queue.replay_graph(run["2"].id) == 2
            await run["2"].wait(WAIT)
            assert await queue.cancel_graph(run["2"].id) == 0

    asyncio.run(main())


def test_others_refused_submits_are_not_ones_dependencies(url: str) -> None:
    """Coroutines share a write, not each other's drafts."""

    async def main() -> None:
        async with AsyncTaskQueue(url, num_workers=0) as queue:
            await queue.submit("a", job_id="taken")
            answers = await asyncio.gather(
                *(queue.submit("a", job_id="taken") for _ in range(5)),
                *(queue.submit("b", depends_on="taken") for _ in range(5)),
                return_exceptions=True,
            )
            assert sum(isinstance(answer, BaseException) for answer in answers) == 5

    asyncio.run(main())
