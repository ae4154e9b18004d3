"""The store's verbs inside the application's own transactions, on its own psycopg connections.

They are the same as elsewhere: each is an operation on a `Step`, and here the step is part of a
transaction that the application commits. It holds the store's turn until then: shared with others
if the verb allows that, otherwise alone. It never holds the turn alone only to end a minute, since
it may be open for long.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from types import TracebackType
from typing import Any, Final, Self, TypeVar, cast

import psycopg
from psycopg.errors import LockNotAvailable, SerializationFailure, UniqueViolation
from psycopg.pq import TransactionStatus

from leasehold.core.contract.transactions import Connection
from leasehold.errors import StoreBusyError, TransactionError
from leasehold.interrupts import SHIELD
from leasehold.stores.postgres.server.address import Address
from leasehold.stores.postgres.server.connection import (
    BorrowedConnection,
    RawConnection,
    Row,
    parameters,
    settle_in,
    timeouts,
)
from leasehold.stores.postgres.server.failures import TRY_AGAIN, translated
from leasehold.stores.postgres.writing import present
from leasehold.stores.postgres.writing.block import Block
from leasehold.stores.postgres.writing.database import Database
from leasehold.stores.postgres.writing.insiders import INSIDERS, Caller, caller
from leasehold.stores.postgres.writing.loans import Loans
from leasehold.stores.postgres.writing.own_connections import unwrapped
from leasehold.stores.postgres.writing.step import NotAlone, NotFirst, Step
from leasehold.stores.postgres.writing.tries import MaySideBySide, Tries, Way
from leasehold.stores.tables.news import MISPLACED, READY, news_of

T = TypeVar("T")

ENTER: Final = """
    SELECT current_setting('search_path'), current_setting('lock_timeout'),
           set_config('search_path', $1, true), set_config('lock_timeout', $2, true),
           current_setting('transaction_isolation'), current_setting('transaction_read_only')
"""
LEAVE: Final = "SELECT set_config('search_path', $1, true), set_config('lock_timeout', $2, true)"
IS_THERE: Final = "SELECT to_regclass($1) IS NOT NULL"
STORE_ID: Final = 'SELECT store_id FROM "{}".store_state'
# Received when the application commits, also by its own process.
NOTIFY: Final = "SELECT pg_notify('leasehold_' || $1, 'application ' || $2)"


class ApplicationConnection(RawConnection):
    """A psycopg connection with the methods that every store's `connect` promises."""

    store: Address
    """The store that opened it."""
    entered: list[Block]
    """The transactions that `with connection:` has begun, the innermost last."""
    user: Caller
    """Its last user."""
    has_turn = False
    """Whether its transaction may hold the store's turn."""
    ends_alone: Callable[[Step], bool] | None = None
    """Whether its transaction, once it shares the turn, will want to be alone."""

    @classmethod
    def open(cls, address: Address) -> Self:
        """A connection that finds the application's tables, and waits no longer than the store
        does.
        """
        raw = cls.connect(
            address.conninfo,
            autocommit=True,
            **parameters(address, f"leasehold {address.schema} application"),
        )
        settle_in(raw, timeouts(address))
        # Its statements may take as long as the application allows.
        raw.patience_seconds = math.inf
        raw.store = address
        raw.entered = []
        return raw

    def wait(self, *arguments: Any, **named: Any) -> Any:
        self.user = caller()
        return super().wait(*arguments, **named)

    def transaction(  # type: ignore[override]  # psycopg's own promises a generator
        self, savepoint_name: str | None = None, force_rollback: bool = False
    ) -> Block:
        """A block that is one transaction; inside another one, a part that can be undone alone."""
        return Block(self, super().transaction(savepoint_name, force_rollback))

    def __enter__(self) -> Self:
        """As in every store: a transaction. (psycopg's own would close the connection, too.)"""
        block = self.transaction()
        block.__enter__()
        self.entered.append(block)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.entered.pop().__exit__(kind, error, trace)

    @property
    def in_transaction(self) -> bool:
        return self.info.transaction_status is not TransactionStatus.IDLE

    def executemany(self, statement: str, rows: Iterable[Any]) -> psycopg.Cursor[Row]:
        cursor = self.cursor()
        cursor.executemany(statement.encode(), list(rows))
        return cursor


def connect(database: Database) -> Connection:
    """A new connection for the application."""
    database.check_open()
    address = database.address
    with translated(address):
        raw = ApplicationConnection.open(address)
    INSIDERS.add(raw)
    return cast("Connection", raw)


def owns(database: Database, connection: object) -> bool:
    """Whether a connection leads to this store."""
    try:
        raw = unwrapped(connection)
    except TransactionError:
        return False
    if isinstance(raw, ApplicationConnection):
        return raw.store == database.address
    db = BorrowedConnection(raw)
    schema = database.address.schema
    with translated(database.address):
        there: Any = db.execute(IS_THERE, (f"{schema}.store_state",)).fetchone()
        if not there[0]:
            return False
        found: Any = db.execute(STORE_ID.format(schema)).fetchone()
        return bool(found[0] == database.store_id)


def within(
    database: Database,
    connection: object,
    operation: Callable[[Step], T],
    side_by_side: MaySideBySide | None,
    needs: Collection[str] = (),
) -> tuple[T, Step]:
    """Carry out one operation as part of the open transaction; undo only it if it fails.

    `needs` has the ids of the jobs that it may make others wait for.
    """
    database.check_open()
    raw = unwrapped(connection)
    _check_open_transaction(raw)
    # An interrupt inside psycopg leaves a connection that nobody can go on with. Only one of ours
    # can be interrupted inside the shield, where it waits.
    with SHIELD if isinstance(raw, ApplicationConnection) else nullcontext():
        return _within(database, raw, operation, side_by_side, needs)


def _within(
    database: Database,
    raw: psycopg.Connection[Row],
    operation: Callable[[Step], T],
    side_by_side: MaySideBySide | None,
    needs: Collection[str],
) -> tuple[T, Step]:
    if not owns(database, raw):
        raise TransactionError(
            f"the connection is to a different database than {database.address.shown}, or its role "
            "may not read the schema"
        )
    db = BorrowedConnection(raw)
    with translated(database.address), _as_the_store(database, db) as isolation:
        sees_the_past = isolation not in present.SEES_THE_PRESENT

        def judged(step: Step) -> T:
            _check_first(raw, step)
            if sees_the_past:
                present.check(database, step, needs, isolation)
            return operation(step)

        way = Way(side_by_side, in_any_minute=True)
        tries = Tries(way, database.address.lock_timeout_seconds)
        while True:
            try:
                with Loans(database.accelerator) as loans:
                    with _part(db):
                        answer, step = database.carry_out(db, judged, tries.way, loans)
                        # Behind its commit, nobody could tell the index of its jobs. What is told
                        # now is forgotten if the lane is filled meanwhile.
                        database.fronts.tell(step.hints)
                        news = news_of(step.hints) + (MISPLACED if step.hints.entered else "")
                        if READY in news:
                            db.execute(NOTIFY, (database.address.schema, news))
                    loans.keep()
                return answer, step
            except NotFirst:
                with _part(db):
                    database.turn.go_first(db)
            except (NotAlone, UniqueViolation) as error:
                tries.go_alone(error)
            except LockNotAvailable:
                if not tries.give_way():
                    raise
            except SerializationFailure as error:
                raise present.was_overtaken(database.address.shown, isolation) from error
            except TRY_AGAIN as error:
                # Two transactions are waiting for each other's locks.
                raise StoreBusyError(
                    f"{database.address.shown}: deadlock with another transaction: roll back, "
                    "and repeat the whole transaction"
                ) from error


def _check_first(raw: object, step: Step) -> None:
    """Called once a transaction has got the turn; raises NotFirst if it has to give it back, and
    get it again when it has gone first.
    """
    if not isinstance(raw, ApplicationConnection) or raw.has_turn:
        return
    raw.has_turn = True
    if not step.alone and raw.ends_alone is not None and raw.ends_alone(step):
        raise NotFirst


def _check_open_transaction(raw: psycopg.Connection[Row]) -> None:
    if raw.closed:
        raise TransactionError("the connection is closed: open another one, and submit with that")
    status = raw.info.transaction_status
    if status is TransactionStatus.ACTIVE:
        raise TransactionError("the connection is in use: let one statement end before the next")
    if status is TransactionStatus.INERROR:
        raise TransactionError("the transaction has failed before: roll it back first")
    if raw.autocommit and status is not TransactionStatus.INTRANS:
        raise TransactionError(
            "the connection has no open transaction: submit inside `with "
            "connection.transaction():`, or leave out connection="
        )


@contextmanager
def _as_the_store(database: Database, db: BorrowedConnection) -> Iterator[str]:
    """Make statements find the store's tables, and restore the settings afterwards.

    Yields the isolation level of the transaction.
    """
    address = database.address
    timeout = f"{round(address.lock_timeout_seconds * 1000)}ms"
    before: Any = db.execute(ENTER, (address.schema, timeout)).fetchone()
    *_, isolation, is_read_only = before
    try:
        if is_read_only == "on":
            raise TransactionError(
                "the transaction is read-only: submit in one that may write, on the primary server"
            )
        yield isolation
    finally:
        if db.raw.info.transaction_status is TransactionStatus.INTRANS:
            db.execute(LEAVE, before[:2])


@contextmanager
def _part(db: BorrowedConnection) -> Iterator[None]:
    """Undo the writes inside if it raises."""
    db.execute("SAVEPOINT leasehold")
    try:
        with db.pipelined():
            yield
    except BaseException:
        if not db.raw.closed:
            db.execute("ROLLBACK TO SAVEPOINT leasehold")
            db.execute("RELEASE SAVEPOINT leasehold")
        raise
    db.execute("RELEASE SAVEPOINT leasehold")
