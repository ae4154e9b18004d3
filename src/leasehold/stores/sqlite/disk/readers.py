"""Read connections, lent one at a time."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import apsw

from leasehold.errors import StoreClosedError
from leasehold.interrupts import SHIELD
from leasehold.stores.sqlite.disk.connection import open_reader
from leasehold.stores.sqlite.disk.watch import FileWatch
from leasehold.stores.sqlite.writing.failures import translated

KEPT: Final = 8


class Readers:
    """A small pool: readers see the last commit and never wait for a writer."""

    def __init__(self, path: Path, watch: FileWatch) -> None:
        self._path = path
        self._watch = watch
        self._closed = False
        self._idle: list[apsw.Connection] = []
        self.begin_anew()

    def begin_anew(self) -> None:
        """Make what threads wait at; in a forked child again, where those threads are not."""
        self._mutex = threading.Lock()
        self._changed = threading.Condition(self._mutex)
        self._borrowers: dict[int, int] = {}
        """How many connections each thread has been lent."""
        self._paused = False
        self._pid = os.getpid()

    @contextmanager
    def lend(self) -> Iterator[apsw.Connection]:
        """A connection inside one read transaction, so that several queries see the same moment."""
        borrower = threading.get_ident()
        while True:
            with SHIELD, self._mutex:
                # A thread that reads already may read more: whoever pauses waits for it.
                if not self._paused or borrower in self._borrowers:
                    if self._closed:
                        raise StoreClosedError(f"the store {self._path} is closed")
                    db = self._idle.pop() if self._idle else None
                    self._borrowers[borrower] = self._borrowers.get(borrower, 0) + 1
                    break
            with self._mutex:
                self._changed.wait_for(lambda: not self._paused)
        try:
            self._watch.check_now_and_then()
            db = db or self._watch.opened(lambda: open_reader(self._path))
            with translated(self._path):
                db.execute("BEGIN")
                yield db
        finally:
            # An interrupt on its way here leaves it to whoever closes this generator: it is then
            # taken back a little later, with the traceback.
            with SHIELD:
                self._take_back(db, borrower)

    def _take_back(self, db: apsw.Connection | None, borrower: int) -> None:
        if self._pid != os.getpid():
            # Forked inside the read: it is the parent's connection, and not even to be closed.
            if db is not None:
                self._idle.append(db)
            return
        if db is not None and db.in_transaction:
            db.execute("ROLLBACK")
        with self._mutex:
            self._borrowers[borrower] -= 1
            if not self._borrowers[borrower]:
                del self._borrowers[borrower]
            if db is not None and not self._closed and len(self._idle) < KEPT:
                self._idle.append(db)
                db = None
            if self._paused:
                self._changed.notify_all()
        if db is not None:
            db.close()

    def pause(self, seconds: float) -> bool:
        """Let nobody begin a read, and wait for those under way; False if that takes too long.

        It cannot be done by a thread that is itself inside a read. Whatever the answer, `resume`
        must follow.
        """
        if not self._mutex.acquire(timeout=seconds):
            return False
        try:
            self._paused = True
            if threading.get_ident() in self._borrowers:
                return False
            return self._changed.wait_for(lambda: not self._borrowers, seconds)
        finally:
            self._mutex.release()

    def resume(self) -> None:
        """Let reads begin again."""
        with self._mutex:
            self._paused = False
            self._changed.notify_all()

    def close_idle(self) -> None:
        """Close the connections that nobody uses now."""
        with self._mutex:
            idle, self._idle = self._idle, []
        for db in idle:
            db.close()

    def close(self) -> None:
        with self._mutex:
            self._closed = True
        self.close_idle()
