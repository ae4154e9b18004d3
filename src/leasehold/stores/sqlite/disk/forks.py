"""Forks: nothing of SQLite may be inherited.

SQLite keeps a table of the POSIX locks that its process holds on each file. A forked child inherits
the table but not the locks: it believes itself protected, takes none of its own, and the next
process to close the file deletes the write-ahead log under it. Acknowledged commits are lost then,
and nothing looks damaged.

So before a fork every store of the process blocks new calls, lets its writes and reads end, and
closes its connections. Afterwards parent and child both continue with the same object, and open the
file again when they next use it. The child recreates its locks and conditions, since the threads
that may have held them do not exist there.

If that is impossible (an application's connection is open, the forking thread is itself inside a
read or a write, or others take too long), the parent keeps its connections, and in the child every
use of that file is refused, through any path or store, before anything is acknowledged. The same
applies to a fork that was not made by Python, for which no hooks ran; it is recognised by the
process id.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import weakref
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import apsw

from leasehold.env import SYSTEM
from leasehold.errors import LeaseholdError, StoreLostError
from leasehold.forking import at_fork
from leasehold.interrupts import SHIELD
from leasehold.stores.sqlite.disk.files import FileId

if TYPE_CHECKING:
    from leasehold.stores.sqlite.writing.database import Database

RESEND_SECONDS: Final = 0.001
"""By then the fork has usually returned, and the application can receive the signal."""
EXIT_SECONDS: Final = 1.0
"""How long the exit of the process waits for the reads and writes of each store."""
PATIENCE_SECONDS: Final = 5.0
"""How long a fork waits for reads and writes of other threads, in all stores together."""

NOT_PREPARED: Final = (
    "it was open while the process was forked by other means than Python's os.fork(), so that it "
    "could not be closed before"
)


class _Fork:
    """The state of a fork in progress."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.open_because: dict[Database, str] = {}
        """Stores that could not be closed, and why."""
        self.closed: set[Database] = set()


class _Process:
    """The process's record of its stores; recreated in a forked child."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.mutex = threading.RLock()
        """Held from before a fork until after it: stores are opened before or after, not during.

        Taken and released inside the shield: if an interrupt left it held, no thread could ever
        open a store or fork again.
        """
        self.stores: weakref.WeakSet[Database] = weakref.WeakSet()
        self.fork: _Fork | None = None
        self.inherited: dict[FileId, str] = {}
        """Files whose connections of an ancestor still exist here, and why."""
        self.kept: list[object] = []
        """Stores whose connections must never be closed here."""


_process = _Process()


def register(store: Database) -> None:
    """Handle this store when the process forks. Call it before its first connection is opened."""
    _notice_unannounced_fork()
    with SHIELD, _process.mutex:
        _process.stores.add(store)


def forget(store: Database) -> None:
    """Forget a closed store."""
    with SHIELD, _process.mutex:
        _process.stores.discard(store)


def refuse_inherited(file: FileId, path: Path) -> None:
    """Raise StoreLostError if connections of an ancestor to this file still exist here."""
    _notice_unannounced_fork()
    if _process.inherited:
        reason = _process.inherited.get(file)
        if reason is not None:
            raise StoreLostError(refusal(path, reason))


def why_inherited(file: FileId | None) -> str:
    """Why a store that the parent had open could not be closed before the fork."""
    _notice_unannounced_fork()
    return NOT_PREPARED if file is None else _process.inherited.get(file, NOT_PREPARED)


def refusal(path: Path, reason: str) -> str:
    """The message to a child that must not use a file."""
    if "uwsgi" in sys.modules:
        return (
            f"{path} cannot be used in this process, since {reason}: close your connections "
            "before uWSGI forks and leave `uwsgi.post_fork_hook` to Leasehold "
            "(`uwsgidecorators.postfork` shares it), or start uWSGI with --lazy-apps, so that "
            "every process makes its own queue"
        )
    return (
        f"{path} cannot be used in this forked process, since {reason}: SQLite cannot tell the "
        "locks of parent and child apart, and commits would be lost. Fork before the connection is "
        "opened or after it is closed, or start the process with multiprocessing's spawn method or "
        "subprocess"
    )


def _before() -> None:
    # Signals are held back until after the fork: if one of the hooks below were cut short, the
    # stores would stay blocked for ever.
    SHIELD.__enter__()
    is_prepared = False
    try:
        is_prepared = _prepare()
    finally:
        if not is_prepared:
            _open_shield()


def _prepare() -> bool:
    """Close every store; False if another thread's fork is in the way."""
    _notice_unannounced_fork()
    if not _process.mutex.acquire(timeout=PATIENCE_SECONDS):
        return False  # A fork in another thread hangs; the child finds that nothing was prepared.
    fork = _process.fork = _Fork()
    deadline = SYSTEM.clock.monotonic() + PATIENCE_SECONDS
    for store in list(_process.stores):
        # Kept until the store is known to be closed: if anything goes wrong, the child must not use
        # it.
        fork.open_because[store] = "closing it before the fork failed"
        reason = store.close_for_fork(max(0.0, deadline - SYSTEM.clock.monotonic()))
        if reason is None:
            fork.closed.add(store)
            del fork.open_because[store]
        else:
            fork.open_because[store] = reason
    return True


def _after_in_parent() -> None:
    fork = _process.fork
    if fork is None or fork.thread != threading.get_ident():
        return  # Another thread's: this fork was not prepared.
    try:
        for store in list(_process.stores):
            store.resume_after_fork()
    finally:
        _process.fork = None
        _process.mutex.release()
        _open_shield()


def _after_in_child() -> None:
    if _process.pid == os.getpid():
        return  # uWSGI and Python may both call this.
    fork = _process.fork
    try:
        _adopt(fork)
    finally:
        if fork is not None and fork.thread == threading.get_ident():
            _open_shield()


def _open_shield() -> None:
    """Let signals through again. Python drops exceptions of hooks, so pending signals are sent
    again.
    """
    noted = SHIELD.take_noted()
    SHIELD.__exit__(None, None, None)
    for signum in noted:
        threading.Timer(RESEND_SECONDS, _send_anew, (signum, threading.get_ident())).start()


def _send_anew(signum: int, forking: int) -> None:
    """Send a signal once the forking thread has left this hook, which may take long on a busy
    machine.
    """
    pause = threading.Event()
    while _is_in_hook(forking):
        pause.wait(RESEND_SECONDS)
    os.kill(os.getpid(), signum)


def _is_in_hook(thread: int) -> bool:
    frame = sys._current_frames().get(thread)  # noqa: SLF001  # the one way to see where it is
    while frame is not None:
        if frame.f_code in _HOOKS:
            return True
        frame = frame.f_back
    return False


def _notice_unannounced_fork() -> None:
    if _process.pid != os.getpid():
        _adopt(None)


def _adopt(fork: _Fork | None) -> None:
    """Begin a child's own record, from the one that its parent prepared for the fork."""
    global _process  # one per process, and this is another process
    parent, _process = _process, _Process()
    _process.inherited = parent.inherited
    _process.kept = parent.kept
    if fork is None or fork.thread != threading.get_ident():
        fork = _Fork()  # Nothing was prepared for this one.
    for store in list(parent.stores):
        if store in fork.closed:
            store.begin_anew_in_child()
            _process.stores.add(store)
            continue
        reason = fork.open_because.get(store, NOT_PREPARED)
        file = store.inherited_file()
        if file is not None:
            _process.inherited[file] = reason
        _keep_for_ever([store, *store.connections_of_others()])


def _keep_for_ever(inherited: list[object]) -> None:
    """Let nothing close these connections, not even the interpreter's exit."""
    _process.kept += inherited
    try:
        import ctypes
    except ImportError:
        return  # Then they live as long as this module, which is nearly the same.
    for item in inherited:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(item))


def _close_at_exit() -> None:
    """Close connections that were left open, so that no log is left behind.

    The stores stay usable: another handler of the application may come after this one.
    """
    _notice_unannounced_fork()
    for store in list(_process.stores):
        # An error now has the same effect as a kill, which is harmless.
        with suppress(LeaseholdError, apsw.Error, OSError):
            store.close_for_fork(EXIT_SECONDS)
        store.resume_after_fork()


_HOOKS: Final = frozenset({_after_in_parent.__code__, _after_in_child.__code__})

atexit.register(_close_at_exit)
at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
