"""Changes that a task may make to the whole process and forget to undo, in a child process.

One child runs many jobs. If a task left another folder, mask, environment, search path, locale,
signal handler or timer behind, the next job would find it, and an alarm that is still set would
even end that job. So these are restored after each job. If something cannot be restored, the child
is replaced (see `lasting`). Everything else that a task changes (the contents of modules, the
default timeout of sockets) stays changed, as in any long-running program.
"""

from __future__ import annotations

import contextlib
import locale
import os
import signal
import sys
from typing import Any, Final, TextIO, cast

_TIMERS: Final = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
_FIXED: Final = {signal.SIGKILL, signal.SIGSTOP}
_STANDARD_FDS: Final = (0, 1, 2)


# As bytes, the form in which it is stored: `dict(os.environ)` decodes each entry, at a hundred
# times the cost.
_ENVIRONMENT: Final[dict[bytes, bytes]] = os.environ._data  # type: ignore[attr-defined]  # noqa: SLF001


class Surroundings:
    """The state of the process when this object was made, in the main thread.

    `note` records again, before each job, the settings that an import may change for good reason.
    """

    def __init__(self) -> None:
        self._folder = _folder()
        self._umask = _umask()
        self._signals: dict[int, Any] = {
            number: handler
            for number in signal.valid_signals() - _FIXED
            # A handler that was not set from Python can be neither read nor restored.
            if (handler := signal.getsignal(number)) is not None
        }
        self._blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        self._recursion = sys.getrecursionlimit()
        self._streams = (sys.stdin, sys.stdout, sys.stderr)
        self.note()

    def note(self) -> None:
        """Called when the task has been imported and is about to run."""
        self._environment = dict(_ENVIRONMENT)
        self._path = (sys.path, list(sys.path))
        self._modules = (sys.modules, dict(sys.modules))
        self._locale = locale.setlocale(locale.LC_ALL)

    def restore(self) -> None:
        """Undo the changes; never raises."""
        for step in (
            self._restore_recursion,
            self._restore_imports,
            self._restore_signals,
            self._restore_streams,
            self._restore_folder,
            self._restore_environment,
            self._restore_locale,
        ):
            # A failure of one must not prevent the others, which matter to the next job too.
            with contextlib.suppress(Exception):
                step()

    def _restore_recursion(self) -> None:
        sys.settrace(None)
        sys.setprofile(None)
        if sys.getrecursionlimit() != self._recursion:
            sys.setrecursionlimit(self._recursion)

    def _restore_imports(self) -> None:
        sys.path, entries = self._path
        if sys.path != entries:
            sys.path[:] = entries
        sys.modules, modules = self._modules
        # Modules that the task has imported stay; modules that it has removed come back.
        if missing := modules.keys() - sys.modules.keys():
            sys.modules.update({name: modules[name] for name in missing})

    def _restore_environment(self) -> None:
        if self._environment != _ENVIRONMENT:
            for name in _ENVIRONMENT.keys() - self._environment.keys():
                del os.environb[name]
            os.environb.update(self._environment)

    def _restore_locale(self) -> None:
        if locale.setlocale(locale.LC_ALL) != self._locale:
            locale.setlocale(locale.LC_ALL, self._locale)

    def _restore_signals(self) -> None:
        for timer in _TIMERS:
            signal.setitimer(timer, 0)
        for number, handler in self._signals.items():
            if signal.getsignal(number) is not handler:
                signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._blocked)

    def _restore_streams(self) -> None:
        for fd in _STANDARD_FDS:
            # If it stayed closed, the next file or connection would get its number.
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
    # None if the process was started without it.
    if stream is None or not stream.closed:
        return stream
    return cast("TextIO", open(fd, mode, closefd=False, errors="backslashreplace"))


def _occupy(fd: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    if null != fd:
        os.dup2(null, fd, inheritable=True)
        os.close(null)
