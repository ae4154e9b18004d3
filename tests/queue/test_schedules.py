"""Recurring jobs as an application sees them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection
from datetime import timedelta
from typing import Any, assert_type

import pytest

from leasehold import (
    AsyncTask,
    AsyncTaskQueue,
    Cron,
    Every,
    InvalidJobError,
    InvalidScheduleError,
    QueueClosedError,
    Schedule,
    ScheduleNotFoundError,
    Task,
    TaskQueue,
    current_job,
)
from leasehold.env import ManualClock
from leasehold.testing import drain, memory_queue

WAIT = 30


def greet(name: str = "Ada", *, loud: bool = False) -> str:
    return name.upper() if loud else name


class Fired:
    """Waits until a schedule has fired so often, woken by the store's hints."""

    def __init__(self, queue: TaskQueue) -> None:
        self._queue = queue
        self._heard = threading.Condition()
        queue.store.subscribe(self)

    def wait_for(self, name: str, condition: Callable[[Schedule], bool]) -> Schedule:
        with self._heard:
            assert self._heard.wait_for(lambda: condition(self._queue.schedules.get(name)), WAIT)
        return self._queue.schedules.get(name)

    def on_ready(self) -> None:
        with self._heard:
            self._heard.notify_all()

    def on_ended(self, job_ids: Collection[str] | None) -> None:
        self.on_ready()

    def on_cancel_requested(self, job_ids: Collection[str] | None) -> None:
        """Of no interest here."""


def test_a_schedule_runs_at_every_tick(still: TaskQueue, clock: ManualClock) -> None:
    still.schedule("hello", greet, Every(60), ["Bob"], {"loud": True}, priority="high")
    assert drain(still).completed == 0
    for _ in range(3):
        clock.advance(60)
        assert drain(still).completed == 1
    jobs = list(still.search(metadata={"schedule": "hello"}))
    assert [still.get_result(job) for job in jobs] == ["BOB"] * 3
    assert {job.priority for job in jobs} == {75}
    schedule = still.schedules.get("hello")
    assert (schedule.fired, schedule.last_job_id) == (3, jobs[0].id)
    assert (schedule.queue, schedule.task, schedule.timing) == (
        "default",
        jobs[0].task,
        Every(60),
    )


def test_a_task_may_ask_for_its_tick(still: TaskQueue, clock: ManualClock) -> None:
    seen: list[Any] = []

    @still.cron("0 3 * * *", zone="Europe/Berlin", name="nightly")
    @still.task(name="report", max_retries=0)
    def report() -> None:
        seen.append(current_job().metadata["tick"])

    clock.advance(24 * 3600)
    drain(still)
    assert seen == ["2030-01-01T02:00:00Z"]
    assert [job.max_retries for job in still.search(task="report")] == [0]


def test_declaring_again_at_every_start_changes_nothing(still: TaskQueue) -> None:
    def declare() -> None:
        @still.every(timedelta(minutes=5), overlap="skip", misfire="skip", grace_seconds=10)
        @still.task(name="tidy")
        def tidy() -> None: ...

    declare()
    [first] = still.schedules.list()
    declare()
    assert still.schedules.list() == [first]
    assert len(still.audit_log()) == 1
    assert (first.name, first.timing) == ("tidy", Every(300))
    assert (first.draft.overlap, first.draft.misfire, first.draft.grace_seconds) == (
        "skip",
        "skip",
        10,
    )


def test_decorators_keep_the_functions_types() -> None:
    queue = memory_queue()

    plain = queue.every(60)(greet)

    @queue.cron("@daily")
    @queue.task(name="awaited")
    async def awaited() -> int:
        return 1

    assert_type(plain("Bob", loud=True), str)
    assert_type(plain.submit().id, str)
    assert_type(awaited, AsyncTask[[], int])
    assert isinstance(plain, Task)
    assert plain("Bob", loud=True) == "BOB"
    assert len(queue.schedules) == 2


def test_people_look_at_pause_resume_run_and_remove(still: TaskQueue, clock: ManualClock) -> None:
    still.schedule("a", greet, Every(60))
    still.schedule("b", "far:away", Cron("@hourly"), queue="elsewhere", metadata={"tenant": "x"})
    assert [schedule.name for schedule in still.schedules] == ["a", "b"]
    assert still.schedules.pause("a").paused
    clock.advance(60)
    assert drain(still).attempts == 0
    handle = still.schedules.run("a")
    assert drain(still).completed == 1
    assert handle.result(timeout=0) == "Ada"
    assert not still.schedules.resume("a").paused
    clock.advance(60)
    assert drain(still).completed == 1
    assert still.schedules.remove("a").fired == 1
    with pytest.raises(ScheduleNotFoundError, match="'a'"):
        still.schedules.get("a")
    actions = [record.action for record in still.audit_log()][::-1]
    assert actions == [
        "set_schedule", "set_schedule", "pause_schedule", "run_schedule", "resume_schedule",
        "remove_schedule",
    ]  # fmt: skip


def test_bad_schedules_are_refused_and_leave_nothing(still: TaskQueue) -> None:
    with pytest.raises(InvalidScheduleError, match="minute"):
        still.cron("99 * * * *")
    with pytest.raises(InvalidScheduleError, match="Mars"):
        still.cron("* * * * *", zone="Mars")
    with pytest.raises(InvalidScheduleError, match="interval"):
        still.every(-5)
    with pytest.raises(InvalidScheduleError, match="Cron"):
        still.schedule("x", greet, "* * * * *")  # type: ignore[arg-type]
    with pytest.raises(InvalidScheduleError, match="job_id"):
        still.schedule("x", greet, Every(60), job_id="mine")  # type: ignore[call-arg]
    with pytest.raises(InvalidScheduleError, match="run_at"):
        still.schedule("x", greet, Every(60), run_at=still.store.now())  # type: ignore[call-arg]
    with pytest.raises(InvalidScheduleError, match="misfire"):
        still.schedule("x", greet, Every(60), misfire="never")  # type: ignore[arg-type]
    with pytest.raises(InvalidJobError, match="unknown option"):
        still.schedule("x", greet, Every(60), colour="red")  # type: ignore[call-arg]
    with pytest.raises(InvalidJobError):
        still.schedule("x", greet, Every(60), ["too", "many", "arguments"])
    assert still.schedules.list() == []


def test_a_queue_that_was_shut_down_takes_no_schedule() -> None:
    queue = memory_queue()
    queue.shutdown()
    with pytest.raises(QueueClosedError):
        queue.schedule("x", greet, Every(60))
    with pytest.raises(QueueClosedError):
        queue.every(60)(greet)


def test_workers_fire_by_themselves(queue: TaskQueue) -> None:
    fired = Fired(queue)
    queue.schedule("often", greet, Every(0.1))
    schedule = fired.wait_for("often", lambda seen: seen.fired >= 3)
    assert schedule.last_job_id is not None
    assert queue.get_result(schedule.last_job_id, timeout=WAIT) == "Ada"
    queue.schedules.remove("often")
    ticks = [str((job.metadata or {})["tick"]) for job in queue.search()]
    assert len(set(ticks)) == len(ticks)


def test_a_worker_without_a_free_slot_fires_too(make_queue: Callable[..., TaskQueue]) -> None:
    queue = make_queue(num_workers=1)
    begun, go_on = threading.Event(), threading.Event()

    @queue.task(name="block")
    def block() -> None:
        begun.set()
        go_on.wait(WAIT)

    fired = Fired(queue)
    # Known to the worker before its only slot is taken.
    queue.schedule("often", greet, Every(0.2))
    fired.wait_for("often", lambda seen: seen.fired >= 1)
    job = block.submit()
    assert begun.wait(WAIT)
    before = queue.schedules.get("often").fired
    fired.wait_for("often", lambda seen: seen.fired >= before + 2)
    assert not job.job().is_terminal
    go_on.set()
    job.result(timeout=WAIT)


def test_everything_can_be_awaited() -> None:
    async def main() -> None:
        async with AsyncTaskQueue("memory://", num_workers=1) as queue:
            await queue.schedule("a", greet, Every(3600), kwargs={"name": "Eve"})
            assert (await queue.schedules.get("a")).name == "a"
            assert (await queue.schedules.pause("a")).paused
            assert not (await queue.schedules.resume("a")).paused
            handle = await queue.schedules.run("a")
            assert await handle.result(timeout=WAIT) == "Eve"
            await queue.schedules.remove("a")
            assert await queue.schedules.list() == []

    asyncio.run(main())
