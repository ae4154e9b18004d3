"""Proof of death: every worker holds a lock that the kernel frees when its whole process tree is
gone.

The worker's children inherit the lock's descriptor, so a free lock proves that no process is left
that could still be working on its jobs. If a stray child survives, the lock stays taken and the
jobs wait for their leases to expire: in doubt, no job is taken away.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Collection
from pathlib import Path

from leasehold.core.model.lives import Life


class LockedLife:
    """A registered worker's sign of life on this machine."""

    def __init__(self, folder: Path, life: Life, leave: Callable[[], None]) -> None:
        self._path = folder / lock_name(life)
        self._leave = leave
        # Locked before the file gets its name, so that it is never seen there with its lock free.
        hidden = folder.parent / self._path.name
        self._fd: int | None = os.open(hidden, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(self._fd, f"{life.number} {life.worker}".encode())
            fcntl.flock(self._fd, fcntl.LOCK_EX)
            # The folder may have been deleted. That proves no death: jobs wait for their leases.
            folder.mkdir(mode=0o700, exist_ok=True)
            hidden.rename(self._path)
        except BaseException:
            hidden.unlink(missing_ok=True)
            self.let_go()
            raise

    @property
    def lock_fd(self) -> int | None:
        return self._fd

    def close(self) -> None:
        if self._fd is None:
            return
        self._leave()
        self.let_go()

    def let_go(self) -> None:
        """Free the lock without using the registry, for a worker that was never entered."""
        if self._fd is None:
            return
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()
        os.close(self._fd)
        self._fd = None


def lock_name(life: Life) -> str:
    """A file name for any worker id."""
    name = "".join(c if c.isalnum() or c in "-_." else f"%{ord(c):x}" for c in life.worker)
    return f"{name}.{life.number}.lock"


class Deaths:
    """Finds the lives of this store's workers that are proved to be over."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self) -> set[Life]:
        """Lives whose lock is free. Looks at lock files only, never at the database."""
        return {life for life, _ in self._free()}

    def bury(self, lives: Collection[Life]) -> None:
        """Remove the lock files of dead workers, once their jobs have been taken back."""
        for life, path in self._free():
            if life in lives:
                with contextlib.suppress(FileNotFoundError):
                    path.unlink()

    def _lock_files(self) -> list[Path]:
        # A deleted folder proves no death; the next write notices it.
        with contextlib.suppress(FileNotFoundError):
            return list(self._folder.iterdir())
        return []

    def _free(self) -> list[tuple[Life, Path]]:
        found = []
        for path in self._lock_files():
            try:
                fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            except FileNotFoundError:
                continue
            try:
                # Shared, so that concurrent sweeps do not mistake each other for the worker.
                fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
                number, _, worker = os.read(fd, 4096).decode().partition(" ")
                if number.isdigit():
                    found.append((Life(worker, int(number)), path))
            except BlockingIOError:
                pass  # Alive.
            finally:
                os.close(fd)
        return found
