"""Hooks for forks, which also run when uWSGI forks.

Python calls the hooks of `os.register_at_fork` for the forks that it makes itself. uWSGI loads an
application in its master process and then forks in C, and Python hears nothing of it. So under
uWSGI the C library is asked to call the hooks of the parent (`pthread_atfork`), and uWSGI to call
those of the child (`post_fork_hook`): in the child, no code of Python may run before uWSGI has put
the interpreter in order.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

Hook = Callable[[], object]


class _Hooks:
    """All hooks, in the order in which they were registered."""

    def __init__(self) -> None:
        self.before: list[Hook] = []
        self.after_in_parent: list[Hook] = []
        self.after_in_child: list[Hook] = []
        self.in_uwsgi_process: list[Hook] = []
        self.pid = os.getpid()
        self.forking_thread: int | None = None
        """The thread in which Python itself forks now, and calls the hooks."""
        self.kept: list[object] = []
        """The callbacks that the C library has."""


_hooks: Final = _Hooks()


def at_fork(
    *,
    before: Hook | None = None,
    after_in_parent: Hook | None = None,
    after_in_child: Hook | None = None,
) -> None:
    """Call these at every fork, as `os.register_at_fork` does, and at those of uWSGI."""
    given: dict[str, Any] = {}
    for name, hook in (
        ("before", before),
        ("after_in_parent", after_in_parent),
        ("after_in_child", after_in_child),
    ):
        if hook is not None:
            given[name] = hook
            getattr(_hooks, name).append(hook)
    os.register_at_fork(**given)


def when_uwsgi_serves(hook: Hook) -> None:
    """Call this in every process in which uWSGI begins to serve the application."""
    _hooks.in_uwsgi_process.append(hook)


def is_uwsgi_master() -> bool:
    """Whether this process loads an application for uWSGI, whose other processes will serve it."""
    uwsgi = sys.modules.get("uwsgi")
    if not isinstance(uwsgi, ModuleType):
        return False
    return _is_master(uwsgi)


def _is_master(uwsgi: ModuleType) -> bool:
    numbers = [getattr(uwsgi, name, None) for name in ("worker_id", "mule_id", "i_am_the_spooler")]
    return numbers[0] is not None and not any(number() for number in numbers if number is not None)


# -- forks of Python ------------------------------------------------------------------------------


def _note_fork_of_python() -> None:
    _hooks.forking_thread = threading.get_ident()


def _note_end_of_fork() -> None:
    _hooks.forking_thread = None
    _hooks.pid = os.getpid()


# -- forks of uWSGI -------------------------------------------------------------------------------


def _before_fork_in_c() -> None:
    if _hooks.forking_thread != threading.get_ident() and _hooks.pid == os.getpid():
        for hook in reversed(_hooks.before):
            hook()


def _after_fork_in_c() -> None:
    if _hooks.forking_thread != threading.get_ident() and _hooks.pid == os.getpid():
        for hook in _hooks.after_in_parent:
            hook()


def _begin_in_process_of_uwsgi() -> None:
    """Called by uWSGI in every process that serves, also in one that was not forked."""
    if _hooks.pid != os.getpid():
        _note_end_of_fork()
        for hook in _hooks.after_in_child:
            hook()
    for hook in _hooks.in_uwsgi_process:
        hook()


def _follow_uwsgi() -> None:
    """If this is a master of uWSGI, let the hooks run at its forks."""
    uwsgi = sys.modules.get("uwsgi")
    if not isinstance(uwsgi, ModuleType) or not _is_master(uwsgi):
        return
    try:
        import ctypes
    except ImportError:
        return
    kind = ctypes.CFUNCTYPE(None)
    before, after = kind(_before_fork_in_c), kind(_after_fork_in_c)
    library = ctypes.CDLL(None)
    if hasattr(library, "__register_atfork"):  # glibc has the function itself in no shared library.
        is_refused = library["__register_atfork"](before, after, None, None)
    elif hasattr(library, "pthread_atfork"):
        is_refused = library.pthread_atfork(before, after, None)
    else:
        is_refused = True  # What a child inherits is then refused in it, by its pid.
    if is_refused:
        return
    _hooks.kept += [before, after]
    _be_called_in_children(uwsgi)


def _be_called_in_children(uwsgi: Any) -> None:
    """Join the hooks that uWSGI calls after a fork; it has a place for one function only."""
    is_first = "uwsgidecorators" not in sys.modules
    other, spooler = (getattr(uwsgi, name, None) for name in ("post_fork_hook", "spooler"))
    try:
        # It takes that place when it is first imported, and lets any number of functions share it.
        postfork = importlib.import_module("uwsgidecorators").postfork
    except Exception:  # noqa: BLE001 - it may be missing, and refuses to work without a master.

        def post_fork_hook() -> None:
            _begin_in_process_of_uwsgi()
            if other is not None:
                other()

        uwsgi.post_fork_hook = post_fork_hook
    else:
        postfork(_begin_in_process_of_uwsgi)
        # The functions that the application had put there before stay in their places.
        if is_first and other is not None:
            postfork(other)
        if is_first and spooler is not None:
            uwsgi.spooler = spooler


os.register_at_fork(
    before=_note_fork_of_python,
    after_in_parent=_note_end_of_fork,
    after_in_child=_note_end_of_fork,
)
_follow_uwsgi()
