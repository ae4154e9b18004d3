"""Checked by mypy as much as by pytest: what `connection=` takes, and what `connect` gives."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, assert_type

import apsw
import pytest

from leasehold import AsyncTaskQueue, NewJob, TaskQueue, TransactionError

if TYPE_CHECKING:
    import psycopg
    from sqlalchemy import Connection
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
    from sqlalchemy.orm import Session


def test_a_block_of_the_connection_is_a_transaction(tmp_path: Path) -> None:
    with TaskQueue(tmp_path / "jobs.db", num_workers=0) as queue:
        connection = queue.connect()
        connection.execute("CREATE TABLE app_row (n INTEGER)")
        with connection:
            connection.executemany("INSERT INTO app_row VALUES (?)", [(1,), (2,)])
            queue.submit("t", job_id="a", connection=connection)
        with suppress(ZeroDivisionError), connection:
            queue.submit("t", job_id="b", connection=connection)
            raise ZeroDivisionError
        assert [job.id for job in queue.search()] == ["a"]
        assert connection.execute("SELECT sum(n) FROM app_row").fetchone() == (3,)
        connection.close()


def test_the_class_of_the_driver_can_be_named(tmp_path: Path) -> None:
    with TaskQueue(tmp_path / "jobs.db", num_workers=0) as queue:
        connection = queue.connect(apsw.Connection)
        assert_type(connection, apsw.Connection)
        with connection:
            connection.execute("CREATE TABLE app_row (n INTEGER PRIMARY KEY)")
            connection.execute("INSERT INTO app_row VALUES (7)")
            assert (connection.last_insert_rowid(), connection.changes()) == (7, 1)
            queue.submit("t", connection=connection)
        assert connection.pragma("user_version") == 1
        connection.close()
        with pytest.raises(TransactionError, match=r"are no builtins\.int, but apsw\.Connection"):
            queue.connect(int)


def every_connection_is_taken(
    queue: TaskQueue,
    blocking: psycopg.Connection[Any],
    core: Connection,
    session: Session,
    sqlite: apsw.Connection,
) -> None:
    """Read by type checkers only."""
    queue.submit("t", connection=blocking)
    queue.submit("t", connection=core)
    queue.submit("t", connection=session)
    queue.submit("t", connection=sqlite)
    queue.submit_many([NewJob("t")], connection=session)


async def every_awaited_connection_is_taken(
    queue: AsyncTaskQueue,
    awaited: psycopg.AsyncConnection[Any],
    core: AsyncConnection,
    session: AsyncSession,
) -> None:
    """Read by type checkers only."""
    await queue.submit("t", connection=awaited)
    await queue.submit("t", connection=core)
    await queue.submit("t", connection=session)
    await queue.submit_many([NewJob("t")], connection=awaited)
