"""Whether a store continues where it was left, or was replaced by an older copy meanwhile.

Beside the database there is a small file, `continuity`. Every process that may write holds a shared
lock on it, and notes which file it has opened. The last one to close the store notes its progress:
the store's clock, and the floor under its lease versions. The note never travels with a copy of the
database. So if a store that nobody else holds is opened and its progress differs from the note, it
was either not closed (its process was killed) or replaced (it was restored).

The second subject is a write-ahead log beside a file to which it does not belong.

A killed process leaves SQLite's log behind, and the next one to open the database replays it. If
the database was replaced by another file meanwhile, SQLite cannot tell: it would replay the log of
one into the other. A backup has a mark in the file itself, which is removed, there too, before
anything is written to its own log. So a file with the mark has no log, and a log beside it belongs
to another file: it is moved aside and kept.
"""

from __future__ import annotations

import fcntl
import logging
import os
import threading
import weakref
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

import apsw

from leasehold.errors import StoreUnavailableError
from leasehold.forking import at_fork
from leasehold.stores.sqlite.disk.files import FileId, StoreFiles, locked_file_id

_IN_USE: Final = b"in-use"
_LEFT: Final = b"left"
NOTE_BYTES_MAX: Final = 200
NOT_SAID: Final = 0

READ: Final = "SELECT clock, version_floor FROM store_state"


@dataclass(frozen=True, slots=True)
class StoreProgress:
    """A store's progress; both numbers only ever grow."""

    clock: int
    version_floor: int

    @classmethod
    def of(cls, db: apsw.Connection) -> StoreProgress:
        clock, version_floor = db.execute(READ).fetchall()[0]
        return cls(int(str(clock)), int(str(version_floor)))

    def is_behind(self, other: StoreProgress) -> bool:
        """Whether it is earlier than the other, so that the store has gone back."""
        return self.clock < other.clock or self.version_floor < other.version_floor


def is_held(path: Path) -> bool:
    """Whether any process, this one included, has the store open to write."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


class Continuity:
    """This process's hold on the note. Everything except `close` is called under the store's file
    lock.
    """

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            self._somebody_else_holds_it = not self._try(fcntl.LOCK_EX)
            # Shared from now on. No other process can come between: openings take turns.
            self._try(fcntl.LOCK_SH)
        except BaseException:
            self.close()
            raise
        _held.add(self)

    @property
    def file(self) -> FileId:
        return locked_file_id(self._fd)

    @property
    def is_shared(self) -> bool:
        """Whether another process had the store open when this one came."""
        return self._somebody_else_holds_it

    def is_unbroken(self, now: StoreProgress, changed_at: int) -> bool:
        """Whether, as far as can be determined, every write ever made to the store is still in it.

        `changed_at` is the database's change time as kept by the kernel: a person who restores an
        older file together with this note cannot restore that time.
        """
        how, noted, noted_change = self._read()
        if noted is None:
            return False
        if self._somebody_else_holds_it:
            # The other processes have continued since the last note.
            return not now.is_behind(noted)
        return how == _LEFT and noted == now and noted_change == changed_at

    def noted(self) -> StoreProgress | None:
        """The store's progress in the last note, if it can be read."""
        return self._read()[1]

    def note_in_use(self, now: StoreProgress, file: FileId) -> None:
        """Note the store's progress, from which it continues, in this file."""
        self._note(_IN_USE, now, inode=file[1])

    def note_left(self, now: StoreProgress, changed_at: int) -> None:
        """Note the progress at which the store is left, unless others continue to use it."""
        if self._try(fcntl.LOCK_EX):
            self._note(_LEFT, now, changed_at)

    def close(self) -> None:
        if self._fd >= 0:  # In a forked process it was closed already.
            os.close(self._fd)
            self._fd = -1

    def _read(self) -> tuple[bytes, StoreProgress | None, int]:
        try:
            how, clock, version_floor, changed_at, _ = os.pread(self._fd, NOTE_BYTES_MAX, 0).split()
            return how, StoreProgress(int(clock), int(version_floor)), int(changed_at)
        except ValueError:
            return b"", None, 0

    def _note(
        self, how: bytes, now: StoreProgress, changed_at: int = 0, inode: int = NOT_SAID
    ) -> None:
        # Always the same length. Nothing is synced: after a restart no note is trusted.
        numbers = (now.clock, now.version_floor, changed_at, inode)
        os.pwrite(self._fd, b"%-8b %-24d %-24d %-24d %-24d\n" % (how, *numbers), 0)

    def _try(self, kind: int) -> bool:
        try:
            fcntl.flock(self._fd, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


_held: weakref.WeakSet[Continuity] = weakref.WeakSet()


def _let_go_in_fork() -> None:
    # A forked child shares its parent's lock. After the parent's end, the child, which does not
    # write, would make it seem that the store is still open.
    for continuity in list(_held):
        continuity.close()


at_fork(after_in_child=_let_go_in_fork)


logger = logging.getLogger("leasehold.store")

CLOSING_LOOKS: Final = 40
LOOK_SECONDS: Final = 0.05

_never_free: Final = threading.Lock()
_never_free.acquire()

BEARS_MARK: Final = "SELECT 1 FROM meta WHERE key = 'copy'"


def has_log(files: StoreFiles) -> bool:
    """Whether the log has writes that may not be in the database."""
    return _size(files.log) > 0


def was_changed_under_others(files: StoreFiles) -> bool:
    """Whether the processes that have the store open have another file, or have lost their log."""
    return files.lacks_log() or _is_another_file(files)


def _is_another_file(files: StoreFiles) -> bool:
    """Whether the file at the path differs from the one noted by the last opener."""
    try:
        how, _, _, _, inode = files.continuity.read_bytes()[:NOTE_BYTES_MAX].split()
        noted = int(inode) if how == _IN_USE else NOT_SAID
    except (FileNotFoundError, ValueError):
        return False
    file = files.file_id()
    return noted != NOT_SAID and (file is None or file[1] != noted)


def refuse_what_others_have_lost(files: StoreFiles) -> None:
    """Raise StoreUnavailableError if others have the store open with different files.

    They would never see writes to a new log, and its writer would not see theirs. SQLite also
    treats the log beside a new database as a leftover and empties it, although it may hold the only
    copy of writes that they have acknowledged. Call it under the store's lock, so that no process
    is just opening the store. One that is closing it deletes the log a moment before it releases
    the store, so this waits a little.
    """
    for _ in range(CLOSING_LOOKS):
        if not (is_held(files.continuity) and was_changed_under_others(files)):
            return
        _never_free.acquire(timeout=LOOK_SECONDS)
    if _is_another_file(files):
        raise StoreUnavailableError(
            f"cannot open {files.database}: it was moved away, deleted or replaced while other "
            f"processes have it open. Its last writes may be in {files.log} only. Put the file "
            "back, or let all of them close it, or end them, and move that log away with it",
            is_transient=False,
        )
    raise StoreUnavailableError(
        f"cannot open {files.database}: its -wal or its -shm file was deleted while other "
        "processes have it open. Let all of them close it, or end them, then open it again: the "
        "first write of each, or its closing, copies what it still has of the log into the "
        "database",
        is_transient=False,
    )


def set_foreign_log_aside(files: StoreFiles) -> None:
    """Call it under the store's lock, while no process has the store open.

    Raises StoreUnavailableError if there is a log without a database: the last acknowledged writes
    are in that log, and a new store would be created beside it.
    """
    if not has_log(files):
        return
    if not files.has_content():
        raise StoreUnavailableError(
            f"{files.database} is missing or empty, but {files.log} holds writes to it: put the "
            "database back beside its log, or move the log away to start with an empty store or "
            "to restore a backup",
            is_transient=False,
        )
    if not _bears_mark(files.database):
        return
    kept = _free_name(files.log)
    files.log.rename(kept)
    with suppress(FileNotFoundError):
        files.log_index.unlink()
    logger.warning(
        "%s is a backup that was put beside the log of the store before it: that log is not "
        "replayed into it, and was moved to %s",
        files.database,
        kept,
    )


def _bears_mark(database: Path) -> bool:
    """Whether the file itself, ignoring any log, is a backup that was never opened."""
    # Immutable: SQLite looks neither for a log nor for other processes.
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    try:
        db = apsw.Connection(f"file:{quote(str(database))}?immutable=1", flags=flags)
        try:
            return db.execute(BEARS_MARK).fetchone() is not None
        finally:
            db.close()
    except apsw.Error:
        # A file that is complete only together with its log is not a backup.
        return False


def _free_name(log: Path) -> Path:
    number = 1
    while (kept := log.with_name(f"{log.name}.{number}")).exists():
        number += 1
    return kept


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
