"""A disk under SQLite that remembers every write and can be made to fail.

`Disk` becomes SQLite's default VFS, so that the store under test opens its files on it without
knowing. It passes everything on to the real one, and

- writes down each write, truncation, sync and deletion of the database, its WAL and its rollback
  journal, so that `crash_images` can build what a loss of power would have left behind;
- fails the nth write, truncation or sync, once or from then on, as a broken or a full disk would.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from random import Random
from typing import Literal, NamedTuple

import apsw
import pytest

from leasehold.stores.sqlite.disk import log_sync
from support.effort import THOROUGH, drawn

SECTOR_BYTES = 512
_WATCHED = apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_WAL

Failure = Literal["io", "full"]


class Operation(NamedTuple):
    """One thing that was asked of the disk."""

    kind: Literal["write", "truncate", "sync", "failed sync", "delete"]
    file: str
    offset: int = 0
    """Where it was written; for a truncation, the new size."""
    data: bytes = b""
    syncs_folder: bool = False
    """Whether it made earlier deletions durable, or is a deletion that is durable at once."""


class Disk(apsw.VFS):
    """SQLite's default VFS from its making until `unplug`."""

    def __init__(self) -> None:
        self._name = f"faulty-{id(self)}"
        self._before = apsw.vfs_names()[0]
        super().__init__(self._name, base="", makedefault=True)
        self.operations: list[Operation] = []
        self.calls = 0
        """Writes, truncations and syncs so far, failed ones included."""
        self.failures = 0
        self.syncs_lie = False
        """Claim to have synced without a record of it: a disk that loses what it promised."""
        self._fails_at: int | None = None
        self._failure: Failure = "io"
        self._lasting = False

    def xOpen(  # noqa: N802  # apsw's name
        self, name: str | apsw.URIFilename | None, flags: list[int]
    ) -> apsw.VFSFile:
        return _File(self, self._before, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802  # apsw's name
        super().xDelete(filename, syncdir)
        self.operations.append(
            Operation("delete", os.path.basename(filename), syncs_folder=bool(syncdir))
        )

    def fail_at(self, call: int, failure: Failure, *, lasting: bool) -> None:
        """Fail the call with this number (from 1), and all later ones if `lasting`."""
        self._fails_at, self._failure, self._lasting = call, failure, lasting

    def mend(self) -> None:
        """Fail no more."""
        self._fails_at = None

    @property
    def is_mended(self) -> bool:
        return self._fails_at is None

    def note(self, operation: Operation) -> None:
        """Called before each operation is carried out; raises if it is to fail."""
        self.calls += 1
        if self._fails_at is not None and (
            self.calls == self._fails_at or (self._lasting and self.calls > self._fails_at)
        ):
            self.failures += 1
            if self._failure == "full" and operation.kind != "sync":
                raise apsw.FullError("the disk is full, says the test")
            raise apsw.IOError("the disk is broken, says the test")
        if operation.kind != "sync" or not self.syncs_lie:
            self.operations.append(operation)

    def sync_late(self, fd: int) -> None:
        """The sync of a log that SQLite does not ask for: the store does, after the commit."""
        file = os.path.basename(os.readlink(f"/proc/self/fd/{fd}"))
        try:
            self.note(Operation("sync", file))
        except apsw.Error as error:
            # As Linux does: what could not be written is dropped, and not tried again.
            self.operations.append(Operation("failed sync", file))
            raise OSError(errno.EIO, str(error)) from error

    def make_room(self, fd: int, data: bytes, offset: int) -> int:
        """A write to the log that SQLite does not ask for: the store lengthens it."""
        file = os.path.basename(os.readlink(f"/proc/self/fd/{fd}"))
        try:
            self.note(Operation("write", file, offset, data))
        except apsw.Error as error:
            raise OSError(errno.EIO, str(error)) from error
        return os.pwrite(fd, data, offset)

    def unplug(self) -> None:
        """Give SQLite its own VFS back. Connections that are still open keep using this one."""
        apsw.set_default_vfs(self._before)
        self.unregister()


class _File(apsw.VFSFile):
    def __init__(
        self, disk: Disk, base: str, name: str | apsw.URIFilename | None, flags: list[int]
    ) -> None:
        super().__init__(base, name, flags)
        self._disk = disk
        path = name.filename() if isinstance(name, apsw.URIFilename) else name or ""
        self._file = os.path.basename(path)
        self._watched = bool(flags[0] & _WATCHED)
        # As SQLite's own VFS does with the first sync of a WAL or journal that it may have made.
        self._syncs_folder = bool(flags[0] & _WATCHED & ~apsw.SQLITE_OPEN_MAIN_DB)

    def xWrite(self, data: bytes | bytearray | memoryview, offset: int) -> None:  # noqa: N802  # apsw's name
        if self._watched:
            self._disk.note(Operation("write", self._file, offset, bytes(data)))
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802  # apsw's name
        if self._watched:
            self._disk.note(Operation("truncate", self._file, newsize))
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802  # apsw's name
        # Nothing is really synced: what would survive is decided by `crash_images`.
        if self._watched:
            self._disk.note(Operation("sync", self._file, syncs_folder=self._syncs_folder))
            self._syncs_folder = False


@contextmanager
def disk_under_sqlite() -> Iterator[Disk]:
    """A disk for all connections that are opened inside."""
    disk = Disk()
    before = log_sync.fdatasync, log_sync.pwrite
    log_sync.fdatasync, log_sync.pwrite = disk.sync_late, disk.make_room
    try:
        yield disk
    finally:
        log_sync.fdatasync, log_sync.pwrite = before
        disk.unplug()


def lengthen_short_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the logs of small workloads be lengthened as those of large ones are."""
    monkeypatch.setattr(log_sync, "ROOM_FROM_BYTES", 8 * 1024)
    monkeypatch.setattr(log_sync, "ROOM_BYTES", 64 * 1024)
    # The log of a store that was just made has some 400 KiB.
    monkeypatch.setattr(log_sync, "ROOM_UP_TO_BYTES", 1024 * 1024)


def turning_points(operations: Sequence[Operation]) -> list[int]:
    """The numbers of those that differ from their neighbours.

    Of operations of one kind in a row, on one file, as the writes of a transaction are: the first,
    one in the middle, and the last. In a thorough run, all.
    """
    if THOROUGH:
        return list(range(len(operations)))
    chosen: set[int] = set()
    for _, group in groupby(enumerate(operations), lambda each: (each[1].kind, each[1].file)):
        numbers = [number for number, _ in group]
        chosen |= {numbers[0], numbers[len(numbers) // 2], numbers[-1]}
    return sorted(chosen)


Image = dict[str, bytes]
"""What is found after the crash: file name -> content."""


class _Remains:
    """One file on the platters, and what was asked of it since its last sync."""

    def __init__(self, durable: bytes | None = None) -> None:
        self.durable = durable
        self.pending: list[Operation] = []

    def take(self, operation: Operation) -> None:
        if operation.kind == "sync":
            content = _copied(self.durable)
            for earlier in self.pending:
                content = _applied(content, earlier)
            self.durable = None if content is None else bytes(content)
            self.pending = []
            return
        if operation.kind == "failed sync":
            self.pending = []
            return
        if self.is_deleted:
            # The file is made anew: the old one is another file now, and nothing of it shows.
            self.forget()
        self.pending.append(operation)

    @property
    def is_deleted(self) -> bool:
        return bool(self.pending) and self.pending[-1].kind == "delete"

    def forget(self) -> None:
        self.durable, self.pending = None, []

    def after_crash(self, random: Random | None, *, keep: bool) -> bytes | None:
        """With all that is pending or none of it, or with any part of it that chance picks."""
        if random is None and not (keep and self.pending):
            return self.durable
        content = _copied(self.durable)
        for operation in self.pending:
            if random is None:
                content = _applied(content, operation)
            elif operation.kind == "write":
                for part in _sectors(operation):
                    content = _applied(content, part) if random.random() < 0.5 else content
            elif random.random() < 0.5:
                content = _applied(content, operation)
        return None if content is None else bytes(content)


def _copied(content: bytes | None) -> bytearray | None:
    return None if content is None else bytearray(content)


def _applied(content: bytearray | None, operation: Operation) -> bytearray | None:
    """The content after it; what is given is changed: to copy it for each sector takes long."""
    if operation.kind == "delete":
        return None
    content = bytearray() if content is None else content
    start = operation.offset
    if operation.kind == "truncate":
        del content[start:]
    content.extend(bytes(max(0, start - len(content))))
    if operation.kind == "write":
        content[start : start + len(operation.data)] = operation.data
    return content


def _sectors(write: Operation) -> Iterator[Operation]:
    """A write as the disk sees it: sector by sector, each of which arrives or does not."""
    start, end = write.offset, write.offset + len(write.data)
    while start < end:
        stop = min(end, (start // SECTOR_BYTES + 1) * SECTOR_BYTES)
        data = write.data[start - write.offset : stop - write.offset]
        yield Operation("write", write.file, start, data)
        start = stop


def crash_images(
    operations: list[Operation], seed: int, at_first: Image | None = None
) -> Iterator[tuple[int, str, Image]]:
    """For each point in time, what a loss of power just then could leave: (point, how, files).

    `at_first` is what was on the disk before the operations.

    Before each sync, when most is at stake, come "nothing unsynced", "everything" and chance parts
    of it; between syncs chance parts after each turning point.
    """
    turning = frozenset(turning_points(operations))
    remains = {name: _Remains(data) for name, data in (at_first or {}).items()}
    random = Random(seed)
    for point in range(len(operations) + 1):
        is_last_before_sync = point == len(operations) or operations[point].kind == "sync"
        if is_last_before_sync:
            yield point, "none", _image(remains, None, keep=False)
            yield point, "all", _image(remains, None, keep=True)
        parts = drawn(3) if is_last_before_sync else drawn(6) * (point - 1 in turning)
        for part in range(parts):
            yield point, f"part {part}", _image(remains, random, keep=True)
        if point < len(operations):
            operation = operations[point]
            remains.setdefault(operation.file, _Remains()).take(operation)
            if operation.syncs_folder:
                for file in remains.values():
                    if file.is_deleted:
                        file.forget()


def _image(remains: dict[str, _Remains], random: Random | None, *, keep: bool) -> Image:
    found = {name: file.after_crash(random, keep=keep) for name, file in remains.items()}
    return {name: content for name, content in found.items() if content is not None}
