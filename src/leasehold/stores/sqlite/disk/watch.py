"""Noticing that the file under an open store is no longer the one at its path.

If it is deleted (`rm`), replaced (`mv` over it) or moved away with its folder, an open file keeps
accepting commits that will never be read. So before each commit a write asks the kernel for news
about its files (`Notices`), and checks their paths if there is any, if the kernel cannot be asked,
or if the last check was a second ago; a read checks once a second. A lost store stays lost, even if
the file is moved back, since the writes of others meanwhile are unknown here. The application
decides whether to open the store again.

The same holds for SQLite's log and its index, without which the database is neither whole nor safe:
commits to a deleted log are read by nobody else, and two processes with different indexes overwrite
each other; and for the lock files, without which two processes write at the same time. While a
connection is open, SQLite itself deletes neither. A deleted log is still complete for a process
that has it open: it is copied into the database at once (`save_log`) if nobody has started another
one. If somebody has, nothing is copied any more, not even by closing: that could put old pages over
new ones.

A file that was made, deleted and made again may get the same inode, but not while it is open here.
Closing the connections of a lost file is harmless: SQLite deletes the write-ahead log by name,
which may belong to another file by then, but first checks whether the database has moved.

Checking six paths takes ten times as long as asking whether there is news about them, and a write
asks before each commit. The kernel (Linux, with inotify) records such news in the call that deletes
or moves a file, and reports it to the next caller. It does not report that a folder further up was
moved, or that a disk was mounted over it, so a caller also checks the paths now and then.

The kernel takes some 15 ms to close such a descriptor, but no time to reuse it for other files, so
a few are kept when they are no longer needed.
"""

from __future__ import annotations

import os
import select
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import apsw

from leasehold.env import Env
from leasehold.errors import StoreLostError
from leasehold.forking import at_fork
from leasehold.stores.sqlite.disk import forks
from leasehold.stores.sqlite.disk.files import FileId, StoreFiles
from leasehold.stores.sqlite.disk.open_connections import OpenConnections

if TYPE_CHECKING:
    from ctypes import CDLL


# The number of links changes when an open file is deleted.
_IN_ATTRIB: Final = 0x004
_IN_DELETE_SELF: Final = 0x400
_IN_MOVE_SELF: Final = 0x800
_MASK: Final = _IN_ATTRIB | _IN_DELETE_SELF | _IN_MOVE_SELF

SPARE_MAX: Final = 4
_spare: list[tuple[int, int]] = []
"""Descriptors that watch nothing, each with its process: one copied by a fork would take news away
from the process that waits for it.
"""


class Notices:
    """News about some files since this object was made."""

    def __init__(self, fd: int, libc: CDLL) -> None:
        self._fd = fd
        self._pid = os.getpid()
        self._libc = libc
        self._watches: set[int] = set()
        self._poll = select.poll()
        self._poll.register(fd, select.POLLIN)

    @classmethod
    def of(cls, paths: Iterable[str]) -> Notices | None:
        """Watch these files from now on; None if the system cannot, or already has too many
        watches.
        """
        if sys.platform != "linux":
            return None
        try:
            import ctypes
        except ImportError:
            return None
        libc = ctypes.CDLL(None)
        fd = _take_spare()
        if fd < 0:
            fd = int(libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK))
        if fd < 0:
            return None
        notices = cls(fd, libc)
        return notices if all(map(notices._watch, paths)) else None

    def _watch(self, path: str) -> bool:
        watch = int(self._libc.inotify_add_watch(self._fd, os.fsencode(path), _MASK))
        self._watches.add(watch)
        return watch >= 0

    def have_come(self) -> bool:
        """Whether there is news, without details."""
        return bool(self._poll.poll(0))

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd < 0:
            return
        if len(_spare) >= SPARE_MAX or self._pid != os.getpid() or not _tells_news(fd):
            os.close(fd)
            return
        for watch in self._watches:
            self._libc.inotify_rm_watch(fd, watch)
        _spare.append((self._pid, fd))

    def __del__(self) -> None:
        self.close()


def _take_spare() -> int:
    """A descriptor that watches nothing and has no news; -1 if there is none."""
    while _spare:
        pid, fd = _spare.pop()
        if pid == os.getpid() and _tells_news(fd):
            with suppress(BlockingIOError):
                while os.read(fd, 65536):
                    pass
            return fd
    return -1


def _tells_news(fd: int) -> bool:
    """Whether this is still the same descriptor: application code that closes unknown descriptors
    may let the number go to another file.
    """
    try:
        return os.readlink(f"/proc/self/fd/{fd}") == "anon_inode:inotify"
    except OSError:
        return False


def _leave_to_parent() -> None:
    for _, fd in _spare:
        with suppress(OSError):
            os.close(fd)
    _spare.clear()


at_fork(after_in_child=_leave_to_parent)


LOOK_SECONDS: Final = 1.0
"""How old the last check may be for a read, and for a write without news about its files."""

_Logs = tuple[FileId | None, FileId | None]
"""The log and its index."""

C = TypeVar("C", bound=apsw.Connection)


class FileWatch:
    """Which file was opened, and whether it is still in its place."""

    def __init__(self, files: StoreFiles, env: Env) -> None:
        self._files = files
        self._clock = env.clock
        self._database = os.fspath(files.database)
        self._run_folder = os.fspath(files.run_folder)
        self._file: FileId | None = None
        self._folder = _file_id(self._run_folder)
        self._log = os.fspath(files.log)
        self._log_index = os.fspath(files.log_index)
        self._logs: _Logs | None = None
        self._locked: dict[str, FileId] = {}
        self._connections = OpenConnections[apsw.Connection]()
        self._lost: str | None = None
        self._looked_at = float("-inf")
        self._mutex = threading.Lock()
        self._notices: Notices | None = None
        self._has_other_files = False
        """Whether there are files to watch that the kernel was not yet asked about."""
        self._is_worth_asking = False
        """Whether the kernel is asked for news: not by a process that commits once, for which it
        would be expensive.
        """

    @property
    def file(self) -> FileId | None:
        """The file that was opened; None before the first connection."""
        return self._file

    def opened(self, connect: Callable[[], C]) -> C:
        """Open a connection to the same file as all previous ones; all of them come from here."""
        expected = self._files.file_id()
        if self._file is not None:
            self.check()
        if expected is not None:
            forks.refuse_inherited(expected, self._files.database)
        connection = connect()
        self._connections.add(connection)
        if self._file is None:
            self._file = expected
        if self._logs is None:
            logs = self._logs_in_place()
            self._logs = None if None in logs else logs
            self._has_other_files = True
        try:
            self.check()
        except StoreLostError:
            connection.close()
            raise
        return connection

    def watch_locked(self, path: Path, file: FileId) -> None:
        """From now on also watch a file that this process has locked."""
        self._locked[os.fspath(path)] = file
        self._has_other_files = True

    def all_closed(self) -> None:
        """Called when this process has closed every connection and lock: SQLite may have deleted
        its log.
        """
        with self._mutex:
            self._logs = None
            self._locked.clear()
            self._forget_notices()

    def check_before_commit(self) -> None:
        """Raise StoreLostError unless every file is in its place, as far as the kernel tells."""
        with self._mutex:
            if self._has_other_files or (self._notices and self._notices.have_come()):
                self._has_other_files = False
                self._forget_notices()
            if (
                self._lost is None
                and self._notices is not None
                and self._clock.monotonic() - self._looked_at < LOOK_SECONDS
            ):
                return
            if self._notices is None and self._is_worth_asking:
                # Made before the check, so that any later change is news.
                self._notices = Notices.of(self._paths())
            self._is_worth_asking = True
        self.check()

    def check(self) -> None:
        """Raise StoreLostError unless every file is in its place."""
        if self._lost is None:
            self._looked_at = self._clock.monotonic()
            self._look()
        if self._lost is not None:
            raise StoreLostError(self._lost)

    def _look(self) -> None:
        # Not through pathlib, which takes longer than the system call.
        try:
            status = os.stat(self._database)
        except OSError as error:
            self._lose(f"was deleted or moved away ({error.strerror})")
        else:
            if (status.st_dev, status.st_ino) != self._file:
                self._lose("was replaced by another file")
        logs = self._logs
        if logs is not None and (in_place := self._logs_in_place()) != logs:
            self._lose_log(logs, in_place)
        if _file_id(self._run_folder) != self._folder:
            self._lose("has lost its folder of locks, which was deleted or replaced")
        # A copy: the first write of another thread may add to it meanwhile.
        for path, file in list(self._locked.items()):
            if _file_id(path) != file:
                self._lose(f"has lost its lock file {path}, which was deleted or replaced")

    def _paths(self) -> list[str]:
        folder = os.path.dirname(self._database)
        logs = [] if self._logs is None else [self._log, self._log_index]
        return [folder, self._database, *logs, self._run_folder, *self._locked]

    def _forget_notices(self) -> None:
        if self._notices is not None:
            self._notices.close()
            self._notices = None

    def check_now_and_then(self) -> None:
        """The same, if the last check was a while ago."""
        if self._file is not None and (
            self._lost is not None or self._clock.monotonic() - self._looked_at >= LOOK_SECONDS
        ):
            self.check()

    def save_log(self, db: apsw.Connection) -> None:
        """Copy a deleted log into the database, if that can do no harm."""
        if (
            self._logs is not None
            and _file_id(self._database) == self._file
            and _file_id(self._log) is None
        ):
            # If it fails, closing the last connection tries again.
            with suppress(apsw.Error):
                db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)

    def _logs_in_place(self) -> _Logs:
        return _file_id(self._log), _file_id(self._log_index)

    def _lose_log(self, opened: _Logs, in_place: _Logs) -> None:
        self._lose("has lost its -wal or its -shm file, which was deleted or replaced")
        if any(now not in (None, then) for then, now in zip(opened, in_place, strict=True)):
            for connection in list(self._connections):
                # A connection that is closed or in use by another thread refuses.
                with suppress(apsw.Error):
                    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)

    def _lose(self, what: str) -> None:
        self._lost = self._lost or (
            f"{self._database} {what} while this process had it open: nothing more is read from "
            "or written to the file that was opened. Put the right file in its place while every "
            "process that uses it is stopped, then open the queue again"
        )


def _file_id(path: str) -> FileId | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
