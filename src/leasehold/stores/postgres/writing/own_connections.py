"""The application's own connection, however it is wrapped: the psycopg connection beneath it.

An async connection is used for blocking statements in another thread, over the same server session,
while its lock keeps all others away (`lend`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final

import psycopg
from psycopg.pq import TransactionStatus

from leasehold.errors import TransactionError
from leasehold.stores.postgres.server.connection import Row

BEGIN: Final = "SELECT 1"
"""Any statement begins a transaction the way the application wants it, and its wrapper notices;
otherwise it would not roll back a transaction that it has not seen begin.
"""


class Blocking(psycopg.Connection[Row]):
    """The session of an async connection, for blocking statements."""

    def __init__(self, awaited: psycopg.AsyncConnection[Any]) -> None:
        session = awaited.pgconn
        handlers = session.notice_handler, session.notify_handler
        super().__init__(session)
        # The server's notices still go to the owner.
        session.notice_handler, session.notify_handler = handlers
        # Both connections would use the same names for prepared statements.
        self.prepare_threshold = None
        self._autocommit = awaited.autocommit

    def __del__(self, *_: Any) -> None:
        """Does nothing: the owner closes the session."""


def unwrapped(connection: object) -> psycopg.Connection[Row]:
    """The psycopg connection beneath a connection or a session of SQLAlchemy, or itself."""
    found = _driver_of(connection)
    if isinstance(found, psycopg.AsyncConnection):
        if not found.lock.locked():
            raise TransactionError(
                "this is an async connection: use `await queue.asubmit(...)`, or an AsyncTaskQueue"
            )
        return Blocking(found)
    if isinstance(found, psycopg.Connection):
        return found
    if found is None:
        raise TransactionError(
            "the connection is not open yet: submit inside a transaction, "
            "as in `with transaction.atomic():`"
        )
    raise _unsuitable(connection)


def lend(connection: object) -> AbstractAsyncContextManager[None] | None:
    """Lock out all other users of an async connection; None if it is not one."""
    is_awaited = isinstance(connection, psycopg.AsyncConnection) or _is_awaited_sqlalchemy(
        connection
    )
    return _lent(connection) if is_awaited else None


@asynccontextmanager
async def _lent(connection: Any) -> AsyncIterator[None]:
    if hasattr(connection, "sync_session"):
        connection = await connection.connection()
    if hasattr(connection, "sync_connection") and not connection.in_transaction():
        await connection.exec_driver_sql(BEGIN)
    found = _driver_of(connection)
    if not isinstance(found, psycopg.AsyncConnection):
        raise _unsuitable(connection)
    if found.info.transaction_status is TransactionStatus.IDLE and not found.autocommit:
        await found.execute(BEGIN)
    async with found.lock:
        yield


def _driver_of(connection: object) -> Any:
    """The driver's connection, found by the attribute names of SQLAlchemy and of Django."""
    if isinstance(connection, psycopg.Connection | psycopg.AsyncConnection):
        return connection
    found: Any = getattr(connection, "sync_session", connection)
    found = getattr(found, "sync_connection", found)
    if callable(getattr(found, "connection", None)):
        found = found.connection()  # a session
    if hasattr(found, "exec_driver_sql") and not found.in_transaction():
        found.exec_driver_sql(BEGIN)
    beneath = getattr(found, "connection", found)
    return getattr(beneath, "driver_connection", beneath)


def _is_awaited_sqlalchemy(connection: object) -> bool:
    return hasattr(connection, "sync_session") or hasattr(connection, "sync_connection")


def _unsuitable(connection: object) -> TransactionError:
    kind = type(connection)
    return TransactionError(
        f"a {kind.__module__}.{kind.__qualname__} cannot carry the transaction of a postgresql:// "
        "store: pass a psycopg connection, SQLAlchemy's on psycopg (postgresql+psycopg://), or "
        "Django's"
    )
