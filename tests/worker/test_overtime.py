"""Timeouts while the worker's loop waits for the store; see `leasehold.worker.overtime`."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from leasehold import TaskQueue, current_job
from leasehold.core.model.status import Status
from leasehold.env import SYSTEM
from leasehold.stores.memory import MemoryStore
from leasehold.worker.inhand import InHand
from leasehold.worker.overtime import Overtime
from leasehold.worker.prefetch import Prefetch
from support.child_tasks import add
from support.runs import call_run

WAIT = 30.0


async def until_set(begun: asyncio.Event) -> None:
    """On a machine that is very busy the other job may be over before it has begun."""
    with suppress(TimeoutError):
        await asyncio.wait_for(begun.wait(), 2.0)


def test_an_attempt_times_out_while_the_loop_waits_for_the_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stopped = threading.Event()
    waited: list[bool] = []
    exchange = MemoryStore.exchange

    def slow_exchange(store: MemoryStore, settlements: Any = (), *args: Any, **kwargs: Any) -> Any:
        if settlements and not waited:  # The end of `quick`: the loop waits, until `slow` is over.
            waited.append(stopped.wait(WAIT))
        return exchange(store, settlements, *args, **kwargs)

    monkeypatch.setattr(MemoryStore, "exchange", slow_exchange)
    with TaskQueue("memory://", num_workers=2) as queue:
        begun = asyncio.Event()

        @queue.task(name="slow", timeout_seconds=0.5, max_retries=0)
        async def slow() -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                stopped.set()

        @queue.task(name="quick")
        async def quick() -> None:
            await until_set(begun)

        slow_job, quick_job = slow.submit(), quick.submit()
        quick_job.result(timeout=WAIT)
        ended = slow_job.wait(timeout=WAIT)

    assert waited == [True]
    assert ended.status is Status.DEAD
    assert ended.error is not None
    assert ended.error.type == "JobTimeoutError"


def test_a_transaction_that_keeps_its_own_loop_waiting_is_rolled_back_in_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with TaskQueue(tmp_path / "jobs.db", num_workers=2) as queue:
        with queue.connect() as connection:
            connection.execute("CREATE TABLE app (x TEXT)")
        begun = asyncio.Event()

        @queue.task(name="hold", timeout_seconds=0.5, max_retries=0)
        async def hold() -> None:
            async with current_job().transaction() as own:
                own.execute("INSERT INTO app VALUES ('too late')")
                begun.set()
                await asyncio.Event().wait()

        @queue.task(name="quick")
        async def quick() -> None:
            await until_set(begun)

        hold_job, quick_job = hold.submit(), quick.submit()
        quick_job.result(timeout=WAIT)
        ended = hold_job.wait(timeout=WAIT)
        assert ended.error is not None
        assert ended.error.type == "JobTimeoutError"
        connection = queue.connect()
        assert list(connection.execute("SELECT x FROM app")) == []
        connection.close()
    # A loop that has waited in vain says so; here there is only the line about the job.
    [told] = [each.getMessage() for each in caplog.records if each.name == "leasehold.worker"]
    assert told.startswith(f"job {hold_job.id}")


def test_an_error_while_an_attempt_is_stopped_does_not_end_the_watch(
    caplog: pytest.LogCaptureFixture,
) -> None:
    looks: list[float] = []
    again = threading.Event()

    def stop_what_timed_out(now: float) -> None:
        looks.append(now)
        if len(looks) == 1:
            raise RuntimeError("no such process")
        again.set()

    # As of an attempt that nothing ends, whose time was up long ago.
    overtime = Overtime("me", stop_what_timed_out, lambda _: 0.0, SYSTEM.clock)
    overtime.is_on = True
    with overtime.turn:
        overtime.expect(SYSTEM.clock.monotonic())
    assert again.wait(WAIT)
    overtime.stop()
    assert "no such process" in caplog.text
    assert overtime._looks_at > looks[-1]


def test_an_attempt_that_completes_its_own_job_is_not_waited_for() -> None:
    """Nobody can end it any more: a worker that looked at its timeout would look all the time."""
    run = call_run(add, 1, 2, timeout_seconds=5.0).run
    in_hand = InHand(Prefetch(1))
    in_hand.add_all([run], run.task)
    run.started = 0.0
    assert (in_hand.timed_out(5.0), in_hand.next_moment(5.0)) == ([run], 5.0)
    assert run.claim()
    assert (in_hand.timed_out(5.0), in_hand.next_moment(5.0)) == ([], float("inf"))


def test_an_attempt_that_is_out_of_time_cannot_commit_though_the_loop_is_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leasehold.worker.inhand.InHand.timed_out", lambda *_: [])
    with TaskQueue(tmp_path / "jobs.db", num_workers=1) as queue:
        with queue.connect() as connection:
            connection.execute("CREATE TABLE app (x TEXT)")

        @queue.task(name="late", timeout_seconds=0.05, max_retries=0)
        def late() -> None:
            with current_job().transaction() as own:
                own.execute("INSERT INTO app VALUES ('too late')")
                threading.Event().wait(0.1)

        ended = late.submit().wait(timeout=WAIT)
        assert ended.error is not None
        assert ended.error.type == "JobTimeoutError"
        connection = queue.connect()
        assert list(connection.execute("SELECT x FROM app")) == []
        connection.close()
