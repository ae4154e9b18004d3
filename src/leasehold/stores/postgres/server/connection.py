"""One connection to the server, as the statements of the store use it.

Statements have numbered placeholders ($1), are prepared on their second use, and get their values
in binary: integers as bigint, lists as arrays. A statement about many rows gets one list per column
(`many`), so that it takes one round trip however many there are.

Behind a pooler that lends server connections for one transaction each (PgBouncer), nothing outlasts
a transaction: no setting, no prepared statement. Such a pooler reports a process id of its own
instead of the server's, which reveals it, connection by connection. Then settings are made in each
transaction, and statements are planned each time.
"""

from __future__ import annotations

import re
import select
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from itertools import chain, islice
from typing import Any, Final, Protocol, TypeAlias, cast

import psycopg
from psycopg import IsolationLevel, RawCursor
from psycopg.abc import Buffer
from psycopg.adapt import AdaptersMap
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import tuple_row
from psycopg.types.numeric import Int8BinaryDumper
from psycopg.types.string import BytesBinaryDumper, StrBinaryDumper
from psycopg_pool import ConnectionPool

from leasehold.stores.postgres.schema.texts import sendable
from leasehold.stores.postgres.server.address import Address
from leasehold.stores.postgres.server.arrays import ColumnDumper, RowPlaces, RowPlacesDumper
from leasehold.stores.postgres.server.pipeline import Pipeline
from leasehold.stores.postgres.server.reach import POOL_PREFIX
from leasehold.stores.postgres.server.silence import (
    CONNECT_TIMEOUT_SECONDS,
    ListeningConnection,
)
from leasehold.stores.tables.statements import Dialect

Row = tuple[Any, ...]
Pool: TypeAlias = "ConnectionPool[RawConnection]"

# The conditions of a search decide which index is the best, and whether any is. Somebody who looks
# takes one of the server's processors, and none from those who work.
FOR_SEARCHES: Final = """
    SELECT set_config('plan_cache_mode', 'auto', true), set_config('enable_seqscan', 'on', true),
        set_config('max_parallel_workers_per_gather', '0', true)
"""
UNNESTED: Final = re.compile(r"unnest\(((?:\$\d+::\w+\[\](?:, )?)+)\)(\s+AS \w+)?")
"""What `unnested` returns, and its name if it has one."""
TYPE_OF_COLUMN: Final = re.compile(r"::(\w+)\[\]")
CELLS_MAX: Final = 20
"""Up to this many cells of several rows are sent as separate values: the server prepares another
statement for each number of rows.
"""
OF_THE_NETWORK: Final = {
    "connect_timeout": CONNECT_TIMEOUT_SECONDS,
    # A server that does not answer for half a minute is considered away; the system's own defaults
    # are hours.
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 4,
    "tcp_user_timeout": 30_000,
}
SILENCE_SECONDS: Final = 5.0
"""How much longer than the server's own timeouts an answer is waited for."""
BEGIN: Final = "BEGIN ISOLATION LEVEL READ COMMITTED"
"""A write must see what others committed before it got its turn, whatever the server's, the
database's or the role's own default is.
"""
IDLE_IN_TRANSACTION_SECONDS: Final = 60
"""Leasehold's transactions wait only for the server; an idle one belongs to a hung process."""


class RawConnection(ListeningConnection):
    """One of Leasehold's own connections, which knows whether it is shared with others."""

    is_pooled = False
    """Whether settings made on it are lost after a transaction."""
    settings: dict[str, str]
    """Its settings."""
    statements: Pipeline
    """The pipeline that sends several statements at once."""


class SqlCursor(Protocol):
    """The result of a statement."""

    @property
    def rowcount(self) -> int: ...

    def __iter__(self) -> Iterator[Row]: ...
    def fetchone(self) -> Row | None: ...
    def fetchall(self) -> list[Row]: ...


class _BigInt(Int8BinaryDumper):
    """Every integer as bigint: one type, and so one prepared statement, for any value."""

    def get_key(self, obj: int, format: Any) -> Any:  # noqa: A002, ARG002  # psycopg's own names
        return self.cls

    def upgrade(self, obj: int, format: Any) -> _BigInt:  # noqa: A002, ARG002  # as above
        return self


class _Text(StrBinaryDumper):
    """Text; a NUL, which the server refuses, is replaced so that nothing is found."""

    def dump(self, obj: str) -> Buffer | None:
        return super().dump(sendable(obj))


class SqlConnection:
    """The connection that statements are executed on.

    Inside `pipelined`, statements are sent when the rows of one of them are requested, or at the
    end: statements that only write cost no round trip of their own.
    """

    __slots__ = ("_pipeline", "raw")

    is_own = True
    """Whether a transaction is the store's, from its beginning to its end."""

    def __init__(self, raw: RawConnection) -> None:
        self.raw = raw
        self._pipeline: Pipeline | None = None

    def begin(self, how: str = BEGIN) -> None:
        """Begin a transaction, with the settings that statements rely on."""
        self.execute(how)
        if self.raw.is_pooled:
            self.execute(*_set(self.raw.settings, "true"))

    def undo(self) -> None:
        """Undo the writes of the transaction; reads may continue in another one."""
        self.execute("ROLLBACK")
        self.begin()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit at the end of the block, roll back on an error; without a pipeline."""
        with self.raw.transaction():
            if self.raw.is_pooled:
                self.execute(*_set(self.raw.settings, "true"))
            yield

    @contextmanager
    def pipelined(self) -> Iterator[None]:
        """Send statements without waiting; errors are raised by the end at the latest."""
        pipeline = self.raw.statements
        pipeline.begin()
        self._pipeline = pipeline
        try:
            yield
        except BaseException:
            pipeline.give_up()
            raise
        else:
            pipeline.end()
        finally:
            self._pipeline = None

    def execute(self, statement: str, values: Sequence[Any] | None = None) -> SqlCursor:
        """Execute one statement; the cursor has its rows, if it returns any."""
        if self._pipeline is not None:
            return self._pipeline.execute(statement, values)
        cursor: SqlCursor = self.raw.cursor(binary=True).execute(statement.encode(), values)
        return cursor

    def push(self) -> None:
        """Make the server begin with the statements executed so far in a pipeline."""
        if self._pipeline is not None:
            self._pipeline.push()

    def many(self, statement: str, rows: Sequence[Sequence[Any]]) -> SqlCursor | None:
        """Execute a statement about many rows, given the rows; does nothing if there are none."""
        return self.execute(*about(statement, rows)) if rows else None

    def changed(self, statement: str, values: Sequence[Any]) -> int:
        """Execute a statement, and wait for the number of rows it has changed."""
        return self.execute(statement, values).rowcount


class BorrowedConnection(SqlConnection):
    """The application's own connection, in its own transaction: its settings stay unchanged."""

    __slots__ = ("_borrowed",)

    is_own = False

    def __init__(self, raw: psycopg.Connection[Row]) -> None:
        super().__init__(cast("RawConnection", raw))
        self._borrowed: psycopg.Pipeline | None = None

    def undo(self) -> None:
        self.execute("ROLLBACK TO SAVEPOINT leasehold")

    @contextmanager
    def pipelined(self) -> Iterator[None]:
        with self.raw.pipeline() as pipeline:
            self._borrowed = pipeline
            try:
                yield
            except BaseException:
                # The consequences of the error; psycopg would log them as a warning.
                with suppress(psycopg.Error):
                    pipeline.sync()
                raise
            finally:
                self._borrowed = None

    def execute(self, statement: str, values: Sequence[Any] | None = None) -> SqlCursor:
        cursor = RawCursor(self.raw, row_factory=tuple_row)
        adapt(cursor.adapters)
        # psycopg believes a statement prepared that was sent in a pipeline but never carried out,
        # since an earlier one was refused; after that, everybody who uses it would fail.
        found: SqlCursor = cursor.execute(statement.encode(), values, prepare=False, binary=True)
        return found

    def changed(self, statement: str, values: Sequence[Any]) -> int:
        cursor = self.execute(statement, values)
        if self._borrowed is not None:
            self._borrowed.sync()
        return cursor.rowcount


@contextmanager
def one_moment(db: SqlConnection) -> Iterator[None]:
    """A transaction in which every statement sees the same state."""
    try:
        with db.pipelined():
            db.begin("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            db.execute(FOR_SEARCHES)
            yield
            db.execute("COMMIT")
    except BaseException:
        with suppress(psycopg.Error):
            db.raw.rollback()
        raise


def columns(rows: Iterable[Sequence[Any]]) -> list[list[Any]]:
    """Rows as one list per column."""
    return [list(column) for column in zip(*rows, strict=True)]


POSTGRES: Final = Dialect("= ANY({})", list, "''::bytea")


def unnested(types: str) -> str:
    """The rows given to `many`, as a source of rows; `types` names the columns' types.

    >>> unnested("bigint text")
    'unnest($1::bigint[], $2::text[])'
    """
    names = types.split()
    return f"unnest({', '.join(f'${n}::{name}[]' for n, name in enumerate(names, start=1))})"


def about(statement: str, rows: Sequence[Sequence[Any]]) -> tuple[str, Sequence[Any]]:
    """A statement about the rows that `unnested` stands for in it, and its values.

    A few rows are sent as plain values: unpacking their arrays would cost more than inserting them.
    """
    if len(rows) == 1:
        return for_rows(statement, 1), rows[0]
    if len(rows) * len(rows[0]) <= CELLS_MAX:
        return for_rows(statement, len(rows)), [*chain.from_iterable(rows)]
    return statement, columns(rows)


@cache
def for_rows(statement: str, rows: int) -> str:
    """The statement for this number of rows, whose cells are its values.

    >>> for_rows(f"SELECT * FROM {unnested('bigint text')}", 2)
    'SELECT * FROM (VALUES ($1::bigint, $2::text), ($3::bigint, $4::text)) AS few'
    """

    def written(found: re.Match[str]) -> str:
        types = TYPE_OF_COLUMN.findall(found[1])
        return f"({values_of(types, rows)}){found[2] or ' AS few'}"

    return UNNESTED.sub(written, statement)


def values_of(types: Sequence[str], rows: int, first: int = 1) -> str:
    """A VALUES list for this number of rows of these types, numbered from `first`.

    >>> values_of(["bigint", "text"], 2, 3)
    'VALUES ($3::bigint, $4::text), ($5::bigint, $6::text)'
    """
    cells = (f"${n}::{name}" for n, name in enumerate([*types] * rows, start=first))
    each = (", ".join(islice(cells, len(types))) for _ in range(rows))
    return "VALUES " + ", ".join(f"({row})" for row in each)


def open_connection(address: Address, *, application_name: str) -> RawConnection:
    """A new connection, ready for use; raises psycopg's errors."""
    raw = RawConnection.connect(
        address.conninfo, autocommit=True, **parameters(address, application_name)
    )
    try:
        configure(raw, address)
    except BaseException:
        raw.close()
        raise
    return raw


def open_pool(address: Address) -> Pool:
    """A pool of connections for transactions; raises psycopg's errors."""
    pool: Pool = ConnectionPool(
        address.conninfo,
        connection_class=RawConnection,
        min_size=1,
        max_size=address.pool_size,
        name=POOL_PREFIX + address.schema,
        timeout=address.pool_timeout_seconds,
        kwargs={"autocommit": True, **parameters(address, name_of(address))},
        configure=partial(configure, address=address),
        open=False,
    )
    # A pool retries, and finally says that it took too long; a single connection says why.
    open_connection(address, application_name="leasehold look-up").close()
    try:
        pool.open(wait=True, timeout=CONNECT_TIMEOUT_SECONDS)
    except BaseException:
        pool.close()
        raise
    return pool


def name_of(address: Address) -> str:
    """The application_name of the connections of a store's transactions."""
    return f"leasehold {address.schema}"


def check(raw: RawConnection) -> None:
    """Raise if an idle connection is dead; it is then dropped, and another one used."""
    # A server that is gone has closed its end, so there is something to read where nothing should
    # be.
    if select.select([raw.fileno()], [], [], 0)[0]:
        ConnectionPool.check_connection(raw)


def parameters(address: Address, application_name: str) -> dict[str, Any]:
    """The parameters of every connection; network parameters in the URL take precedence."""
    given = conninfo_to_dict(address.conninfo)
    own = {name: each for name, each in OF_THE_NETWORK.items() if name not in given}
    if "connect_timeout" in own:
        own["connect_timeout"] = round(connect_seconds(address))
    return {**own, "application_name": application_name, "client_encoding": "UTF8"}


def connect_seconds(address: Address) -> float:
    """How long to wait for a new connection by default; libpq's minimum is 2 s."""
    return max(2.0, min(address.away_seconds, CONNECT_TIMEOUT_SECONDS))


def configure(raw: RawConnection, address: Address) -> None:
    """Configure a new connection as the statements of the store expect."""
    raw.patience_seconds = connect_seconds(address)
    raw.cursor_factory = RawCursor
    raw.isolation_level = IsolationLevel.READ_COMMITTED  # See BEGIN.
    # `Pipeline` prepares statements, and would lose them when psycopg cleans up its own.
    raw.prepare_threshold = None
    adapt(raw.adapters)
    settle_in(
        raw,
        timeouts(address)
        | {
            "search_path": address.schema,
            # For a table that was never analyzed, or only while empty, the planner considers a
            # bitmap scan and a sort cheap, and also reading the whole table for each job looked up.
            "enable_bitmapscan": "off",
            "enable_seqscan": "off",
            "jit": "off",
            # Planning a settlement each time took the server longer than carrying it out.
            "plan_cache_mode": "force_generic_plan",
        },
    )
    raw.patience_seconds = patience_seconds(address)
    raw.statements = Pipeline(raw, may_prepare=not raw.is_pooled)


def timeouts(address: Address) -> dict[str, str]:
    """How long a statement and an idle transaction may last."""
    seconds = {
        "statement_timeout": address.statement_timeout_seconds,
        "lock_timeout": address.lock_timeout_seconds,
        "idle_in_transaction_session_timeout": IDLE_IN_TRANSACTION_SECONDS,
    }
    return {name: f"{round(each * 1000)}ms" for name, each in seconds.items()}


def patience_seconds(address: Address) -> float:
    """How long to wait for the answer to a statement: by then the server reports that it failed."""
    return address.statement_timeout_seconds + address.lock_timeout_seconds + SILENCE_SECONDS


def settle_in(raw: RawConnection, settings: dict[str, str]) -> None:
    """Make settings permanent if this connection is not shared; otherwise remember them."""
    process = raw.info.backend_pid
    # In one statement, so that nothing is set on a connection that will be lent to others.
    statement, values = _set(settings, f"pg_backend_pid() <> {process}")
    cursor = RawCursor(raw, row_factory=tuple_row)
    adapt(cursor.adapters)
    row: Any = cursor.execute(f"{statement}, pg_backend_pid()".encode(), values).fetchone()
    raw.is_pooled, raw.settings = row[-1] != process, settings
    if raw.is_pooled:
        raw.prepare_threshold = None


def _set(settings: dict[str, str], is_local: str) -> tuple[str, list[str]]:
    """The statement that makes settings, and its values."""
    each = [f"set_config('{name}', ${n}, {is_local})" for n, name in enumerate(settings, start=1)]
    return f"SELECT {', '.join(each)}", list(settings.values())


def adapt(adapters: AdaptersMap) -> None:
    # The dumper registered last is preferred.
    adapters.register_dumper(int, _BigInt)
    adapters.register_dumper(str, _Text)
    adapters.register_dumper(bytes, BytesBinaryDumper)
    adapters.register_dumper(list, ColumnDumper)
    adapters.register_dumper(RowPlaces, RowPlacesDumper)
