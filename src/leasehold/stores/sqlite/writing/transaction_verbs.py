"""The store's verbs inside the application's own transactions.

They are the same as elsewhere: each is an operation on a `Step`, and here the step is part of a
transaction that the application commits. So nothing read in it may be remembered beyond it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

import apsw

from leasehold.core.contract.transactions import OwnConnection
from leasehold.core.model.job import Draft
from leasehold.core.model.joblog import LogLine, check_progress
from leasehold.core.model.lease import Settled, Settlement
from leasehold.core.model.records import Submitted
from leasehold.core.rules import holding
from leasehold.errors import LeaseholdError, LeaseLostError, TransactionError
from leasehold.interrupts import shielded
from leasehold.stores.sqlite.disk.failures import translated
from leasehold.stores.sqlite.leasing import settle
from leasehold.stores.sqlite.leasing.ends import HELD_LEASE, HolderBook, refuse
from leasehold.stores.sqlite.rules.known import LaneNumbers
from leasehold.stores.sqlite.submitting.dependencies import Links
from leasehold.stores.sqlite.submitting.submit import submit_by
from leasehold.stores.sqlite.writing.application import ApplicationConnection
from leasehold.stores.sqlite.writing.database import Database
from leasehold.stores.sqlite.writing.step import Step
from leasehold.stores.tables.gate import tell_who_may_go_on
from leasehold.stores.tables.replies import Stored

T = TypeVar("T")


def connect(database: Database) -> ApplicationConnection:
    """A new connection for the application."""
    database.check_process()
    # A restored older copy has to be handled before anything is written.
    database.open_to_write()
    # A read, so that a closed store is noticed here and not in the first transaction.
    with database.read(), translated(database.files.database):
        connection = database.watch.opened(
            lambda: ApplicationConnection(
                database.files.database, database.durability, database.turn, database.after_commit
            )
        )
        database.application_connections.add(connection)
        return connection


def owns(database: Database, connection: OwnConnection) -> bool:
    """Whether a connection belongs to this store."""
    return (
        isinstance(connection, ApplicationConnection)
        and connection.database == database.files.database
    )


def address(database: Database) -> str:
    """The URL by which another process finds the same store."""
    return (
        f"sqlite:///{quote(str(database.files.database))}?durability={database.durability}"
        f"&lock_timeout_seconds={database.lock_timeout_seconds:g}"
    )


@shielded
def open_transaction(database: Database, job_id: str, version: int) -> HeldTransaction:
    """Begin the transaction of a running job, if the job is still held."""
    db = connect(database)
    try:
        db.begin(f", for job {job_id}")
        _refuse_stale(database, db, job_id, version)
    except BaseException:
        db.close()
        raise
    db.is_kept_open = True
    return HeldTransaction(database, db, job_id, version)


def _refuse_stale(database: Database, db: ApplicationConnection, job_id: str, version: int) -> None:
    if db.execute(HELD_LEASE, (job_id, version)).fetchone() is None:
        raise within(database, db, lambda step: refuse(step, job_id, version))


@shielded
def within(database: Database, connection: OwnConnection, operation: Callable[[Step], T]) -> T:
    """Carry out one operation as part of the open transaction; undo only it if it fails."""
    database.check_process()
    db = _check_connection(database.files.database, connection)
    with translated(database.files.database), _plain_rows(db), _part(db):
        step = Step.begin(db, db.cursor(), database.env, database.clock, db.remembered)
        # It must not roll back what came before it in the transaction.
        step.is_first = False
        answer = operation(step)
        Links.resolve(step)
        step.flush()
        if step.moved or step.newly_shown:
            tell_who_may_go_on(step)
        step.end()
    db.hints.take(step.hints)
    db.take_note()
    return answer


def submit_within(
    database: Database, connection: OwnConnection, drafts: Sequence[Draft], *, partial: bool
) -> list[Submitted | LeaseholdError]:
    """Submit them as part of the application's transaction."""

    def write(operation: Callable[[Step], Stored]) -> Stored:
        return within(database, connection, operation)

    # Lanes created by this transaction disappear if it is rolled back, so none is remembered.
    return submit_by(database, write, LaneNumbers(), drafts, partial=partial)


def _check_connection(database: Path, connection: OwnConnection) -> ApplicationConnection:
    if not isinstance(connection, ApplicationConnection):
        raise TransactionError(_foreign(connection))
    if connection.database != database:
        raise TransactionError(
            f"the connection leads to {connection.database}, and the jobs are in {database}: use "
            "one from this queue's connect()"
        )
    if connection.pid != os.getpid():
        raise TransactionError(
            "the connection was made before this process was forked: call connect() here"
        )
    with translated(database):
        if not connection.in_transaction:
            raise TransactionError(
                "the connection has no open transaction: submit inside `with "
                "connection.transaction():`, or leave out connection="
            )
        if connection.pragma("query_only"):
            raise TransactionError(
                "the connection only reads (PRAGMA query_only is on): use one that may write"
            )
    return connection


class HeldTransaction:
    """The transaction of one running job; see `leasehold.contract.transactions.JobTransaction`."""

    def __init__(
        self, database: Database, db: ApplicationConnection, job_id: str, version: int
    ) -> None:
        self._database = database
        self._db = db
        self._job_id = job_id
        self._version = version
        self._is_over = False

    @property
    def connection(self) -> ApplicationConnection:
        return self._db

    @property
    def is_open(self) -> bool:
        return not self._is_over

    def adopt(self) -> None:
        self._db.take_note()

    def report_progress(self, progress: bytes) -> None:
        check_progress(self._job_id, progress)
        self._fenced(
            lambda step: holding.report_progress(
                HolderBook(step), self._job_id, self._version, progress
            )
        )

    def append_log(self, lines: Sequence[LogLine], *, dropped: int = 0) -> None:
        self._fenced(
            lambda step: holding.append_log(
                HolderBook(step), self._job_id, self._version, lines, dropped
            )
        )

    @shielded
    def complete(self, settlement: Settlement) -> Settled:
        answer = self._fenced(lambda step: settle.settle(step, [settlement], {})[0])
        assert isinstance(answer, Settled)
        self._db.is_kept_open = False
        self._db.commit()
        self._is_over = True
        self._db.close()
        return answer

    @shielded
    def roll_back(self) -> None:
        if not self._is_over:
            self._is_over = True
            # Closing it rolls back, even while a statement is still being read.
            self._db.abandon()

    def _fenced(self, operation: Callable[[Step], object]) -> object:
        answer = within(self._database, self._db, operation)
        if isinstance(answer, LeaseLostError):
            raise answer
        return answer


@contextmanager
def _part(db: apsw.Connection) -> Iterator[None]:
    """Undo the writes inside if it raises; `Step.undo` knows the name."""
    db.execute("SAVEPOINT operation")
    try:
        yield
    except BaseException:
        # If the disk is full or failing, SQLite has rolled back the whole transaction.
        if db.in_transaction:
            db.execute("ROLLBACK TO operation")
            db.execute("RELEASE operation")
        raise
    db.execute("RELEASE operation")


@contextmanager
def _plain_rows(db: apsw.Connection) -> Iterator[None]:
    """The application may want its rows as something other than tuples; the store needs tuples."""
    row_trace, exec_trace = db.row_trace, db.exec_trace
    db.row_trace = db.exec_trace = None
    try:
        yield
    finally:
        db.row_trace, db.exec_trace = row_trace, exec_trace


def _foreign(connection: object) -> str:
    """Why a foreign connection cannot be used."""
    kind = type(connection)
    if kind.__module__.partition(".")[0] in ("sqlite3", "_sqlite3"):
        return (
            "this is a connection of the standard library's sqlite3, another SQLite than the one "
            "the store uses: two of them on one file in one process drop each other's locks, and "
            "commits are lost. Use an apsw connection from queue.connect(), for all your work on "
            "this file"
        )
    return (
        f"a {kind.__module__}.{kind.__qualname__} cannot carry the transaction: use a connection "
        "from queue.connect(), which knows when to wake the workers"
    )
