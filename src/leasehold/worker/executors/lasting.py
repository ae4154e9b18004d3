"""Changes that a task may make to its whole process and that cannot be undone.

After such a job its child process is replaced: the next job would run under another user, in
another root folder, with less memory or with somebody else's audit hook.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Final

_LIMITS: Final = tuple(
    getattr(resource, f"RLIMIT_{name}")
    for name in ("AS", "CPU", "DATA", "FSIZE", "MEMLOCK", "NOFILE", "NPROC", "STACK")
    if hasattr(resource, f"RLIMIT_{name}")
)
"""Limits that code sets for itself, to be stopped before it uses too much."""


class LastingChanges:
    """Compares the process with its state when this was made."""

    def __init__(self) -> None:
        self._limits = {limit: resource.getrlimit(limit) for limit in _LIMITS}
        self._user = _user()
        self._root = _root()
        self._niceness = os.getpriority(os.PRIO_PROCESS, 0)
        self._has_hook = False
        # An audit hook can be neither found afterwards nor removed.
        self._add_hook = sys.addaudithook
        sys.addaudithook = self._note_hook

    def found(self) -> str | None:
        """The lasting changes, in a few words; None if there are none.

        Limits that can still be raised to their old values are restored.
        """
        if self._has_hook:
            return "an audit hook"
        if _user() != self._user:
            return "another user or group"
        if _root() != self._root:
            return "another root folder"
        if os.getpriority(os.PRIO_PROCESS, 0) != self._niceness:
            return "another priority"
        if any(not _is_restored(limit, before) for limit, before in self._limits.items()):
            return "a lower resource limit"
        return None

    def _note_hook(self, hook: Callable[[str, tuple[object, ...]], object]) -> None:
        self._has_hook = True
        self._add_hook(hook)


def _is_restored(limit: int, before: tuple[int, int]) -> bool:
    if resource.getrlimit(limit) == before:
        return True
    with suppress(ValueError, OSError):
        resource.setrlimit(limit, before)
    return resource.getrlimit(limit) == before


def _user() -> tuple[object, ...]:
    ids = (os.getuid(), os.geteuid(), os.getgid(), os.getegid())
    return (*ids, tuple(os.getgroups()))


def _root() -> tuple[int, int]:
    found = os.stat("/")
    return found.st_dev, found.st_ino
