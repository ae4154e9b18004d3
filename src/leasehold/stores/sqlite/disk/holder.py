"""The process that keeps others from writing: the holder of the write lock, or of an open
transaction.

The holder of the lock is identified by a note of a few bytes inside the lock's own file.

The holder writes it through a shared mapping, which takes less than a microsecond and no system
call. Only callers that have waited in vain read it, and `doctor`. A killed holder leaves its note
behind, and one stopped right after it got the lock has not written it yet, so only a process that
the kernel knows as the holder is named (`writers_of`).
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from leasehold.env import Env, from_micros
from leasehold.errors import StoreBusyError
from leasehold.stores.sqlite.disk.files import StoreFiles

_NOTE: Final = struct.Struct("<QQ48s64s")  # pid, since (in micros), program, operation
_PROGRAM_BYTES: Final = 48

_VERBS: Final = {
    "PlainSubmit": "submit",
    "submit_by": "submit",
    "change": "change a queue",
    "_on_shelf": "change or fire schedules",
    "resolve": "resolve dependents",
    "open_transaction": "begin the transaction of a job",
}
"""Operations whose functions are not named for their verb."""


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that holds the write lock, according to its note."""

    pid: int
    since_micros: int
    program: str
    doing: str

    @property
    def is_stopped(self) -> bool:
        return is_stopped(self.pid)

    def in_words(self) -> str:
        """The holder, since when, its operation, and the remedy."""
        since = from_micros(self.since_micros).isoformat(timespec="seconds")
        who = f"process {self.pid} ({self.program}) has held its write lock since {since}"
        return f"{who}, doing: {self.doing}. {self.advice()}"

    def advice(self) -> str:
        if self.is_stopped:
            return (
                f"That process is stopped: resume it with `kill -CONT {self.pid}`, or end it with "
                f"`kill -KILL {self.pid}`, which rolls its write back"
            )
        return f"It may be slow, starved or stuck: look at process {self.pid}, then try again"


class HolderNote:
    """The note, as the holder of the lock writes it."""

    def __init__(self, fd: int, env: Env) -> None:
        self._time_micros = env.clock.time_micros
        self._pid = os.getpid()
        program = Path(sys.argv[0] if sys.argv and sys.argv[0] else sys.executable).name
        self._program = program.encode(errors="replace")[:_PROGRAM_BYTES]
        self._page: mmap.mmap | None = None
        # If it cannot be written because the disk is full, the lock still works.
        with suppress(OSError, ValueError):
            if os.fstat(fd).st_size < _NOTE.size:
                # Written, not only extended: filling a hole in a file through a mapping kills the
                # process when the disk is full.
                os.pwrite(fd, bytes(_NOTE.size), 0)
            self._page = mmap.mmap(fd, _NOTE.size)

    def write(self, doing: str) -> None:
        if self._page is not None:
            since = self._time_micros()
            _NOTE.pack_into(self._page, 0, self._pid, since, self._program, doing.encode())

    def strike_out(self) -> None:
        if self._page is not None:
            self._page[0:8] = _NOBODY

    def close(self) -> None:
        if self._page is not None:
            self._page.close()
            self._page = None


_NOBODY: Final = bytes(8)


def doing(operation: object) -> str:
    """The note of an operation: the name of its function, or of its kind."""
    return getattr(operation, "__qualname__", None) or type(operation).__name__


def holder_of(lock_path: Path) -> Holder | None:
    """The present holder of the lock; None if there is none, or it has left no note."""
    try:
        fd = os.open(lock_path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        noted = _read(os.pread(fd, _NOTE.size, 0))
        return noted if noted and is_verified(noted.pid, lock_path, "FLOCK") else None
    finally:
        os.close(fd)
    return None


def _read(page: bytes) -> Holder | None:
    if len(page) < _NOTE.size:
        return None
    pid, since, program, what = _NOTE.unpack(page)
    if not pid:
        return None
    return Holder(pid, since, _text(program), _verb(_text(what)))


def _text(field: bytes) -> str:
    return field.rstrip(b"\0").decode(errors="replace")


def _verb(name: str) -> str:
    """The verb of the store that an operation belongs to.

    >>> _verb("SQLiteStore.renew.<locals>.<lambda>"), _verb("PlainSubmit"), _verb("opening it")
    ('renew', 'submit', 'opening it')
    """
    function = name.partition(".<locals>")[0].rpartition(".")[2]
    return _VERBS.get(function, function)


def is_stopped(pid: int) -> bool:
    """Whether a process is stopped by a signal or by a debugger.

    False if the system does not tell.
    """
    with suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in ("T", "t")
    return False


def open_transaction_of(database: Path) -> tuple[int, str] | None:
    """The process with an application's transaction open, and its note; None if there is none."""
    files = StoreFiles(database)
    with suppress(OSError, ValueError):
        note = files.transaction_note.read_text(encoding="utf-8")
        pid = int(note.partition(" ")[0])  # No number, because a full disk has cut off the note.
        # A process that writes to SQLite's log has a lock in the file beside it.
        if is_verified(pid, files.log_index, "POSIX"):
            return pid, note
    return None


def busy(database: Path) -> StoreBusyError:
    """The error that names who keeps the store from writing, as far as is known."""
    found = open_transaction_of(database)
    if found is None:
        return StoreBusyError(
            f"{database} stays locked: another program holds a transaction open on it"
        )
    pid, note = found
    stopped = is_stopped(pid)
    advice = (
        f". That process is stopped: resume it with `kill -CONT {pid}`, or end it with "
        f"`kill -KILL {pid}`, which rolls its transaction back"
        if stopped
        else ""
    )
    return StoreBusyError(
        f"{database} stays locked: process {note} holds a transaction open on it{advice}",
        holder_pid=pid,
        is_holder_stopped=stopped,
    )


LOCKS: Final = Path("/proc/locks")

Kind = Literal["FLOCK", "POSIX"]


def writers_of(path: Path, kind: Kind) -> frozenset[int] | None:
    """The processes that hold a write lock on this file; None if the kernel does not tell.

    It does not report processes outside this one's pid namespace, and on some file systems it names
    a different device than the file has: if it knows of no lock at all on a file, nothing is known.
    """
    try:
        status = path.stat()
        lines = LOCKS.read_text().splitlines()
    except OSError:
        return None
    file = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    # 1: FLOCK  ADVISORY  WRITE 1234 fe:00:5678 0 EOF; one who waits has -> behind the number.
    of_file = [fields for fields in map(str.split, lines) if file in fields]
    held = [fields for fields in of_file if fields[1] == kind and fields[3] == "WRITE"]
    return frozenset(int(fields[4]) for fields in held if int(fields[4]) > 0) if of_file else None


def is_verified(pid: int, path: Path, kind: Kind) -> bool:
    """Whether a process that has noted that it holds a lock may be named as its holder.

    It must also be alive: a lock inherited by a fork is still listed under the process that took
    it.
    """
    holders = writers_of(path, kind)
    return (holders is None or pid in holders) and _is_alive(pid)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # It exists, but belongs to another user.
    return True
