"""Beginning to write: a transaction as such, and an application's turn with a note of its holder.

All writers take the file lock first, and hold it while they wait for SQLite's own write lock, so
only one process at a time waits for that, and none starves. The store's writer holds the file lock
until its commit. An application's transaction releases it as soon as it has begun: it may take
long, and the next writer waits for it, up to a limit.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import apsw

from leasehold.env import Env, from_micros
from leasehold.errors import StoreClosedError
from leasehold.interrupts import SHIELD, Interrupted
from leasehold.stores.sqlite.disk.files import StoreFiles
from leasehold.stores.sqlite.disk.holder import holder_of, is_stopped, open_transaction_of
from leasehold.stores.sqlite.disk.lock import LOCK_TIMEOUT_SECONDS, WriteLock

PAUSES_SECONDS: Final = (0.001, 0.002, 0.005, 0.01, 0.015, 0.02, 0.025, 0.025, 0.025, 0.05)
"""The pauses between tries to get SQLite's own lock; the last one is repeated."""

NEVER_FREE: Final = threading.Lock()
"""For pauses that an interrupt can end."""
NEVER_FREE.acquire()


def wait_when_busy(db: apsw.Connection, limit_seconds: float) -> None:
    """Let a connection wait this long for SQLite's own locks. The wait can be interrupted, unlike
    SQLite's own busy timeout.
    """
    waited = 0.0

    def is_worth_waiting(tries: int) -> bool:
        nonlocal waited
        waited = waited if tries else 0.0
        if waited >= limit_seconds or SHIELD.is_interrupted():
            return False
        pause = PAUSES_SECONDS[min(tries, len(PAUSES_SECONDS) - 1)]
        NEVER_FREE.acquire(timeout=pause)
        waited += pause
        return True

    db.set_busy_handler(is_worth_waiting)


def begin(db: apsw.Connection | apsw.Cursor) -> None:
    """Begin to write. Call it under the store's file lock; raises Interrupted if a signal comes
    while it waits.
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
        # If the disk is full or failing, SQLite has already rolled back.
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


class ApplicationTurn:
    """The beginning of every transaction of a store's application connections."""

    def __init__(
        self,
        files: StoreFiles,
        env: Env,
        lock_timeout_seconds: float = LOCK_TIMEOUT_SECONDS,
        before_commit: Callable[[], None] = lambda: None,
    ) -> None:
        self._files = files
        self._env = env
        self.lock_timeout_seconds = lock_timeout_seconds
        self.before_commit = before_commit
        """Raises if nothing may be committed any more."""
        # The process holds the file lock; this lock arbitrates among its threads.
        self._mutex = threading.Lock()
        self._lock: WriteLock | None = None
        self._closed = False

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Queue up, and hold the turn until the end of the block. Only inside the shield: it raises
        Interrupted.
        """
        # Another thread may be waiting for the file lock or SQLite's, as long as their limits
        # allow.
        SHIELD.acquire(self._mutex)
        try:
            if self._closed:
                raise StoreClosedError(f"the store {self._files.database} is closed")
            if self._lock is None:
                self._lock = WriteLock(self._files.write_lock, self._env, self.lock_timeout_seconds)
            self._lock.acquire("begin an application's transaction")
            try:
                yield
            finally:
                self._lock.release()
        finally:
            self._mutex.release()

    def note(self, purpose: str) -> str:
        """Note that a transaction has begun here; returns the note."""
        program = Path(sys.argv[0] or sys.executable).name
        thread = threading.current_thread().name
        since = self._env.now().isoformat(timespec="seconds")
        note = f"{os.getpid()} ({program}, thread {thread}) since {since}{purpose}"
        # Only processes that have waited in vain read it; on a full disk there is none.
        path = self._files.transaction_note
        try:
            with open(path, "w", encoding="utf-8", opener=for_its_owner_only) as file:
                file.write(note)
        except OSError:
            with suppress(OSError):
                path.unlink()
        return note

    def strike_out(self, note: str) -> None:
        """Remove the note of an ended transaction."""
        path = self._files.transaction_note
        with suppress(OSError):
            if path.read_text(encoding="utf-8") == note:
                path.unlink()

    def begin_anew(self) -> None:
        """In a forked child: the parent's lock is closed there, and its threads are gone."""
        self._mutex = threading.Lock()
        self._lock = None

    def close(self) -> None:
        """Refuse further transactions. Call it inside the shield: it raises Interrupted."""
        self._closed = True
        SHIELD.acquire(self._mutex)
        try:
            if self._lock is not None:
                self._lock.close()
                self._lock = None
        finally:
            self._mutex.release()


def for_its_owner_only(path: str, flags: int) -> int:
    """A file opener whose files other users of the machine cannot read."""
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def who_writes(files: StoreFiles) -> list[dict[str, Any]]:
    """The process that keeps others from writing at this moment: an open transaction first, since
    the holder of the lock may be waiting for it. It takes no lock, so it works while the lock is
    held.
    """
    found = []
    transaction = open_transaction_of(files.database)
    if transaction is not None:
        pid, note = transaction
        since = note.rpartition(" since ")[2].partition(",")[0]
        found.append((pid, "has a transaction open", since))
    holder = holder_of(files.write_lock)
    if holder is not None:
        since = from_micros(holder.since_micros).isoformat(timespec="seconds")
        found.append((holder.pid, f"holds the write lock, doing: {holder.doing}", since))
    return [
        {"pid": pid, "what": what, "since": since, "stopped": is_stopped(pid)}
        for pid, what, since in found
    ]
