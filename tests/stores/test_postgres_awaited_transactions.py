"""An application's own connections that are awaited: psycopg's, and SQLAlchemy's on it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from leasehold import DuplicateJobError, NewJob, TaskQueue, TransactionError, Workflow
from support.servers import Schemas, needs_psycopg

needs_psycopg()

import psycopg  # noqa: E402

PATIENCE_SECONDS = 60


@pytest.fixture
def url(schemas: Schemas) -> Iterator[str]:
    lent = schemas.lend()
    yield lent
    schemas.take_back(lent, "DROP TABLE IF EXISTS public.app_row")


def place(url: str) -> str:
    return url.partition("&schema")[0]


def run(
    url: str, test: Callable[[TaskQueue, psycopg.AsyncConnection[Any]], Awaitable[None]]
) -> None:
    """Run a test on an event loop, with a queue and a connection of the application's own."""

    async def with_connection() -> None:
        with TaskQueue(url, num_workers=0) as queue:
            async with await psycopg.AsyncConnection.connect(place(url)) as own:
                await own.execute("CREATE TABLE app_row (n integer)")
                await own.commit()
                await test(queue, own)

    asyncio.run(with_connection())


def test_a_job_is_there_if_and_only_if_its_transaction_commits(url: str) -> None:
    async def test(queue: TaskQueue, own: psycopg.AsyncConnection[Any]) -> None:
        async with own.transaction():
            await own.execute("INSERT INTO app_row VALUES (1)")
            await queue.asubmit("t", job_id="kept", connection=own)
            assert queue.store.get("kept") is None
            await queue.asubmit_many([NewJob("t", job_id="many")], connection=own)
            workflow = Workflow("flow")
            workflow.add("one", NewJob("t"))
            await queue.asubmit_workflow(workflow, connection=own)
        assert {job.id for job in queue.search()} == {"kept", "many", "flow:one"}
        # Nothing is left after a rollback, nor after an error in the block.
        await queue.asubmit("t", job_id="dropped", connection=own)
        await own.rollback()
        with suppress(ZeroDivisionError):
            async with own.transaction():
                await queue.asubmit("t", job_id="dropped", connection=own)
                raise ZeroDivisionError
        assert queue.store.get("dropped") is None
        assert queue.check() == []

    run(url, test)


def test_a_refusal_leaves_the_transaction_as_it_was(url: str) -> None:
    async def test(queue: TaskQueue, own: psycopg.AsyncConnection[Any]) -> None:
        queue.submit("t", job_id="taken")
        await own.set_isolation_level(psycopg.IsolationLevel.REPEATABLE_READ)
        with pytest.raises(DuplicateJobError):
            await queue.asubmit("t", job_id="taken", connection=own)
        # It was begun as the application wants it, and goes on.
        cursor = await own.execute("SHOW transaction_isolation")
        assert await cursor.fetchone() == ("repeatable read",)
        await own.execute("INSERT INTO app_row VALUES (1)")
        await own.commit()

    run(url, test)


def test_the_connection_is_still_the_applications(url: str) -> None:
    """Its prepared statements, its notices, and statements of others that wait meanwhile."""

    async def test(queue: TaskQueue, own: psycopg.AsyncConnection[Any]) -> None:
        notices: list[str | None] = []
        own.add_notice_handler(lambda notice: notices.append(notice.message_primary))
        own.prepare_threshold = 0
        for number in range(3):
            await asyncio.gather(
                queue.asubmit("t", job_id=f"a{number}", connection=own),
                own.execute("INSERT INTO app_row VALUES (%s)", (number,)),
                queue.asubmit("t", job_id=f"b{number}", connection=own),
            )
        await own.execute("DO $$ BEGIN RAISE NOTICE 'heard'; END $$")
        await own.commit()
        assert notices == ["heard"]
        assert len(list(queue.search())) == 6
        cursor = await own.execute("SELECT n FROM app_row ORDER BY n")
        assert await cursor.fetchall() == [(0,), (1,), (2,)]

    run(url, test)


def test_who_is_cancelled_gives_the_connection_back_in_order(url: str) -> None:
    async def test(queue: TaskQueue, own: psycopg.AsyncConnection[Any]) -> None:
        submit = asyncio.ensure_future(queue.asubmit("t", connection=own))
        while not (own.lock.locked() or submit.done()):  # noqa: ASYNC110  # nothing tells it
            await asyncio.sleep(0)
        submit.cancel()
        with pytest.raises(asyncio.CancelledError):
            await submit
        assert await (await own.execute("SELECT 1")).fetchone() == (1,)

    run(url, test)


def test_workers_are_woken_by_the_commit(url: str) -> None:
    def work() -> str:
        return "done"

    async def test(queue: TaskQueue, own: psycopg.AsyncConnection[Any]) -> None:
        with TaskQueue(url, num_workers=1) as working:
            working.task(name="work")(work)
            working.start()
            job = await queue.asubmit("work", connection=own)
            await own.commit()
            assert await job.aresult(timeout=PATIENCE_SECONDS) == "done"

    run(url, test)


def test_what_cannot_carry_the_transaction_is_refused(url: str) -> None:
    async def test(queue: TaskQueue, own: psycopg.AsyncConnection[Any]) -> None:
        with pytest.raises(TransactionError, match="await"):
            queue.submit("t", connection=own)
        await own.set_autocommit(True)
        with pytest.raises(TransactionError, match="no open transaction"):
            await queue.asubmit("t", connection=own)
        with pytest.raises(TransactionError, match="psycopg"):
            await queue.asubmit("t", connection=object())

    run(url, test)


@pytest.mark.parametrize("kind", ["connection", "session"])
def test_sqlalchemy_brings_its_awaited_connection(url: str, kind: str) -> None:
    @asynccontextmanager
    async def opened() -> AsyncIterator[Any]:
        engine = create_async_engine(place(url).replace("postgresql://", "postgresql+psycopg://"))
        try:
            async with engine.connect() if kind == "connection" else AsyncSession(engine) as own:
                yield own
        finally:
            await engine.dispose()

    async def test(queue: TaskQueue, _: psycopg.AsyncConnection[Any]) -> None:
        async with opened() as own:
            # The first thing that is done on it, and one after another.
            await queue.asubmit("t", job_id="dropped", connection=own)
            await own.rollback()
            await own.execute(sqlalchemy.text("INSERT INTO app_row VALUES (1)"))
            await queue.asubmit("t", job_id="kept", connection=own)
            assert queue.store.get("kept") is None
            await own.commit()
            assert [job.id for job in queue.search()] == ["kept"]
            count = await own.execute(sqlalchemy.text("SELECT count(*) FROM app_row"))
            assert count.scalar() == 1

    run(url, test)
