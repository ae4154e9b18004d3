"""Beginning to write, and a whole write transaction outside the writer: when a store is opened."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import apsw

from leasehold.interrupts import SHIELD, Interrupted

PAUSES_SECONDS: Final = (0.001, 0.002, 0.005, 0.01, 0.015, 0.02, 0.025, 0.025, 0.025, 0.05)
"""Between one try and the next to get SQLite's own lock; the last one again and again."""

_never_free: Final = threading.Lock()
_never_free.acquire()


def wait_when_busy(db: apsw.Connection, limit_seconds: float) -> None:
    """Let a connection wait so long for SQLite's own locks. It can be interrupted, which SQLite's
    own busy timeout cannot.
    """
    waited = 0.0

    def is_worth_waiting(tries: int) -> bool:
        nonlocal waited
        waited = waited if tries else 0.0
        if waited >= limit_seconds or SHIELD.is_interrupted():
            return False
        pause = PAUSES_SECONDS[min(tries, len(PAUSES_SECONDS) - 1)]
        _never_free.acquire(timeout=pause)
        waited += pause
        return True

    db.set_busy_handler(is_worth_waiting)


def begin(db: apsw.Connection | apsw.Cursor) -> None:
    """Begin to write. Call it under the store's file lock; raises Interrupted when it had to wait
    and a signal came.
    """
    try:
        db.execute("BEGIN IMMEDIATE")
    except apsw.BusyError:
        if SHIELD.is_interrupted():
            raise Interrupted from None
        raise


@contextmanager
def transaction(db: apsw.Connection) -> Iterator[None]:
    """Commit the writes inside, or none of them. Call it under the store's file lock."""
    try:
        begin(db)
        yield
        db.execute("COMMIT")
    except BaseException:
        # Where the disk is full or failing, SQLite has already rolled back.
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
