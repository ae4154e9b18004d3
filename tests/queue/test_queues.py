"""Queues with rules, as a TaskQueue's user sees them."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from leasehold import (
    AsyncTaskQueue,
    Constant,
    Delays,
    InvalidJobError,
    InvalidQueueError,
    JobFilter,
    NewJob,
    QueueClosedError,
    QueueConfig,
    QueueExistsError,
    QueueFullError,
    QueueNotEmptyError,
    QueueNotFoundError,
    QueueState,
    RateLimitedError,
    ReasonKind,
    Status,
    TaskQueue,
    Workflow,
    WorkflowRun,
    chain,
)
from leasehold.core.model.records import WorkerInfo
from leasehold.env import ManualClock

from .conftest import MakeQueue

PATIENCE = 30


def wait_until_blocked(queue: TaskQueue, rejected: int = 1) -> None:
    """Until somebody was refused and waits now: whoever waits has registered with `ready`."""
    while queue.get_queue_stats()["total_rejected"] < rejected or not queue.ready._callbacks:
        pass


# -- rules and states --------------------------------------------------------------------------


def test_rules_are_given_changed_and_read(still: TaskQueue) -> None:
    info = still.create_queue("mail", max_depth=10, retry=[1, 5])
    assert info.config == QueueConfig(max_depth=10, retry=Delays((1, 5)))
    still.update_queue("mail", max_depth=None, max_retries=2, retry=3)
    assert still.queue_config("mail") == QueueConfig(max_retries=2, retry=Constant(3))
    assert still.queues() == ["mail"]
    assert [record.action for record in still.audit_log()] == ["update_queue", "create_queue"]


def test_bad_rules_are_refused(still: TaskQueue) -> None:
    with pytest.raises(InvalidQueueError, match="max_depth"):
        still.create_queue("mail", max_depth=-1)
    with pytest.raises(InvalidQueueError, match="colour"):
        still.create_queue("mail", colour="red")  # type: ignore[call-arg]
    with pytest.raises(InvalidQueueError, match="retry"):
        still.create_queue("mail", retry="soon")
    with pytest.raises(QueueNotFoundError, match="mail"):
        still.queue_config("mail")
    still.create_queue("mail", max_depth=1)
    with pytest.raises(QueueExistsError):
        still.create_queue("mail", max_depth=2)


def test_a_program_may_create_its_queues_whatever_operators_have_changed(still: TaskQueue) -> None:
    still.create_queue("mail", max_depth=1, max_concurrency=3)
    still.update_queue("mail", max_depth=2)
    with pytest.raises(
        QueueExistsError, match=r"max_depth is 2, not 1 \(last changed by python at"
    ):
        still.create_queue("mail", max_depth=1, max_concurrency=3)
    kept = still.create_queue("mail", if_exists="keep", max_depth=1)
    assert (kept.config.max_depth, kept.config.max_concurrency) == (2, 3)
    updated = still.create_queue("mail", if_exists="update", max_depth=1)
    assert (updated.config.max_depth, updated.config.max_concurrency) == (1, None)
    changed_at = updated.changed_at
    again = still.create_queue("mail", if_exists="update", max_depth=1)
    assert again.changed_at == changed_at, "nothing was changed, and nobody is named for it"
    assert still.create_queue("new", if_exists="update", max_depth=5).config.max_depth == 5
    with pytest.raises(InvalidQueueError, match="if_exists must be 'error', 'keep' or 'update'"):
        still.create_queue("new", if_exists="replace")  # type: ignore[arg-type]


def test_a_job_gets_what_its_task_says_before_what_its_queue_says(still: TaskQueue) -> None:
    still.create_queue("mail", max_retries=9, lease_seconds=77)

    @still.task(name="careful", max_retries=1)
    def careful() -> None: ...

    own = careful.options(queue="mail").submit()
    assert (own.job().max_retries, own.job().lease_seconds) == (1, 77)
    plain = still.submit("plain", queue="mail")
    assert (plain.job().max_retries, plain.job().lease_seconds) == (9, 77)


def test_a_paused_queue_rests_and_a_resumed_one_runs(make_queue: MakeQueue) -> None:
    queue = make_queue(num_workers=1, queues="mail", poll_interval=60)
    queue.create_queue("mail")
    queue.pause_queue("mail")
    job = queue.submit(len, "four")
    assert queue.why(job).kind is ReasonKind.QUEUE_PAUSED
    assert queue.queue_info("mail").state is QueueState.PAUSED
    # Its worker polls once a minute: only being woken makes it this fast.
    queue.resume_queue("mail")
    assert job.result(timeout=PATIENCE) == 4


def test_a_draining_queue_finishes(make_queue: MakeQueue) -> None:
    queue = make_queue(num_workers=0)
    job = queue.submit("work")
    queue.drain_queue("default")
    with pytest.raises(QueueClosedError, match="'default' is draining"):
        queue.submit("work")
    with pytest.raises(QueueClosedError):
        queue.submit("work", block=True)
    lease = queue.lease(wait=0)
    assert lease is not None
    queue.ack(lease)
    assert job.status() is Status.COMPLETED


def test_purge_and_delete(still: TaskQueue) -> None:
    still.submit_many([NewJob("one", queue="q", metadata={"n": n % 2}) for n in range(2500)])
    assert still.purge_queue("q", metadata={"n": 1}) == 1250
    assert still.purge_queue("q", JobFilter(tasks=("two",))) == 0
    with pytest.raises(QueueNotEmptyError, match="1,250 waiting job"):
        still.delete_queue("q")
    assert still.delete_queue("q", force=True) == 1250
    assert still.get_queue_stats("q")["dead"] == 1250
    assert "deleted by python" in str(next(iter(still.dead_letters)).reason)


def test_clients_are_told_apart(make_queue: MakeQueue) -> None:
    queue = make_queue(num_workers=0, client="ann")
    queue.create_queue("default", client_rate_per_second=0.001)
    queue.submit("work")
    with pytest.raises(RateLimitedError, match="'ann'") as caught:
        queue.submit("work")
    assert caught.value.retry_after_seconds is not None
    assert caught.value.retry_after_seconds > 900
    queue.submit("work", client="bob")
    queue.submit_many([NewJob("work", client="cid")])
    with pytest.raises(InvalidJobError, match="client"):
        queue.submit("work", client="")


# -- waiting for room --------------------------------------------------------------------------


def test_a_blocked_submit_goes_on_when_there_is_room(make_queue: MakeQueue) -> None:
    queue = make_queue(num_workers=0)
    queue.create_queue("default", max_depth=1)
    queue.submit("first")
    handles = []
    thread = threading.Thread(target=lambda: handles.append(queue.submit("second", block=True)))
    thread.start()
    wait_until_blocked(queue)
    assert queue.lease(wait=0) is not None
    thread.join(PATIENCE)
    assert [handle.status() for handle in handles] == [Status.PENDING]
    # It looked before it tried again: no refusal was counted in between.
    assert queue.get_queue_stats()["total_rejected"] == 1


def test_blocked_submits_all_get_in_one_after_the_other(make_queue: MakeQueue) -> None:
    queue = make_queue(num_workers=1, poll_interval=60)
    queue.create_queue("default", max_depth=2)
    handles = []
    threads = [
        threading.Thread(target=lambda: handles.append(queue.submit(len, "four", block=PATIENCE)))
        for _ in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert [handle.result(timeout=PATIENCE) for handle in handles] == [4] * 20


def test_a_blocked_submit_gives_up_when_its_time_is_over(
    still: TaskQueue, clock: ManualClock
) -> None:
    still.create_queue("default", max_depth=1)
    still.submit("first")
    errors = []

    def submit() -> None:
        try:
            still.submit("second", block=3)
        except QueueFullError as error:
            errors.append(error)

    thread = threading.Thread(target=submit)
    thread.start()
    wait_until_blocked(still)
    while thread.is_alive():
        clock.advance(1)
    assert len(errors) == 1
    assert still.get_queue_stats()["pending"] == 1
    with pytest.raises(QueueFullError):
        still.submit("second", block=0)


def test_a_blocked_submit_waits_for_its_token(still: TaskQueue, clock: ManualClock) -> None:
    still.create_queue("default", rate_per_second=1)
    still.submit_many([NewJob("work"), NewJob("work")])
    thread = threading.Thread(target=lambda: still.submit("late", block=True))
    thread.start()
    wait_until_blocked(still)
    assert still.get_queue_stats()["total_submitted"] == 2
    while thread.is_alive():
        clock.advance(1)
    assert still.get_queue_stats()["total_submitted"] == 3


def test_what_never_fits_is_not_waited_for(still: TaskQueue) -> None:
    still.create_queue("default", max_depth=2)
    with pytest.raises(QueueFullError, match="do not fit"):
        still.submit_many([NewJob("work")] * 3, block=True)
    still.update_queue("default", max_depth=None, rate_per_second=1)
    with pytest.raises(RateLimitedError, match="exceed the burst"):
        still.submit_many([NewJob("work")] * 3, block=True)
    with pytest.raises(InvalidJobError, match="partial"):
        still.submit_many([NewJob("work")], partial=True, block=True)  # type: ignore[call-overload]
    with pytest.raises(InvalidJobError, match="block"):
        still.submit("work", block=-1)


def test_a_shut_down_queue_lets_nobody_wait(make_queue: MakeQueue) -> None:
    queue = make_queue(num_workers=0)
    queue.create_queue("default", max_depth=1)
    queue.submit("first")
    errors = []

    def submit() -> None:
        try:
            queue.submit("second", block=True)
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=submit)
    thread.start()
    wait_until_blocked(queue)
    queue.shutdown()
    thread.join(PATIENCE)
    assert [type(error) for error in errors] == [QueueClosedError]


def test_awaiting_room_and_everything_else(url: str) -> None:
    async def main() -> None:
        async with AsyncTaskQueue(url, num_workers=0) as queue:
            await queue.create_queue("default", max_depth=1)
            first = await queue.submit("first")
            with pytest.raises(QueueFullError):
                await queue.submit("second")
            with pytest.raises(QueueFullError):
                await queue.submit("second", block=0.01)
            waiting = asyncio.create_task(queue.submit("second", block=True))
            while (await queue.get_queue_stats())["total_rejected"] < 3:
                pass
            assert await queue.lease(wait=0) is not None
            second = await asyncio.wait_for(waiting, PATIENCE)
            assert (await queue.why(first)).kind is ReasonKind.RUNNING
            await queue.pause_queue("default")
            assert (await queue.why(second)).kind is ReasonKind.QUEUE_PAUSED
            await queue.update_queue("default", max_depth=5)
            assert (await queue.queue_config("default")).max_depth == 5
            assert (await queue.drain_queue("default")).state is QueueState.DRAINING
            assert (await queue.resume_queue("default")).state is QueueState.ACTIVE
            assert (await queue.queue_info("default")).pending == 1
            assert await queue.purge_queue("default") == 1
            assert await queue.delete_queue("default", force=True) == 0

    asyncio.run(main())


# -- why ---------------------------------------------------------------------------------------


def test_why_a_job_is_not_running(still: TaskQueue, clock: ManualClock) -> None:
    still.create_queue("default", max_concurrency=1)
    first, second = still.submit("work"), still.submit("work")
    later = still.submit("work", delay=60)
    assert still.why(first).kind is ReasonKind.NO_WORKER
    now = still.store.now()
    info = WorkerInfo(
        id="w", host="h", pid=1, queues=("default",), slots=2, started_at=now, heartbeat_at=now
    )
    life = still.store.register_worker(info)
    assert still.why(first).kind is ReasonKind.NEXT
    assert still.why(second).details == {"position": 1}
    assert "in 1m" in still.why(later).text
    lease = still.lease(worker="w", wait=0)
    assert lease is not None
    running = still.why(first)
    assert (running.kind, running.details["worker"]) == (ReasonKind.RUNNING, "w")
    assert still.why(second).kind is ReasonKind.LIMIT_REACHED
    still.ack(lease)
    assert still.why(first).kind is ReasonKind.ENDED
    life.close()


# -- workers -----------------------------------------------------------------------------------


def test_workers_on_two_stores_share_one_slot_and_wake_each_other(tmp_path: Path) -> None:
    """Neither polls for a minute: each is woken when the other's job has ended."""
    lock = threading.Lock()
    at_once = most = 0

    def work() -> None:
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        with lock:
            at_once -= 1

    options: dict[str, Any] = {"num_workers": 2, "poll_interval": 60}
    with TaskQueue(tmp_path / "jobs.db", **options) as one:
        one.create_queue("default", max_concurrency=1)
        with TaskQueue(tmp_path / "jobs.db", **options) as two:
            for queue in (one, two):
                queue.task(name="work")(work)
            one.wait(one.submit_many([NewJob("work")] * 60), timeout=PATIENCE)
            assert one.queue_info("default").running == 0
    assert most == 1


def steps(count: int) -> Workflow:
    return chain(*(NewJob("step", (number,), queue="q") for number in range(count)))


def test_a_long_chain_needs_room_for_its_first_step_only(still: TaskQueue) -> None:
    still.create_queue("q", max_depth=100)
    still.submit_workflow(steps(120))
    info = still.queue_info("q")
    assert (info.pending, info.counts[Status.BLOCKED]) == (1, 119)


def test_a_long_chain_waits_for_room(make_queue: MakeQueue) -> None:
    queue = make_queue(num_workers=0)
    queue.create_queue("q", max_depth=1)
    queue.submit("fills", queue="q")
    with pytest.raises(QueueFullError) as full:
        queue.submit_workflow(steps(3))
    assert full.value.retry_after_seconds is not None
    runs: list[WorkflowRun] = []
    thread = threading.Thread(
        target=lambda: runs.append(queue.submit_workflow(steps(3), block=True))
    )
    thread.start()
    wait_until_blocked(queue, rejected=4)
    assert queue.lease("q", wait=0) is not None
    thread.join(PATIENCE)
    assert [len(run) for run in runs] == [3]


def test_a_long_chain_waits_for_room_without_a_thread(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with AsyncTaskQueue(str(tmp_path / "jobs.db"), num_workers=0) as queue:
            await queue.create_queue("q", max_depth=1)
            await queue.submit("fills", queue="q")
            submitting = asyncio.create_task(queue.submit_workflow(steps(3), block=PATIENCE))
            await asyncio.to_thread(wait_until_blocked, queue.queue, 3)
            assert await queue.lease("q", wait=0) is not None
            assert list(await submitting) == ["1", "2", "3"]

    asyncio.run(scenario())


def test_only_the_queue_that_is_full_is_waited_for(make_queue: MakeQueue) -> None:
    """Jobs that wait for others may go into another queue however full that is."""
    queue = make_queue(num_workers=0)
    for name in ("first", "second"):
        queue.create_queue(name, max_depth=1)
        queue.submit("fills", queue=name)
    both = chain(NewJob("step", queue="first"), NewJob("step", queue="second"))
    thread = threading.Thread(target=lambda: queue.submit_workflow(both, block=True))
    thread.start()
    wait_until_blocked(queue, rejected=2)
    assert queue.lease("first", wait=0) is not None
    thread.join(PATIENCE)
    assert not thread.is_alive()
