"""Connections across a fork: the child gives up the parent's.

It must not use them, nor say goodbye on them. But as long as it has their sockets open, the server
does not learn that the parent was killed: locks of its transactions would be held until a timeout
ends them, its rows would stay locked, its connections would count. So in the child each socket is
replaced by one that leads nowhere. (It is not closed: its number would be given to another file,
and libpq knows that number.)

A connection that proves that workers live is kept open: a child may be at work on their jobs.
"""

from __future__ import annotations

import os
import weakref
from contextlib import suppress
from typing import Any, Final

import psycopg

from leasehold.forking import at_fork


class OwnConnection(psycopg.Connection[tuple[Any, ...]]):
    """psycopg's own, which is given up in a forked child."""

    proves_life = False
    """Whether workers are known to live by it."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        _OPEN.add(self)


_OPEN: Final[weakref.WeakSet[OwnConnection]] = weakref.WeakSet()


def _give_up_in_child() -> None:
    nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for each in list(_OPEN):
        if not each.proves_life:
            with suppress(psycopg.Error, OSError):  # It is closed.
                os.dup2(nowhere, each.fileno(), inheritable=False)
    os.close(nowhere)
    _OPEN.clear()


at_fork(after_in_child=_give_up_in_child)
