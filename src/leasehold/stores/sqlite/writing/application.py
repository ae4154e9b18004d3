"""The application's own connection to the store's file.

It is an apsw connection, configured like the store's own writer. In addition, its transactions take
turns with all others, and jobs submitted in one wake workers once it is committed, in whatever way.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self

import apsw

from leasehold.errors import TransactionError
from leasehold.interrupts import shielded
from leasehold.stores.sqlite.disk.connection import (
    BUSY_SECONDS,
    WAL_BYTES_KEPT,
    WAL_PAGES_BEFORE_CHECKPOINT,
)
from leasehold.stores.sqlite.disk.failures import translated
from leasehold.stores.sqlite.disk.files import Durability
from leasehold.stores.sqlite.schema.damaged_cells import add_reads_as
from leasehold.stores.sqlite.writing.step import Remembered
from leasehold.stores.sqlite.writing.turn import ApplicationTurn, begin, wait_when_busy
from leasehold.stores.tables.step import Hints

_open_transactions: Final[dict[tuple[int, Path], weakref.ref[ApplicationConnection]]] = {}
"""The connection that has a transaction open, by thread and file, as far as is known.

A connection that was simply dropped is closed by then, and its transaction rolled back. The weak
references have no callbacks: see `disk.open_connections`.
"""


class ApplicationConnection(apsw.Connection):
    """See `leasehold.core.contract.transactions.Connection`.

    No weak reference to one may have a callback: see `disk.open_connections`.
    """

    def __init__(
        self,
        database: Path,
        durability: Durability,
        turn: ApplicationTurn,
        after_commit: Callable[[Hints], None],
    ) -> None:
        # Never creates the file, since the store has.
        super().__init__(str(database), flags=apsw.SQLITE_OPEN_READWRITE)
        self.database = database
        self.remembered = Remembered()
        """Its own memory: the store's belongs to the leader of its writes."""
        self.hints = Hints()
        """The listeners to wake when the open transaction is committed."""
        self.is_kept_open = False
        """Whether commits are refused now, because a job's completion has yet to join."""
        self.turn = turn
        self._after_commit = after_commit
        self._entered: list[Transaction] = []
        self._note: str | None = None
        self._key: tuple[int, Path] | None = None
        self.pid = os.getpid()
        self.is_closed = False
        self._configure(durability)

    def _configure(self, durability: Durability) -> None:
        wait_when_busy(self, min(BUSY_SECONDS, self.turn.lock_timeout_seconds))
        add_reads_as(self)
        for pragma in (
            f"synchronous = {durability.upper()}",
            f"journal_size_limit = {WAL_BYTES_KEPT}",
            "temp_store = MEMORY",
        ):
            self.execute(f"PRAGMA {pragma}").fetchall()
        # A hook with a reference to its own connection would keep it alive for ever.
        itself = weakref.ref(self)
        # It replaces SQLite's automatic checkpoints, so it does their work too.
        self.set_wal_hook(_committed)
        self.set_rollback_hook(lambda: _rolled_back(itself))
        self.set_commit_hook(lambda: _may_commit(itself))

    # -- transactions ------------------------------------------------------------------------

    def transaction(self) -> Transaction:
        """A block that is one transaction; inside another one, a nested part that can be undone
        alone.
        """
        return Transaction(self)

    def __enter__(self) -> Self:
        # apsw's own would begin without a turn, and fail if others have written meanwhile.
        entered = self.transaction()
        entered.__enter__()
        self._entered.append(entered)
        return self

    def __exit__(
        self,
        etype: type[BaseException] | None,
        evalue: BaseException | None,
        etraceback: TracebackType | None,
    ) -> Literal[False]:
        self._entered.pop().__exit__(etype, evalue, etraceback)
        return False

    @shielded
    def begin(self, purpose: str = "") -> None:
        """Begin to write, taking a turn; waits for the present writer.

        An interrupt may be raised after it has begun: the caller then rolls back.
        """
        self.turn.before_commit()
        check_not_inside(self.database)
        with translated(self.database), self.turn.taken():
            begin(self)
        self.take_note(purpose)

    @shielded
    def take_note(self, purpose: str = "") -> None:
        """Record that this thread has a transaction open here."""
        if self._key is not None:
            _open_transactions.pop(self._key, None)
        self._key = (threading.get_ident(), self.database)
        _open_transactions[self._key] = weakref.ref(self)
        self._note = self._note or self.turn.note(purpose)

    @shielded
    def commit(self) -> None:
        self.turn.before_commit()
        with translated(self.database):
            self.execute("COMMIT")
        self.ended()

    @shielded
    def roll_back(self) -> None:
        """Undo everything; harmless if SQLite has already done so."""
        # A process forked inside the transaction leaves it alone: it is the parent's.
        if self.pid == os.getpid() and self.in_transaction:
            self.execute("ROLLBACK")
        self.ended()

    @shielded
    def ended(self) -> None:
        """Called when the transaction is over, either way: the thread may write elsewhere again."""
        if self._key is not None:
            _open_transactions.pop(self._key, None)
            self._key = None
        if self._note is not None:
            self.turn.strike_out(self._note)
            self._note = None

    def tell(self) -> None:
        """Wake the listeners that the commit concerns."""
        hints, self.hints = self.hints, Hints()
        if hints:
            self._after_commit(hints)

    @shielded
    def close(self, force: bool = False) -> None:
        """Close it; an open transaction is rolled back. In a forked process it stays as it is."""
        if self.pid != os.getpid():
            return
        super().close(force)
        self.is_closed = True
        self.hints = Hints()
        self.ended()

    def __del__(self) -> None:
        # Closing it rolls back, for which SQLite calls a hook. The garbage collector might already
        # have destroyed the hook by then, and the process would crash.
        if getattr(self, "pid", None) == os.getpid():
            self.close(force=True)


class Transaction:
    """One block of `with connection.transaction()`."""

    def __init__(self, connection: ApplicationConnection) -> None:
        self._connection = connection
        self._savepoint: str | None = None
        self._net: _SafetyNet | None = None

    def __enter__(self) -> ApplicationConnection:
        connection = self._connection
        if connection.in_transaction:
            self._savepoint = f"part_{id(self)}"
            connection.execute(f"SAVEPOINT {self._savepoint}")
            return connection
        self._net = _SafetyNet(connection)
        try:
            connection.begin()
            return connection
        except BaseException:
            self._roll_back()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        connection = self._connection
        if self._savepoint is not None:
            # If all of it was rolled back, by SQLite or inside the block, the nested part is gone
            # too.
            if connection.in_transaction:
                if kind is not None:
                    connection.execute(f"ROLLBACK TO {self._savepoint}")
                connection.execute(f"RELEASE {self._savepoint}")
        elif kind is not None:
            self._roll_back()
        else:
            try:
                connection.commit()
            finally:
                # A failed commit must not be repeated, whatever its cause.
                self._roll_back()

    @shielded
    def _roll_back(self) -> None:
        if self._net is not None:
            self._connection.roll_back()
            self._net.connection = None
            self._net = None


class _SafetyNet:
    """Rolls back an abandoned transaction: an interrupt may hit the call of __exit__ itself.

    It is a separate object so that it is usually finalized inside the shield: Python drops an
    interrupt raised in a finalizer.
    """

    connection: ApplicationConnection | None = None

    def __init__(self, connection: ApplicationConnection) -> None:
        self.connection = connection

    def __del__(self) -> None:
        if self.connection is not None:
            with suppress(apsw.ConnectionClosedError):  # Closing it has rolled back.
                self.connection.roll_back()


def is_inside(database: Path) -> bool:
    """Whether this thread has a transaction open there."""
    if not _open_transactions:
        return False
    itself = _open_transactions.get((threading.get_ident(), database))
    # In a forked process, a dropped connection of the parent leaves its entry here.
    return itself is not None and itself() is not None


def check_not_inside(database: Path) -> None:
    """Refuse a write by a thread that has a transaction open, since it would wait for itself."""
    if is_inside(database):
        raise TransactionError(
            f"this thread has a transaction open on {database}, and this call would write outside "
            "that transaction, and so wait for itself: submit with connection=..., or do it after "
            "the commit (in asyncio code: await it)"
        )


def _committed(db: apsw.Connection, _schema: str, pages: int) -> int:
    """Called by SQLite after a commit, when the write lock is free again."""
    assert isinstance(db, ApplicationConnection)
    db.ended()
    if pages >= WAL_PAGES_BEFORE_CHECKPOINT:
        _checkpoint(db)
    db.tell()
    return apsw.SQLITE_OK


def _checkpoint(db: apsw.Connection) -> None:
    try:
        db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
    except apsw.Error:
        # The writes are committed; the next commit, here or elsewhere, tries again.
        return


def _rolled_back(itself: Callable[[], ApplicationConnection | None]) -> None:
    connection = itself()
    if connection is not None:
        connection.hints = Hints()
        connection.ended()


def _may_commit(itself: Callable[[], Any]) -> bool:
    connection = itself()
    if connection is not None:
        connection.turn.before_commit()
    if connection is not None and connection.is_kept_open:
        raise TransactionError(
            "ctx.transaction() commits by itself, together with the job's completion, when the "
            "task returns: all of it was rolled back now; leave out the COMMIT"
        )
    return False
