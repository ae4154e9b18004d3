"""The store's file lock, which makes processes write in turn."""

from __future__ import annotations

import fcntl
import os
import weakref
from pathlib import Path
from types import TracebackType


class WriteLock:
    """Held by one process at a time, and freed by the kernel when that process dies."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        _open_locks.add(self)

    def __enter__(self) -> None:
        fcntl.flock(self._fd, fcntl.LOCK_EX)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._fd >= 0:  # A process that was forked inside the block has lost it.
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        _open_locks.discard(self)
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


_open_locks: weakref.WeakSet[WriteLock] = weakref.WeakSet()


def _let_go_in_fork() -> None:
    # A forked child shares its parent's lock. Were the parent killed while it holds it, the child,
    # which knows nothing of it, would keep everybody waiting for as long as it lives.
    for lock in list(_open_locks):
        lock.close()


os.register_at_fork(after_in_child=_let_go_in_fork)
