"""The kernel's word that one of some files may have been deleted, moved or replaced.

To look at six paths takes ten times as long as to ask whether there is any news of them, and a
write asks before each commit. The kernel (Linux, by inotify) notes such news in the very call that
deletes or moves a file, and tells the next caller. It does not tell of a folder further up that is
moved, or of a disk that is mounted over: so a caller looks now and then as well.

The kernel takes some 15 ms to close such a descriptor, but no time to use it again for other files:
so a few are kept when they are not needed any more.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from leasehold.forking import at_fork

if TYPE_CHECKING:
    from ctypes import CDLL

# The number of links changes when a file is deleted that somebody has open.
_IN_ATTRIB: Final = 0x004
_IN_DELETE_SELF: Final = 0x400
_IN_MOVE_SELF: Final = 0x800
_MASK: Final = _IN_ATTRIB | _IN_DELETE_SELF | _IN_MOVE_SELF

SPARE_MAX: Final = 4
_spare: list[tuple[int, int]] = []
"""Descriptors that watch nothing, each with the process that it belongs to: one that a fork has
copied would take the news away from the process that waits for it."""


class Notices:
    """News of some files since this was made."""

    def __init__(self, fd: int, libc: CDLL) -> None:
        self._fd = fd
        self._pid = os.getpid()
        self._libc = libc
        self._watches: set[int] = set()
        self._poll = select.poll()
        self._poll.register(fd, select.POLLIN)

    @classmethod
    def of(cls, paths: Iterable[str]) -> Notices | None:
        """From now on; None where the system cannot tell, or has too many to tell already."""
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
        """Whether there is news, of which nothing more is known."""
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
    """Whether this is still the descriptor that it was: code of the application that closes unknown
    descriptors gives the number to another file.
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
