"""The kernel's word that one of some files may have been deleted, moved or replaced.

To look at six paths takes ten times as long as to ask whether there is any news of them, and a
write asks before each commit. The kernel (Linux, by inotify) notes such news in the very call that
deletes or moves a file: whoever asks afterwards is told. It does not tell of a folder further up
that is moved, or of a disk that is mounted over: so whoever asks looks now and then as well.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterable
from typing import Final

# The number of links changes when a file is deleted that somebody has open.
_IN_ATTRIB: Final = 0x004
_IN_DELETE_SELF: Final = 0x400
_IN_MOVE_SELF: Final = 0x800
_MASK: Final = _IN_ATTRIB | _IN_DELETE_SELF | _IN_MOVE_SELF


class Notices:
    """News of some files since this was made."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
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
        fd = int(libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK))
        if fd < 0:
            return None
        notices = cls(fd)
        for path in paths:
            if libc.inotify_add_watch(fd, os.fsencode(path), _MASK) < 0:
                return None
        return notices

    def have_come(self) -> bool:
        """Whether there is news, of which nothing more is known."""
        return bool(self._poll.poll(0))

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        self.close()
