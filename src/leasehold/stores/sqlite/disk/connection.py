"""Opening SQLite connections in the one correct way.

Read connections, lent one at a time.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import apsw

from leasehold.core.model.text import mentions
from leasehold.errors import StoreClosedError, StoreUnavailableError
from leasehold.interrupts import SHIELD
from leasehold.stores.sqlite.disk.failures import translated
from leasehold.stores.sqlite.disk.files import Durability
from leasehold.stores.sqlite.disk.log_sync import LogSync
from leasehold.stores.sqlite.disk.watch import FileWatch
from leasehold.stores.sqlite.schema.damaged_cells import add_reads_as
from leasehold.stores.sqlite.schema.migrate import migrate, migrations, schema_version
from leasehold.stores.sqlite.writing.turn import wait_when_busy

SQLITE_OLDEST: Final = (3, 51, 3)
"""The oldest safe version: up to 3.51.2 a reset of the write-ahead log can corrupt the database."""

BUSY_SECONDS: Final = 10.0
"""How long to wait for SQLite's own locks, usually for an application's transaction."""
WAL_PAGES_BEFORE_CHECKPOINT: Final = 4000
WAL_BYTES_KEPT: Final = 64 * 1024 * 1024
STATEMENTS_KEPT: Final = 500
"""More than any verb needs: with the usual hundred, a check would prepare all of its own again."""


def check_sqlite_version() -> None:
    """Refuse a SQLite that is known to lose data."""
    version = tuple(int(part) for part in apsw.sqlite_lib_version().split("."))
    if version < SQLITE_OLDEST:
        raise StoreUnavailableError(
            f"this apsw brings SQLite {apsw.sqlite_lib_version()}, which can corrupt a database "
            "in WAL mode; upgrade apsw to one with SQLite 3.51.3 or later",
            is_transient=False,
        )


def open_writer(
    path: Path, durability: Durability, busy_seconds: float | None = None
) -> apsw.Connection:
    """A connection that may write, with the schema up to date. Call it under the store's file lock.

    A file of another program is refused untouched.
    """
    with translated(path):
        db = connected(path)
        try:
            wait_when_busy(db, BUSY_SECONDS if busy_seconds is None else busy_seconds)
            schema_version(db, path)
            # Each pragma is a separate call: apsw runs a string of several only up to the first
            # row.
            for pragma in (
                "auto_vacuum = INCREMENTAL",  # takes effect only before the first table
                "journal_mode = WAL",
                f"synchronous = {durability.upper()}",
                f"wal_autocheckpoint = {WAL_PAGES_BEFORE_CHECKPOINT}",
                f"journal_size_limit = {WAL_BYTES_KEPT}",
                "cache_size = -65536",
                "temp_store = MEMORY",
                "trusted_schema = OFF",
            ):
                db.execute(f"PRAGMA {pragma}").fetchall()
            migrate(db, path)
        except BaseException:
            db.close()
            raise
        return db


def open_reader(path: Path) -> apsw.Connection:
    """A connection that can only read, and never waits for a writer."""
    with translated(path):
        # Not opened read-only: the last one to close must be able to checkpoint the WAL.
        db = connected(path)
        db.execute("PRAGMA query_only = ON").fetchall()
        db.execute("PRAGMA cache_size = -16384").fetchall()
        return db


def is_up_to_date(db: apsw.Connection, path: Path) -> bool:
    """Whether the schema is Leasehold's newest; a file of another program is refused."""
    with translated(path):
        return schema_version(db, path) == migrations()[-1][0]


def connected(path: Path) -> apsw.Connection:
    """A connection to a file that must exist, with the settings that all connections have."""
    db = apsw.Connection(
        str(path), flags=apsw.SQLITE_OPEN_READWRITE, statementcachesize=STATEMENTS_KEPT
    )
    db.set_busy_timeout(round(BUSY_SECONDS * 1000))
    _keep_plans(db)
    # SQLite's own `lower` knows no letters beyond ASCII.
    db.create_scalar_function("mentions", _mentions, 2, deterministic=True)
    add_reads_as(db)
    return db


def _mentions(*values: Any) -> int:
    text, part = values
    # Payloads and messages are bytes, which need not be UTF-8.
    return mentions(text.decode(errors="replace") if isinstance(text, bytes) else text, part)


def _keep_plans(db: apsw.Connection) -> None:
    """Plan a statement only once. Otherwise SQLite plans those with a range, or on a table with a
    partial index, again for every new value, which costs more than carrying them out.
    """
    db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)


KEPT: Final = 8


class _Loan:
    """Held by a reading thread until it returns the connection."""

    __slots__ = ("__weakref__",)


class _Lent(NamedTuple):
    borrower: int
    db: apsw.Connection


class Readers:
    """A small pool: readers see the last commit and never wait for a writer.

    A read returns only when the commits it has seen are durable.

    A connection comes back however a read is left. A signal handler may raise at any instruction,
    even while the connection is being returned, so the pool tracks loans by weak references, and
    the next caller reclaims connections that nobody holds any more.
    """

    def __init__(self, path: Path, watch: FileWatch, sync: LogSync) -> None:
        self._path = path
        self._watch = watch
        self._sync = sync
        self._closed = False
        self._idle: list[apsw.Connection] = []
        self.begin_anew()

    def begin_anew(self) -> None:
        """Create the locks; called again in a forked child, where the threads that may hold them do
        not exist.
        """
        self._mutex = threading.Lock()
        self._changed = threading.Condition(self._mutex)
        self._lent: dict[weakref.ref[_Loan], _Lent] = {}
        self._paused = False
        self._pid = os.getpid()

    @contextmanager
    def lend(self) -> Iterator[apsw.Connection]:
        """A connection inside one read transaction, so that several queries see the same moment."""
        loan = _Loan()
        try:
            db = self._borrow(loan)
            self._watch.check_now_and_then()
            with translated(self._path):
                db.execute("BEGIN")
                yield db
            self._sync.make_seen_durable()
        finally:
            self._give_back(loan)

    def _borrow(self, loan: _Loan) -> apsw.Connection:
        borrower = threading.get_ident()
        while True:
            # Opened in here too: if the last connection were lost, SQLite would delete the log.
            with SHIELD, self._mutex:
                self._fetch_abandoned()
                # A thread that is already reading may read more: a pause waits for it.
                if not self._paused or self._is_reading(borrower):
                    if self._closed:
                        raise StoreClosedError(f"the store {self._path} is closed")
                    db = self._idle.pop() if self._idle else self._open()
                    self._lent[weakref.ref(loan)] = _Lent(borrower, db)
                    return db
            with self._mutex:
                self._changed.wait_for(lambda: not self._paused)

    def _open(self) -> apsw.Connection:
        return self._watch.opened(lambda: open_reader(self._path))

    def _give_back(self, loan: _Loan) -> None:
        with SHIELD, self._mutex:
            lent = self._lent.pop(weakref.ref(loan), None)
            if lent is None:
                return
            if self._pid != os.getpid():
                # Forked inside the read: the connection is the parent's and must not even be
                # closed.
                self._idle.append(lent.db)
            else:
                self._take_back(lent.db)

    # -- under the mutex ---------------------------------------------------------------------

    def _take_back(self, db: apsw.Connection) -> None:
        if db.in_transaction:
            db.execute("ROLLBACK")
        if self._closed or len(self._idle) >= KEPT:
            db.close()
        else:
            self._idle.append(db)
        if self._paused:
            self._changed.notify_all()

    def _fetch_abandoned(self) -> None:
        for loan in [each for each in self._lent if each() is None]:
            self._take_back(self._lent.pop(loan).db)

    def _is_reading(self, thread: int) -> bool:
        return any(lent.borrower == thread for lent in self._lent.values())

    def _is_unused(self) -> bool:
        self._fetch_abandoned()
        return not self._lent

    # -- forks, and the end ------------------------------------------------------------------

    def pause(self, seconds: float) -> bool:
        """Block new reads, and wait for running ones; False if that takes too long.

        A thread that is itself inside a read cannot do this. `resume` must always follow.
        """
        if not self._mutex.acquire(timeout=seconds):
            return False
        try:
            self._paused = True
            self._fetch_abandoned()
            if self._is_reading(threading.get_ident()):
                return False
            return self._changed.wait_for(self._is_unused, seconds)
        finally:
            self._mutex.release()

    def resume(self) -> None:
        """Let reads begin again."""
        with self._mutex:
            self._paused = False
            self._changed.notify_all()

    def close_idle(self) -> None:
        """Close the idle connections."""
        with self._mutex:
            self._fetch_abandoned()
            idle, self._idle = self._idle, []
        for db in idle:
            db.close()

    def close(self) -> None:
        with self._mutex:
            self._closed = True
        self.close_idle()
