"""Late sync: a commit is synced after the write lock was let go of, and acknowledged after that.

SQLite itself syncs its log inside the commit, so processes would wait for one another's syncs, one
after the other. Here a commit only writes to the log. Its process then syncs the log while others
write, and one sync makes durable all commits before it began, of every process.

So a commit can be seen before it is durable. No answer may rely on it: a process that has read it,
in a write or only to look, first sees to it that it is. Four numbers that all processes share, in a
file of the run folder, tell whether anything is left to do:

    begun    the last commit that a process was about to make: no process sees a later one
    done     the last commit that was made
    synced   all commits up to this one are durable
    failed   whether a sync has failed, so that no later one proves anything

They say nothing about the contents of the store, only about the memory of this machine, so they may
outlive the store, a restart and a restore. The connections of applications sync inside their
commits, and need no number.

When a sync fails, the kernel drops the pages it could not write, and the next sync succeeds all the
same: commits appended to such a log may be lost behind the gap. So the log is copied into the
database at once, and begun anew (`WriteSide.replace_log`). Where even that fails, no process writes
any more until all have closed the store: opening it then reads the log again, up to the gap.

A sync of a file that has become longer makes the file system write down its length and its blocks,
too, and takes about twice as long as that of a file that is written over. So a log that grows is
lengthened by zeros ahead of the commits, a megabyte or two at a time. SQLite takes them for what
they are: a frame of zeros belongs to no page, so reading a log after a crash ends there, as it ends
at the old frames of a log that was begun anew.

Nor is the log looked at by stat() before each sync. A file whose times were asked for gets new ones
with its next change, however soon that comes, where it would keep them until the next tick of the
kernel's clock. A sync then writes the inode, too: a write to the disk between that of the data and
the flush, which on a file system without a journal no other sync of the file can share.
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
"""Elsewhere SQLite syncs inside its commits."""
fdatasync = getattr(os, "fdatasync", os.fsync)
pwrite: Callable[[int, bytes, int], int] = os.pwrite

ROOM_FROM_BYTES: Final = 256 * 1024
"""A shorter log is not lengthened: most processes that open a store write little."""
ROOM_BYTES: Final = 1024 * 1024
"""A log that was lengthened ends at a multiple of this; one that SQLite has lengthened does not."""
ROOM_UP_TO_BYTES: Final = 16 * ROOM_BYTES
"""About as long as a log becomes before it is copied into the database and begun anew."""

BEGUN, DONE, SYNCED, FAILED = range(4)
_BYTES: Final = 4 * 8


class LogSync:
    """One process's view of the durable commits; every thread of it may use it."""

    def __init__(self, files: StoreFiles, durability: Durability) -> None:
        self._files = files
        self.durability: Durability = durability
        self._is_late = durability == "full" and IS_POSSIBLE
        """Not under `normal`, where no caller waits for the disk."""
        self.in_commit: Durability = "normal" if self._is_late else durability
        """How far SQLite itself is to go inside a commit."""
        self._log = os.fspath(files.log)
        self._opened: _OpenLog | None = None
        self._is_growing = False
        """Whether the last commits have made the log longer."""
        self._numbers: memoryview[int] | None = None
        self._file: FileId | None = None

    @property
    def file(self) -> FileId | None:
        """The file of the numbers, which every process must share; None where there is none."""
        if IS_POSSIBLE and self._numbers is None:
            self._open()
        return self._file

    @property
    def _shared(self) -> memoryview[int]:
        """The numbers. Never kept in a variable: an error would keep their file open."""
        return self._numbers or self._open()

    def _open(self) -> memoryview[int]:
        path = self._files.synced
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                # Room that is not there yet would be missed when it is first written to.
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
        """Let go of all files; they are opened again when they are needed."""
        # Another thread may be in the middle of it: they are closed when no thread uses them.
        self._numbers = self._opened = None

    @property
    def has_failed(self) -> bool:
        return self._is_late and bool(self._shared[FAILED])

    def committed(self, commit: Callable[[], object] | None) -> int:
        """Make a commit, or none where nothing was changed; the number to be durable before
        anybody is answered. Call it under the store's lock.
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
        # A loss of power may have left the numbers torn: none that is synced is ever given again.
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
        """Sync the log unless somebody has since. Raises OSError where that fails."""
        if not self._is_late:
            return
        _, done, synced, has_failed = self._shared
        if synced >= number and not has_failed:
            return
        # Where this process cannot even open it, nothing is known of the disk: others may sync it.
        opened = self._open_log()
        if opened is not None:
            try:
                fdatasync(opened.fd)
            except OSError:
                self._shared[FAILED] = 1
                raise
            finally:
                # What fails is remembered with its variables: the file must not stay open for that.
                opened = None
        _, _, synced, has_failed = self._shared
        if has_failed:
            # The kernel tells of a failure once: this sync may have succeeded over a gap.
            raise OSError("a sync of another process failed")
        # Another process may write here between: a number that is too low costs a sync.
        self._shared[SYNCED] = max(synced, done)

    def make_seen_durable(self) -> None:
        """The last commit that this process can have seen until now."""
        if not self._is_late or (self._numbers is None and not self._files.synced.exists()):
            return  # There never was a commit without a sync.
        # Where a sync has failed, looking is still allowed: somebody has to find out.
        if self._shared[SYNCED] < self._shared[BEGUN] and not self._shared[FAILED]:
            try:
                self.make_durable(self._shared[BEGUN])
            except OSError as error:
                if self._shared[FAILED]:
                    raise self.refusal(str(error)) from error
                raise of_files(error, self._files.database) from error

    def all_durable(self) -> None:
        """The log was copied into the database and begun anew. Call it under the store's lock."""
        self._shared[FAILED] = 0
        self._shared[DONE] = self._shared[SYNCED] = self._shared[BEGUN]

    def _open_log(self) -> _OpenLog | None:
        """The present log; None where the last process to close the store has copied all of it into
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
        """Lengthen the log by zeros. Call it inside a write: nobody else appends to it then."""
        self._is_growing = False
        # Opened for this alone: a descriptor that is kept may be closed by code of the application,
        # and its number be that of another file. Where the disk is full, SQLite finds out itself.
        with suppress(OSError):
            fd = os.open(self._log, os.O_RDWR | os.O_CLOEXEC)
            try:
                size = os.lseek(fd, 0, os.SEEK_END)
                if size % ROOM_BYTES:
                    # Up to the next multiple there may be little.
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
        """Whether the kernel tells which file it is."""
        # It may be new: data synced in a file that has no name after a crash is lost.
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
        except OSError:  # It was closed by code of the application; or there is no /proc.
            return None

    def __del__(self) -> None:
        # Its number may be that of another file by now, which is not to be closed.
        with suppress(AttributeError, OSError):
            if locked_file_id(self.fd) == self._file:
                os.close(self.fd)
