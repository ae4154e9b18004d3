"""The store's file lock, which makes processes take turns to write.

The kernel serves waiting processes in order, and would let them wait for ever. So a thread of the
lock does the waiting: it keeps the place in the kernel's queue, while the caller waits for the
thread, with a timeout and interruptibly. A caller that gives up leaves the place to the next one in
this process; if there is none when the lock is granted, it is released.
"""

from __future__ import annotations

import fcntl
import os
import threading
import weakref
from pathlib import Path
from typing import Final

from leasehold.env import SYSTEM, Env
from leasehold.errors import StoreBusyError
from leasehold.forking import at_fork
from leasehold.interrupts import SHIELD, Interrupted
from leasehold.stores.sqlite.disk.files import FileId, locked_file_id
from leasehold.stores.sqlite.disk.holder import (
    HolderNote,
    busy,
    holder_of,
    is_stopped,
    open_transaction_of,
    writers_of,
)

LOCK_TIMEOUT_SECONDS: Final = 30.0
"""How long a write waits for its turn by default."""
LOCK_TIMEOUT_SECONDS_MAX: Final = 86_400.0


class WriteLock:
    """Held by one process at a time, and freed by the kernel when that process dies.

    Within a process, one thread at a time may use one of these.
    """

    def __init__(
        self, path: Path, env: Env = SYSTEM, timeout_seconds: float = LOCK_TIMEOUT_SECONDS
    ) -> None:
        self._path = path
        self._timeout_seconds = timeout_seconds
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._note = HolderNote(fd, env)
        self._line = _Line(fd)
        self._fd = fd
        _open_locks.add(self)

    @property
    def file(self) -> FileId:
        return locked_file_id(self._fd)

    def acquire(self, doing: str) -> None:
        """Take the lock. Raises StoreBusyError after the timeout, or Interrupted."""
        if self._line.is_standing or not _try(self._fd):
            self._wait()
        self._note.write(doing)

    def release(self) -> None:
        if self._fd >= 0:  # A process forked while the lock was held does not have it.
            self._note.strike_out()
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def _wait(self) -> None:
        if self._line.wait(self._timeout_seconds):
            return
        # Its folder is the database's name followed by "-run".
        database = Path(str(self._path.parent).removesuffix("-run"))
        if open_transaction_of(database) is not None:
            # The holder of the lock waits for that transaction too.
            raise busy(database)
        holder = holder_of(self._path)
        waited = f"{database} stays locked: after {self._timeout_seconds:g} s of waiting,"
        if holder is None:
            raise self._held_without_a_note(waited)
        raise StoreBusyError(
            f"{waited} {holder.in_words()}",
            holder_pid=holder.pid,
            is_holder_stopped=holder.is_stopped,
        )

    def _held_without_a_note(self, waited: str) -> StoreBusyError:
        """The holder of the lock has not left a note yet, or is another program."""
        known = sorted(writers_of(self._path, "FLOCK") or ())
        if not known:
            return StoreBusyError(f"{waited} another process still holds its write lock; try again")
        stopped = is_stopped(known[0])
        state = ", and is stopped" if stopped else ""
        return StoreBusyError(
            f"{waited} process {known[0]} still holds its write lock{state}: look at it, then try "
            "again",
            holder_pid=known[0],
            is_holder_stopped=stopped,
        )

    def __enter__(self) -> None:
        self.acquire("open the store")

    def __exit__(self, *_: object) -> None:
        self.release()

    def close(self) -> None:
        _open_locks.discard(self)
        self._line.close(join=True)
        self.drop()

    def drop(self) -> None:
        """Close the descriptors regardless of threads: in a fork there are none."""
        self._note.close()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0:
            # Do not wait for a thread: the interpreter may be exiting, and its threads with it.
            self._line.close(join=False)
            self.drop()


class _Line:
    """A place in the kernel's queue for the lock, kept by a thread that blocks there."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._mutex = threading.Lock()
        self._asked = threading.Lock()
        self._asked.acquire()
        self._granted = threading.Lock()
        self._granted.acquire()
        self._thread: threading.Thread | None = None
        self.is_standing = False
        """Whether the thread is in the queue now, for a caller or for one that gave up."""
        self._is_wanted = False
        self._is_closed = False
        self._waited_seconds = 0.0

    def wait(self, timeout_seconds: float) -> bool:
        """Wait for the lock; False after the timeout, which counts from when the place was taken:
        an interrupted caller that comes back does not get more time.
        """
        with self._mutex:
            self._is_wanted = True
            if not self.is_standing:
                self._stand()
        try:
            if SHIELD.acquire(self._granted, max(0.0, timeout_seconds - self._waited_seconds)):
                return True
        except Interrupted as interrupted:
            self._waited_seconds += interrupted.waited_seconds
            if self._give_up():
                raise
            return True
        except BaseException:
            # An exception raised from outside, in any way: no caller is left to take the lock.
            if not self._give_up():
                fcntl.flock(self._fd, fcntl.LOCK_UN)
            raise
        self._waited_seconds = 0.0
        return not self._give_up()

    def _stand(self) -> None:
        if self._thread is None:
            thread = threading.Thread(
                target=self._keep_place, name="leasehold-write-lock", daemon=True
            )
            thread.start()
            self._thread = thread
        self.is_standing = True
        self._waited_seconds = 0.0
        self._asked.release()

    def _give_up(self) -> bool:
        """Leave the place to the next caller; False if the lock was granted in this moment."""
        with self._mutex:
            if self._granted.acquire(blocking=False):
                return False
            self._is_wanted = False
            return True

    def _keep_place(self) -> None:
        while True:
            self._asked.acquire()
            if self._is_closed:
                return
            fcntl.flock(self._fd, fcntl.LOCK_EX)
            with self._mutex:
                self.is_standing = False
                if self._is_closed:
                    return  # With the descriptor went the lock; its number may be another's now.
                if self._is_wanted:
                    self._granted.release()
                else:
                    fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self, *, join: bool) -> None:
        """End the thread, at the latest when the lock would have been granted."""
        with self._mutex:
            if self._is_closed:
                return
            self._is_closed = True
            if self._thread is None or self.is_standing:
                return
            self._asked.release()
        if join:
            self._thread.join()


def _try(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


_open_locks: weakref.WeakSet[WriteLock] = weakref.WeakSet()


def _let_go_in_fork() -> None:
    # A forked child shares its parent's lock. If the parent were killed while holding it, the
    # child, unaware of it, would keep everybody waiting for as long as it lives.
    for lock in list(_open_locks):
        lock.drop()


at_fork(after_in_child=_let_go_in_fork)
