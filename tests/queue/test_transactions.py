"""Submitting in the application's own transaction, through every door there is."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from leasehold import (
    AsyncTaskQueue,
    Connection,
    InvalidJobError,
    JobNotFoundError,
    NewJob,
    QueueClosedError,
    QueueFullError,
    Status,
    TaskQueue,
    TransactionError,
    UnsupportedError,
    chain,
)

WAIT = 30


class UndoneError(Exception):
    """Raised to have a transaction rolled back."""


def double(number: int) -> int:
    return 2 * number


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[TaskQueue]:
    queue = TaskQueue(tmp_path / "jobs.db", num_workers=0)
    yield queue
    queue.shutdown()


@pytest.fixture
def connection(queue: TaskQueue) -> Iterator[Connection]:
    connection = queue.connect()
    connection.execute("CREATE TABLE app_order (id)")
    yield connection
    connection.close()


def submit(queue: TaskQueue, connection: Connection) -> list[str]:
    return [queue.submit("double", 1, connection=connection).id]


def submit_many(queue: TaskQueue, connection: Connection) -> list[str]:
    jobs = [NewJob("double", (number,)) for number in range(3)]
    return [job.id for job in queue.submit_many(jobs, connection=connection)]


def submit_partly(queue: TaskQueue, connection: Connection) -> list[str]:
    jobs = [NewJob("double", (1,), job_id="one"), NewJob("double", priority=1000)]
    good, bad = queue.submit_many(jobs, partial=True, connection=connection)
    assert isinstance(bad, InvalidJobError)
    assert not isinstance(good, Exception)
    return [good.id]


def submit_task(queue: TaskQueue, connection: Connection) -> list[str]:
    task = queue.task(name="double")(double)
    return [task.options(connection=connection).options(priority="high").submit(1).id]


def submit_workflow(queue: TaskQueue, connection: Connection) -> list[str]:
    workflow = chain(NewJob("double", (1,)), NewJob("double", (2,)))
    return [job.id for job in queue.submit_workflow(workflow, connection=connection).values()]


def submit_command(queue: TaskQueue, connection: Connection) -> list[str]:
    return [queue.submit_command(["true"], connection=connection).id]


def asubmit(queue: TaskQueue, connection: Connection) -> list[str]:
    return [asyncio.run(queue.asubmit("double", 1, connection=connection)).id]


def asubmit_many(queue: TaskQueue, connection: Connection) -> list[str]:
    jobs = [NewJob("double", (1,))]
    return [job.id for job in asyncio.run(queue.asubmit_many(jobs, connection=connection))]


DOORS = [
    submit,
    submit_many,
    submit_partly,
    submit_task,
    submit_workflow,
    submit_command,
    asubmit,
    asubmit_many,
]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("commits", [True, False])
def test_order_and_job_are_both_there_or_neither(
    queue: TaskQueue,
    connection: Connection,
    door: Callable[[TaskQueue, Connection], list[str]],
    commits: bool,
) -> None:
    with suppress(UndoneError), connection.transaction():
        connection.execute("INSERT INTO app_order VALUES (1)")
        job_ids = door(queue, connection)
        for job_id in job_ids:
            with pytest.raises(JobNotFoundError):
                queue.get_status(job_id)
        if not commits:
            raise UndoneError
    assert {job.id for job in queue.search()} == (set(job_ids) if commits else set())
    assert connection.execute("SELECT count(*) FROM app_order").fetchone() == (int(commits),)


def test_workers_are_woken_by_the_commit(tmp_path: Path) -> None:
    # The slow poll would come too late for the test: only the wake-up can explain the result.
    with TaskQueue(tmp_path / "jobs.db", num_workers=1, poll_interval=3600) as queue:
        task = queue.task(name="double")(double)
        connection = queue.connect()
        for number in range(5):
            with connection.transaction():
                job = task.options(connection=connection).submit(number)
            assert job.result(WAIT) == 2 * number
        connection.close()


def test_the_first_submit_in_a_transaction_finds_workers_started(tmp_path: Path) -> None:
    queue = TaskQueue(tmp_path / "jobs.db", num_workers=1)
    connection = queue.connect()
    with connection.transaction():
        job = queue.submit(double, 4, connection=connection)
    assert job.result(WAIT) == 8
    connection.close()
    queue.shutdown()


def test_the_async_queue(tmp_path: Path) -> None:
    async def main() -> None:
        async with AsyncTaskQueue(tmp_path / "jobs.db", num_workers=1) as queue:
            connection = await queue.connect()
            with connection.transaction():
                one = await queue.submit(double, 1, connection=connection)
                [two] = await queue.submit_many([NewJob(double, (2,))], connection=connection)
                graph = await queue.submit_workflow(
                    chain(NewJob(double, (3,))), connection=connection
                )
            assert await one.result(WAIT) == 2
            assert await two.result(WAIT) == 4
            assert await graph["1"].result(WAIT) == 6
            connection.close()

    asyncio.run(main())


def test_idempotency_within_the_transaction(queue: TaskQueue, connection: Connection) -> None:
    with connection.transaction():
        jobs = [
            queue.submit("double", 1, idempotency_key="k", connection=connection) for _ in range(2)
        ]
    assert [job.is_duplicate for job in jobs] == [False, True]
    assert jobs[0].id == jobs[1].id


def test_a_full_queue_is_told_and_not_waited_for(queue: TaskQueue, connection: Connection) -> None:
    queue.create_queue("narrow", max_depth=1)
    with connection.transaction():
        queue.submit("double", 1, queue="narrow", connection=connection)
        with pytest.raises(QueueFullError):
            queue.submit("double", 2, queue="narrow", connection=connection)
        with pytest.raises(TransactionError, match="none can make room"):
            queue.submit("double", 2, queue="narrow", connection=connection, block=True)
        with pytest.raises(TransactionError, match="none can make room"):
            queue.submit_many([NewJob("double", (2,))], connection=connection, block=1)
        with pytest.raises(TransactionError, match="none can make room"):
            asyncio.run(queue.asubmit("double", 2, connection=connection, block=True))
        jobs = [NewJob("double", (2,))]
        with pytest.raises(TransactionError, match="none can make room"):
            asyncio.run(queue.asubmit_many(jobs, connection=connection, block=5))
    assert queue.get_queue_stats("narrow")["pending"] == 1


def test_what_cannot_carry_a_job(queue: TaskQueue, connection: Connection, tmp_path: Path) -> None:
    foreign: Any = sqlite3.connect(":memory:")
    with pytest.raises(TransactionError, match="standard library"):
        queue.submit("double", 1, connection=foreign)
    foreign.close()
    with pytest.raises(TransactionError, match="no open transaction"):
        queue.submit("double", 1, connection=connection)
    other = TaskQueue(tmp_path / "other.db", num_workers=0)
    with connection.transaction(), pytest.raises(TransactionError, match=r"other\.db"):
        other.submit("double", 1, connection=connection)
    other.shutdown()
    task = queue.task(name="double")(double)
    with pytest.raises(InvalidJobError, match="submit_many"):
        task.options(connection=connection).job(1)
    with pytest.raises(InvalidJobError, match="unknown option"):
        queue.submit_many([NewJob("double", connection=connection)])  # type: ignore[call-arg]
    assert list(queue.search()) == []


def test_a_store_in_memory_has_none() -> None:
    queue = TaskQueue("memory://", num_workers=0)
    with pytest.raises(UnsupportedError, match="use a SQLite file"):
        queue.connect()
    anything: Any = object()
    with pytest.raises(UnsupportedError, match="use a SQLite file"):
        queue.submit("double", 1, connection=anything)
    queue.shutdown()


def test_a_queue_that_was_shut_down(tmp_path: Path) -> None:
    queue = TaskQueue(tmp_path / "jobs.db", num_workers=0)
    connection = queue.connect()
    with connection.transaction():
        queue.shutdown()
        with pytest.raises(QueueClosedError):
            queue.submit("double", 1, connection=connection)
    with pytest.raises(QueueClosedError):
        queue.connect()
    connection.close()


def test_a_plain_submit_beside_ones_own_transaction_is_refused_at_once(
    queue: TaskQueue, connection: Connection
) -> None:
    with connection.transaction(), pytest.raises(TransactionError, match="connection="):
        queue.submit("double", 1)
    assert queue.submit("double", 1).status() is Status.PENDING


def test_a_job_of_an_open_transaction_is_said_to_be_that(
    queue: TaskQueue, connection: Connection
) -> None:
    with connection.transaction():
        handles = [queue.submit("double", 1, connection=connection)]
        handles += queue.submit_many([NewJob("double", (2,))], connection=connection)
        for handle in handles:
            for look in (handle.job, handle.result):
                with pytest.raises(JobNotFoundError, match="its transaction is not committed yet"):
                    look()
    assert all(handle.job().status is Status.PENDING for handle in handles)
    queue.shutdown()
    queue.start()
    with pytest.raises(JobNotFoundError, match=r"or was deleted$"):
        queue.get("nobody")
