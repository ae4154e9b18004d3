"""Read connections, lent one at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import apsw

from leasehold.errors import StoreClosedError
from leasehold.interrupts import SHIELD
from leasehold.stores.sqlite.connection import open_reader
from leasehold.stores.sqlite.failures import translated

KEPT: Final = 8


class Readers:
    """A small pool: readers see the last commit and never wait for a writer."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._mutex = threading.Lock()
        self._idle: list[apsw.Connection] = []
        self._closed = False

    @contextmanager
    def lend(self) -> Iterator[apsw.Connection]:
        """A connection inside one read transaction, so that several queries see the same moment."""
        with SHIELD, self._mutex:
            if self._closed:
                raise StoreClosedError(f"the store {self._path} is closed")
            db = self._idle.pop() if self._idle else None
        db = db or open_reader(self._path)
        try:
            with translated(self._path):
                db.execute("BEGIN")
                yield db
        finally:
            # An interrupt on its way here leaves it to whoever closes this generator: it is then
            # taken back a little later, with the traceback.
            with SHIELD:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                self._take_back(db)

    def _take_back(self, db: apsw.Connection) -> None:
        with self._mutex:
            if not self._closed and len(self._idle) < KEPT:
                self._idle.append(db)
                return
        db.close()

    def close(self) -> None:
        with self._mutex:
            self._closed = True
            idle, self._idle = self._idle, []
        for db in idle:
            db.close()
