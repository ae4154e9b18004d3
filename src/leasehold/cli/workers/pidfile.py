"""Pid files that are proofs: each is locked by the process that it names.

A number alone proves nothing, since numbers are used again. The kernel frees the lock when the
process ends, in any way; a file whose lock is free is stale. It is locked before it gets its name,
so it is never seen free while its process lives.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
from datetime import datetime
from typing import Literal

import msgspec

from leasehold.env import SYSTEM


class PidRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A process of ours, as its pid file describes it."""

    pid: int
    role: Literal["crew", "worker"]
    started_at: datetime
    crew_pid: int
    """The parent that starts and replaces worker processes; a crew names itself."""
    worker_id: str | None = None
    """As in the registry of the store."""
    log_path: str | None = None
    """Where it writes, in the background."""
    renewals: int = 0
    """How often a crew has replaced all its workers because somebody asked for it."""
    failed_renewals: int = 0
    """How often it could not, since new ones did not start."""


class HeldPidFile:
    """This process's own pid file, held until `close` or its death."""

    def __init__(self, folder: str, record: PidRecord) -> None:
        name = f"{record.pid}-{SYSTEM.new_id()[-8:]}.pid"
        self._path = os.path.join(folder, name)
        self._hidden = os.path.join(folder, f".{name}")
        self.record = record
        self._fd: int | None = self._written(record)

    def update(self, record: PidRecord) -> None:
        """Change its contents; at no moment is the file missing or unlocked."""
        self.record, before = record, self._fd
        self._fd = self._written(record)
        if before is not None:
            os.close(before)

    def _written(self, record: PidRecord) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        fd = os.open(self._hidden, flags, 0o600)
        fcntl.flock(fd, fcntl.LOCK_EX)
        os.write(fd, msgspec.json.encode(record))
        os.rename(self._hidden, self._path)
        return fd

    def close(self) -> None:
        if self._fd is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path)
            os.close(self._fd)
            self._fd = None


class PidFile:
    """Somebody's pid file."""

    def __init__(self, path: str, record: PidRecord) -> None:
        self._path = path
        self.record = record

    @property
    def is_stale(self) -> bool:
        """Whether its process is gone; that is proved, not guessed."""
        try:
            fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return True
        try:
            # Shared, so that two who look at once do not take each other for the process.
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        else:
            return True
        finally:
            os.close(fd)

    def remove(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)

    def send_signal(self, number: signal.Signals) -> bool:
        """Signal its process; False if that is gone. Never hits another one of the same number."""
        pid = self.record.pid
        try:
            if not hasattr(os, "pidfd_open"):
                if self.is_stale:
                    return False
                os.kill(pid, number)
                return True
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            return False
        try:
            # The lock was still held after the handle was made: the handle is of its process.
            if self.is_stale:
                return False
            signal.pidfd_send_signal(handle, number)
        except ProcessLookupError:
            return False
        finally:
            os.close(handle)
        return True


def pid_files(folder: str) -> list[PidFile]:
    """All pid files there, stale ones included, oldest first."""
    found = []
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir(folder):
            if name.endswith(".pid") and not name.startswith("."):
                path = os.path.join(folder, name)
                record = _read(path)
                if record is not None:
                    found.append(PidFile(path, record))
    return sorted(found, key=lambda file: file.record.started_at)


def _read(path: str) -> PidRecord | None:
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(), type=PidRecord)
    except (FileNotFoundError, msgspec.DecodeError):
        return None  # It has just been removed, or is nothing of ours.
