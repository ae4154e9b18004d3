"""Late sync: a commit is synced after the write lock is released, and acknowledged after that.

SQLite itself syncs its log inside the commit, so processes would wait for one another's syncs, one
after the other. Here a commit only writes to the log. Its process then syncs the log while others
write, and one sync makes durable all commits before it began, of every process.

So a commit can be seen before it is durable. No answer may rely on such a commit: a process that
has read it, in a write or a plain read, first makes sure that it is durable. Four numbers that all
processes share, in a file of the run folder, show whether anything is left to do:

    begun    the last commit that a process was about to make: no process sees a later one
    done     the last commit that was made
    synced   all commits up to this one are durable
    failed   whether a sync has failed, so that no later one proves anything

They describe only the memory of this machine, not the contents of the store, so they may outlive
the store, a restart and a restore. The connections of applications sync inside their commits, and
need no number.

When a sync fails, the kernel drops the pages it could not write, and the next sync still succeeds:
commits appended to such a log may be lost after the gap. So the log is copied into the database at
once, and restarted (`WriteSide.replace_log`). If even that fails, no process writes any more until
all have closed the store: opening it then reads the log again, up to the gap.

A sync of a file that has grown also makes the file system write its length and its blocks, and
takes about twice as long as that of an overwritten file. So a growing log is extended with zeros
ahead of the commits, a megabyte or two at a time. SQLite handles that correctly: a frame of zeros
belongs to no page, so reading a log after a crash ends there, as it ends at the old frames of a
restarted log.

The log is also not inspected with stat() before each sync. A file whose times were read gets new
ones with its next change, however soon that comes, while it would otherwise keep them until the
next tick of the kernel's clock. A sync then writes the inode too: a disk write between that of the
data and the flush, which on a file system without a journal no other sync of the file can share.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from leasehold.errors import StoreUnavailableError
from leasehold.stores.sqlite.disk.failures import of_files
from leasehold.stores.sqlite.disk.files import Durability, FileId, StoreFiles, locked_file_id

IS_POSSIBLE = hasattr(os, "fdatasync") and hasattr(os, "posix_fallocate")
"""On other systems SQLite syncs inside its commits."""
fdatasync = getattr(os, "fdatasync", os.fsync)
pwrite: Callable[[int, bytes, int], int] = os.pwrite

ROOM_FROM_BYTES: Final = 256 * 1024
"""A shorter log is not extended: most processes that open a store write little."""
ROOM_BYTES: Final = 1024 * 1024
"""An extended log ends at a multiple of this; one that SQLite itself has extended does not."""
ROOM_UP_TO_BYTES: Final = 16 * ROOM_BYTES
"""About the length at which a log is copied into the database and restarted."""

BEGUN, DONE, SYNCED, FAILED = range(4)
_BYTES: Final = 4 * 8


class LogSync:
    """One process's view of the durable commits; every thread of it may use it."""

    def __init__(self, files: StoreFiles, durability: Durability) -> None:
        self._files = files
        self.durability: Durability = durability
        self._is_late = durability == "full" and IS_POSSIBLE
        """False under `normal`, where no caller waits for the disk."""
        self.in_commit: Durability = "normal" if self._is_late else durability
        """The level of sync that SQLite itself performs inside a commit."""
        self._log = os.fspath(files.log)
        self._opened: _OpenLog | None = None
        self._is_growing = False
        """Whether the last commits have extended the log."""
        self._numbers: memoryview[int] | None = None
        self._file: FileId | None = None

    @property
    def file(self) -> FileId | None:
        """The file of the numbers, shared by all processes; None if there is none."""
        if IS_POSSIBLE and self._numbers is None:
            self._open()
        return self._file

    @property
    def _shared(self) -> memoryview[int]:
        """The numbers. Never kept in a variable, since a traceback would keep their file open."""
        return self._numbers or self._open()

    def _open(self) -> memoryview[int]:
        path = self._files.synced
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                # Unallocated space would cause an error when it is first written to.
                os.posix_fallocate(fd, 0, _BYTES)
                self._file = locked_file_id(fd)
                # Eight bytes at a time, which no other process ever sees half written.
                self._numbers = memoryview(mmap.mmap(fd, _BYTES)).cast("Q")
            finally:
                os.close(fd)
        except OSError as error:
            raise of_files(error, path) from error
        return self._numbers

    def close(self) -> None:
        """Close all files; they are reopened when needed."""
        # Another thread may be using them: they are closed when no thread does.
        self._numbers = self._opened = None

    @property
    def has_failed(self) -> bool:
        return self._is_late and bool(self._shared[FAILED])

    def committed(self, commit: Callable[[], object] | None) -> int:
        """Commit, if anything was changed; returns the number that must be durable before any
        caller is answered. Call it under the store's lock.
        """
        if not self._is_late:
            if commit is not None:
                commit()
            return 0
        begun, _, synced, has_failed = self._shared
        if has_failed:
            raise self.refusal("a sync of its log failed before")
        if commit is None:
            return begun
        # A loss of power may have left the numbers inconsistent: a synced number is never reused.
        number = max(begun, synced) + 1
        if self._is_growing:
            self._make_room()
        self._shared[BEGUN] = number
        commit()
        self._shared[DONE] = number
        return number

    def is_durable(self, number: int) -> bool:
        """Whether a commit is known to be durable."""
        return not self._is_late or (self._shared[SYNCED] >= number and not self._shared[FAILED])

    def make_durable(self, number: int) -> None:
        """Sync the log unless another process already has. Raises OSError if that fails."""
        if not self._is_late:
            return
        _, done, synced, has_failed = self._shared
        if synced >= number and not has_failed:
            return
        # If this process cannot even open it, that says nothing about the disk: others may sync it.
        opened = self._open_log()
        if opened is not None:
            try:
                fdatasync(opened.fd)
            except OSError:
                self._shared[FAILED] = 1
                raise
            finally:
                # A traceback keeps its variables alive, and must not keep the file open.
                opened = None
        _, _, synced, has_failed = self._shared
        if has_failed:
            # The kernel reports a failure only once: this sync may have succeeded over a gap.
            raise OSError("a sync of another process failed")
        # Another process may write in between: too low a number only costs a sync.
        self._shared[SYNCED] = max(synced, done)

    def make_seen_durable(self) -> None:
        """Make durable every commit that this process can have seen until now."""
        if not self._is_late or (self._numbers is None and not self._files.synced.exists()):
            return  # There never was an unsynced commit.
        # After a failed sync, reading is still allowed, so that people can investigate.
        if self._shared[SYNCED] < self._shared[BEGUN] and not self._shared[FAILED]:
            try:
                self.make_durable(self._shared[BEGUN])
            except OSError as error:
                if self._shared[FAILED]:
                    raise self.refusal(str(error)) from error
                raise of_files(error, self._files.database) from error

    def all_durable(self) -> None:
        """Record that the log was copied into the database and restarted. Call it under the store's
        lock.
        """
        self._shared[FAILED] = 0
        self._shared[DONE] = self._shared[SYNCED] = self._shared[BEGUN]

    def _open_log(self) -> _OpenLog | None:
        """The present log; None if the last process to close the store has copied all of it into
        the database.
        """
        opened = self._opened
        try:
            if opened is None or not opened.is_in_place():
                opened = self._opened = _OpenLog(self._log)
            size = os.lseek(opened.fd, 0, os.SEEK_END)
            self._is_growing = ROOM_FROM_BYTES <= size < ROOM_UP_TO_BYTES and size % ROOM_BYTES != 0
        except FileNotFoundError:
            pass
        return opened

    def _make_room(self) -> None:
        """Extend the log with zeros. Call it inside a write, when nobody else appends to it."""
        self._is_growing = False
        # Opened just for this: the application's code may close a kept descriptor, whose number may
        # then belong to another file. If the disk is full, SQLite will notice.
        with suppress(OSError):
            fd = os.open(self._log, os.O_RDWR | os.O_CLOEXEC)
            try:
                size = os.lseek(fd, 0, os.SEEK_END)
                if size % ROOM_BYTES:
                    # The next multiple may be very close.
                    room = 2 * ROOM_BYTES - size % ROOM_BYTES
                    pwrite(fd, bytes(room), size)
            finally:
                os.close(fd)

    def refusal(self, reason: str) -> StoreUnavailableError:
        return StoreUnavailableError(
            f"the latest writes to {self._files.database} may not survive a power loss ({reason}): "
            "no more writes are accepted until every process has closed the store. Check the disk, "
            "then restart the processes"
        )


class _OpenLog:
    """A descriptor of the log, closed when no thread uses it any more.

    SQLite keeps no locks on its log, which closing it would drop.
    """

    def __init__(self, path: str) -> None:
        self.fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self._file = locked_file_id(self.fd)
        self._path = path
        self._link = f"/proc/self/fd/{self.fd}"
        self._is_told = self._path_now() == path
        """Whether the kernel tells which file a descriptor belongs to."""
        # The file may be new: data synced in a file whose name is lost in a crash is lost.
        folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def is_in_place(self) -> bool:
        """Whether this is the file that has the log's name now. Raises FileNotFoundError if none
        has, as far as that is asked.
        """
        if self._is_told:
            return self._path_now() == self._path
        status = os.stat(self._path)
        return (status.st_dev, status.st_ino) == self._file

    def _path_now(self) -> str | None:
        try:
            return os.readlink(self._link)
        except OSError:  # Closed by the application's code, or there is no /proc.
            return None

    def __del__(self) -> None:
        # Its number may belong to another file by now, which must not be closed.
        with suppress(AttributeError, OSError):
            if locked_file_id(self.fd) == self._file:
                os.close(self.fd)
