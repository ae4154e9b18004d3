"""The part of the store contract that is about the application's own transactions.

A store whose jobs live in the application's own database can submit and complete jobs in the same
transaction in which the application writes its own rows. Other stores raise UnsupportedError.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias

from leasehold.core.model.job import Draft
from leasehold.core.model.joblog import LogLine
from leasehold.core.model.lease import Settled, Settlement
from leasehold.errors import LeaseholdError

if TYPE_CHECKING:
    from leasehold.core.model.records import Submitted


class Cursor(Protocol):
    """The rows that a statement returns."""

    def __iter__(self) -> Iterator[Any]: ...
    def fetchone(self) -> Any: ...
    def fetchall(self) -> list[Any]: ...


class Connection(Protocol):
    """The application's own connection to the store's database.

    These are the methods that every such connection has; for SQLite it is an `apsw.Connection` with
    all its methods.
    """

    def __enter__(self) -> Self:
        """As `transaction()`: commit at the end of the block, roll back on an error."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> bool | None: ...

    @property
    def in_transaction(self) -> bool: ...

    def execute(self, statements: str, bindings: Any = None, /) -> Cursor: ...
    def executemany(self, statements: str, bindings: Iterable[Any], /) -> Cursor: ...

    def transaction(self) -> AbstractContextManager[Connection]:
        """Take a turn to write: commit at the end of the block, roll back on an error.

        Inside another transaction it is a nested one that can be rolled back alone.
        """

    def close(self) -> None:
        """Close it; an open transaction is rolled back."""


class SQLiteConnection(Protocol):
    """A connection of apsw's, as `TaskQueue.connect(apsw.Connection)` gives it."""

    def last_insert_rowid(self) -> int: ...


class PsycopgConnection(Protocol):
    """A connection of psycopg, awaited or not."""

    @property
    def pgconn(self) -> Any: ...


class SQLAlchemyConnection(Protocol):
    """A connection or a session of SQLAlchemy, awaited or not."""

    def in_transaction(self) -> bool: ...


class DjangoConnection(Protocol):
    """A connection of Django, `django.db.connection`."""

    @property
    def connection(self) -> Any:
        """The driver's, once it is open."""


OwnConnection: TypeAlias = (
    Connection | SQLiteConnection | PsycopgConnection | SQLAlchemyConnection | DjangoConnection
)
"""The connections with which a job can be submitted; a store accepts those that lead to it."""


class JobTransaction(Protocol):
    """The transaction of one running job, on a connection of its own."""

    @property
    def connection(self) -> Connection: ...

    @property
    def is_open(self) -> bool:
        """False once it was committed or rolled back, by anybody."""

    def adopt(self) -> None:
        """Called by the thread that continues the transaction if another thread opened it."""

    def report_progress(self, progress: bytes) -> None: ...
    def append_log(self, lines: Sequence[LogLine], *, dropped: int = 0) -> None: ...

    def complete(self, settlement: Settlement) -> Settled:
        """Settle the job and commit, both or neither."""

    def roll_back(self) -> None:
        """Undo all of it, if that is not done yet, and close the connection."""


class TransactionStore(Protocol):
    """Where jobs and the application's own rows can be written together."""

    def connect(self) -> Connection:
        """A new connection to the store's database, for the application's own tables.

        - TXN-1  It writes as durably as the store does, and takes turns with it: neither the store
                 nor the application fails because the other one writes, as long as that write ends
                 soon.
        """

    def owns(self, connection: OwnConnection) -> bool:
        """Whether this connection leads to this store."""

    def lend(self, connection: OwnConnection) -> AbstractAsyncContextManager[None] | None:
        """For a connection that is itself awaited: let only this store use it inside the block,
        from any thread. None for any other connection.
        """

    def submit_within(
        self, connection: OwnConnection, drafts: Sequence[Draft], *, partial: bool = False
    ) -> list[Submitted | LeaseholdError]:
        """Store new jobs in the application's open transaction; all clauses of `submit` hold.

        - TXN-2  The jobs exist once it commits, and listeners are woken then; until then no other
                 connection sees them, and after a rollback, even a partial one, nothing is left.
        - TXN-3  An error in a draft undoes only this call: the transaction continues without it.
        - TXN-4  A connection that is not of this store, or without an open transaction, or that
                 cannot write, raises TransactionError, and nothing is changed.
        - TXN-5  A caller with an open transaction that writes to the store outside it would wait
                 for itself: TransactionError is raised at once.
        """

    def open_transaction(self, job_id: str, version: int) -> JobTransaction:
        """Open a transaction for a running job, which commits together with its completion.

        - TXN-6  Fenced like a settlement, when it begins and again when it completes: a stale
                 holder gets LeaseLostError and nothing is kept. While it is open the job cannot be
                 taken away, since that would be a write too.
        - TXN-7  It completes as a whole: the job is completed, as any other, if and only if the
                 writes made in it are kept. Only `complete` can commit it.
        """

    def address(self) -> str | None:
        """A URL by which another process on this machine reaches this store; None if none can."""
