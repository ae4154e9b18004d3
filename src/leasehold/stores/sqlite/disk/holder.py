"""Who keeps others from writing: the holder of the write lock, or of an open transaction.

The holder of the lock is told by a note of a few bytes inside the lock's own file.

Whoever gets the lock writes it through a shared mapping, which takes less than a microsecond and
no call of the kernel. It is only read by those who have waited in vain, and by `doctor`.
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
from typing import Final

from leasehold.env import Env, from_micros
from leasehold.errors import StoreBusyError
from leasehold.stores.sqlite.disk.files import StoreFiles

_NOTE: Final = struct.Struct("<QQ48s64s")  # pid, since (in micros), program, what it does
_PROGRAM_BYTES: Final = 48

_VERBS: Final = {
    "PlainSubmit": "submit",
    "_submit": "submit",
    "change": "change a queue",
    "_on_shelf": "change or fire schedules",
    "resolve": "resolve dependents",
    "open_transaction": "begin the transaction of a job",
}
"""Operations whose functions are not named for their verb."""


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that holds the write lock, as far as it has told."""

    pid: int
    since_micros: int
    program: str
    doing: str

    @property
    def is_stopped(self) -> bool:
        return is_stopped(self.pid)

    def in_words(self) -> str:
        """Who it is, since when, what it does, and what to do about it."""
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
    """The note, as whoever takes the lock writes it."""

    def __init__(self, fd: int, env: Env) -> None:
        self._time_micros = env.clock.time_micros
        self._pid = os.getpid()
        program = Path(sys.argv[0] if sys.argv and sys.argv[0] else sys.executable).name
        self._program = program.encode(errors="replace")[:_PROGRAM_BYTES]
        self._page: mmap.mmap | None = None
        # Where it cannot be written, on a full disk, the lock works all the same.
        with suppress(OSError, ValueError):
            if os.fstat(fd).st_size < _NOTE.size:
                # Written, not only lengthened: to fill a hole in a file through a mapping kills
                # the process when the disk is full.
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
    """What is noted of an operation: the name of its function, or of its kind."""
    return getattr(operation, "__qualname__", None) or type(operation).__name__


def holder_of(lock_path: Path) -> Holder | None:
    """Who holds the lock at this moment; None if nobody does, or nobody has told."""
    try:
        fd = os.open(lock_path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read(os.pread(fd, _NOTE.size, 0))
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
    """Whether a process cannot go on by itself: stopped by a signal, or by a debugger.

    False where the system does not tell.
    """
    with suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in ("T", "t")
    return False


def open_transaction_of(database: Path) -> tuple[int, str] | None:
    """The process that has an application's transaction open, and its note; None if none has."""
    with suppress(OSError, ValueError):
        note = StoreFiles(database).transaction_note.read_text(encoding="utf-8")
        pid = int(note.partition(" ")[0])  # No number in a note that was cut off: on a full disk.
        os.kill(pid, 0)  # Raises if there is no such process: then the note was left behind.
        return pid, note
    return None


def busy(database: Path) -> StoreBusyError:
    """Who keeps the store from writing, as far as is known."""
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
