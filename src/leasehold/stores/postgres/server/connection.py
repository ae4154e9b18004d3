"""One connection to the server, as the statements of the store use it.

Statements are written with numbered placeholders ($1), prepared on their second use, and given
their values in binary: whole numbers as bigint, lists as arrays. A statement about many rows is
given one list per column (`many`), so that it is one round trip however many there are.
"""

from __future__ import annotations

import select
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Protocol, TypeAlias

import psycopg
from psycopg import RawCursor
from psycopg.adapt import AdaptersMap
from psycopg.rows import tuple_row
from psycopg.types.array import ListBinaryDumper
from psycopg.types.numeric import Int8BinaryDumper
from psycopg.types.string import BytesBinaryDumper, StrBinaryDumper
from psycopg_pool import ConnectionPool

from leasehold.stores.postgres.server.address import Address

Row = tuple[Any, ...]
Pool: TypeAlias = "ConnectionPool[psycopg.Connection[Row]]"

PREPARE_THRESHOLD: Final = 1
CONNECT_TIMEOUT_SECONDS: Final = 10
IDLE_IN_TRANSACTION_SECONDS: Final = 60
"""Our transactions wait for nothing but the server; one that does is of a process that hangs."""


class Cursor(Protocol):
    """What a statement gave."""

    @property
    def rowcount(self) -> int: ...

    def __iter__(self) -> Iterator[Row]: ...
    def fetchone(self) -> Row | None: ...
    def fetchall(self) -> list[Row]: ...


class _BigInt(Int8BinaryDumper):
    """Every whole number as bigint: one type, one prepared statement, whatever the value."""

    def get_key(self, obj: int, format: Any) -> Any:  # noqa: A002, ARG002  # psycopg's own names
        return self.cls

    def upgrade(self, obj: int, format: Any) -> _BigInt:  # noqa: A002, ARG002  # as above
        return self


class Connection:
    """What a statement is executed on.

    Inside `pipelined` a statement is sent at once and waited for only by who asks for its rows:
    those that only write cost no round trip of their own.
    """

    __slots__ = ("_pipeline", "raw")

    undo = "ROLLBACK"
    """The statement that undoes what was written on it."""

    def __init__(self, raw: psycopg.Connection[Row]) -> None:
        self.raw = raw
        self._pipeline: psycopg.Pipeline | None = None

    @contextmanager
    def pipelined(self) -> Iterator[None]:
        """Send statements without waiting; what goes wrong is raised at the end at the latest."""
        with self.raw.pipeline() as pipeline:
            self._pipeline = pipeline
            try:
                yield
            finally:
                self._pipeline = None

    def execute(self, statement: str, values: Sequence[Any] | None = None) -> Cursor:
        """Execute one statement; the cursor has its rows, if it gives any."""
        cursor: Cursor = self.raw.cursor(binary=True).execute(statement.encode(), values)
        return cursor

    def many(self, statement: str, rows: Sequence[Sequence[Any]]) -> Cursor | None:
        """Execute a statement about many rows, given the rows; nothing, if there are none."""
        return self.execute(statement, columns(rows)) if rows else None

    def changed(self, statement: str, values: Sequence[Any]) -> int:
        """Execute a statement, and wait for how many rows it has changed."""
        cursor = self.execute(statement, values)
        if self._pipeline is not None:
            self._pipeline.sync()
        return cursor.rowcount


class BorrowedConnection(Connection):
    """The application's own, in its own transaction: whatever it is set to stays so."""

    __slots__ = ()

    undo = "ROLLBACK TO SAVEPOINT leasehold"

    def execute(self, statement: str, values: Sequence[Any] | None = None) -> Cursor:
        cursor = RawCursor(self.raw, row_factory=tuple_row)
        _adapt(cursor.adapters)
        found: Cursor = cursor.execute(statement.encode(), values, binary=True)
        return found


def columns(rows: Iterable[Sequence[Any]]) -> list[list[Any]]:
    """Rows as one list per column."""
    return [list(column) for column in zip(*rows, strict=True)]


def unnested(types: str) -> str:
    """The rows that `many` is given, as a source of rows; `types` names the columns' types.

    >>> unnested("bigint text")
    'unnest($1::bigint[], $2::text[])'
    """
    names = types.split()
    return f"unnest({', '.join(f'${n}::{name}[]' for n, name in enumerate(names, start=1))})"


def open_connection(address: Address, *, application_name: str) -> psycopg.Connection[Row]:
    """A connection of our own, ready for use; raises what psycopg does."""
    raw = psycopg.connect(
        address.conninfo,
        autocommit=True,
        prepare_threshold=PREPARE_THRESHOLD,
        **settings(address, application_name),
    )
    configure(raw)
    return raw


def application_settings(address: Address) -> dict[str, Any]:
    """What connections for applications are opened with: they find their own tables first."""
    given = settings(address, f"leasehold {address.schema} application")
    own = [each for each in given["options"].split("-c ") if each and "search_path" not in each]
    return given | {"options": " ".join(f"-c {each.strip()}" for each in own)}


def open_pool(address: Address) -> Pool:
    """Connections for transactions, lent to one at a time; raises what psycopg does."""
    pool: Pool = ConnectionPool(
        address.conninfo,
        min_size=1,
        max_size=address.pool_size,
        timeout=address.pool_timeout_seconds,
        kwargs={
            "autocommit": True,
            "prepare_threshold": PREPARE_THRESHOLD,
            **settings(address, f"leasehold {address.schema}"),
        },
        configure=configure,
        check=check,
        open=False,
    )
    try:
        pool.open(wait=True, timeout=CONNECT_TIMEOUT_SECONDS)
    except BaseException:
        pool.close()
        raise
    return pool


def check(raw: psycopg.Connection[Row]) -> None:
    """Raise if a connection that was idle is dead; it is dropped then, and another one taken."""
    # A server that is gone has closed its end: there is something to read where nothing should be.
    if select.select([raw.fileno()], [], [], 0)[0]:
        ConnectionPool.check_connection(raw)


def settings(address: Address, application_name: str) -> dict[str, Any]:
    """What every connection of a store is opened with."""
    options = {
        "search_path": address.schema,
        "statement_timeout": round(address.statement_timeout_seconds * 1000),
        "lock_timeout": round(address.lock_timeout_seconds * 1000),
        "idle_in_transaction_session_timeout": IDLE_IN_TRANSACTION_SECONDS * 1000,
        # Of a table that was never analyzed the planner takes a bitmap scan and a sort to be cheap.
        "enable_bitmapscan": "off",
        "jit": "off",
    }
    return {
        "options": " ".join(f"-c {name}={value}" for name, value in options.items()),
        "application_name": application_name,
        "connect_timeout": CONNECT_TIMEOUT_SECONDS,
        "client_encoding": "UTF8",
    }


def configure(raw: psycopg.Connection[Row]) -> None:
    """Let a new connection speak as the statements of the store expect."""
    raw.cursor_factory = RawCursor
    _adapt(raw.adapters)


def _adapt(adapters: AdaptersMap) -> None:
    # The one that is registered last is preferred.
    adapters.register_dumper(int, _BigInt)
    adapters.register_dumper(str, StrBinaryDumper)
    adapters.register_dumper(bytes, BytesBinaryDumper)
    adapters.register_dumper(list, ListBinaryDumper)
