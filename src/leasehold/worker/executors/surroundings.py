"""What a task may change for the whole process and forget to change back, in a child process.

One child runs many jobs. Where a task has left another folder, mask, signal handler or timer
behind, the next job would find it, and an alarm that is still set would even end it. So these are
put back after each job. Everything else that a task changes (its modules, the locale, the default
timeout of sockets) stays as it leaves it, as in any program that runs on.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from typing import Any, Final, TextIO, cast

_TIMERS: Final = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
_FIXED: Final = {signal.SIGKILL, signal.SIGSTOP}
_STANDARD_FDS: Final = (0, 1, 2)


class Surroundings:
    """How the process was when this was made, in the main thread."""

    def __init__(self) -> None:
        self._folder = _folder()
        self._umask = _umask()
        self._signals: dict[int, Any] = {
            number: handler
            for number in signal.valid_signals() - _FIXED
            # A handler that was not set from Python can neither be told nor be put back.
            if (handler := signal.getsignal(number)) is not None
        }
        self._blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        self._recursion = sys.getrecursionlimit()
        self._streams = (sys.stdin, sys.stdout, sys.stderr)

    def restore(self) -> None:
        """Put back what was changed; never raises."""
        for step in (
            self._restore_recursion,
            self._restore_signals,
            self._restore_streams,
            self._restore_folder,
        ):
            # The worst of them fails alone: the others matter to the next job too.
            with contextlib.suppress(Exception):
                step()

    def _restore_recursion(self) -> None:
        sys.settrace(None)
        sys.setprofile(None)
        if sys.getrecursionlimit() != self._recursion:
            sys.setrecursionlimit(self._recursion)

    def _restore_signals(self) -> None:
        for timer in _TIMERS:
            signal.setitimer(timer, 0)
        for number, handler in self._signals.items():
            if signal.getsignal(number) is not handler:
                signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._blocked)

    def _restore_streams(self) -> None:
        for fd in _STANDARD_FDS:
            # Left closed, the number would become that of the next file or connection.
            if not _is_open(fd):
                _occupy(fd)
        self._streams = (
            _reopened(self._streams[0], 0, "r"),
            _reopened(self._streams[1], 1, "w"),
            _reopened(self._streams[2], 2, "w"),
        )
        sys.stdin, sys.stdout, sys.stderr = self._streams

    def _restore_folder(self) -> None:
        if _umask() != self._umask:
            os.umask(self._umask)
        if self._folder is not None and _folder() != self._folder:
            os.chdir(self._folder)


def _folder() -> str | None:
    try:
        return os.getcwd()
    except OSError:
        return None  # It was removed.


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def _reopened(stream: TextIO, fd: int, mode: str) -> TextIO:
    # None, where the process was started without it.
    if stream is None or not stream.closed:
        return stream
    return cast("TextIO", open(fd, mode, closefd=False, errors="backslashreplace"))


def _occupy(fd: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    if null != fd:
        os.dup2(null, fd, inheritable=True)
        os.close(null)
