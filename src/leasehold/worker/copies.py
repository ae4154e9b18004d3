"""Forked copies: what `os.fork()` inside a task, a hook or an import leaves behind.

The copy of a process has one thread, the one that forked. It may run the code that its author meant
it to run, but when that code ends, it is in the middle of a worker that is not its own: the next
jobs in line, the connections, the store. So every call of application code compares the process
before and after, and a copy ends there. It never reports, leases, settles or runs anything.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from leasehold.forking import at_fork
from leasehold.worker.describe import guarded

_pid = os.getpid()


def here() -> int:
    """The id of this process, without a system call each time.

    It misses a fork that was not made by Python: where that would do harm, ask the system.
    """
    return _pid


def _note_fork() -> None:
    global _pid  # noqa: PLW0603 - it is a fact about the whole process.
    _pid = os.getpid()


at_fork(after_in_child=_note_fork)


@contextmanager
def copies_end_here() -> Iterator[None]:
    """Make a process forked inside this block end at the end of the block."""
    pid = here()
    try:
        yield
    except BaseException as error:
        if here() != pid:
            leave_copy(error)
        raise
    if here() != pid:
        leave_copy()


def leave_copy(error: BaseException | None = None) -> NoReturn:
    """End this process like a program whose code returned, exited, or raised this error.

    Nothing of the parent's is touched: no exit handlers, no threads to wait for.
    """
    status = 1
    try:
        status = _status(error)
        for stream in (sys.stdout, sys.stderr):
            guarded(lambda stream=stream: stream.flush(), None)  # type: ignore[misc]
    finally:
        os._exit(status)


def _status(error: BaseException | None) -> int:
    if error is None:
        return 0
    if issubclass(type(error), SystemExit):
        code = guarded(lambda: error.code, 1)  # type: ignore[attr-defined]
        if code is None:
            return 0
        if type(code) is int:
            return code & 0xFF
        guarded(lambda: print(code, file=sys.stderr), None)  # noqa: T201 - as the interpreter does.
        return 1
    guarded(lambda: traceback.print_exception(error), None)
    return 1
