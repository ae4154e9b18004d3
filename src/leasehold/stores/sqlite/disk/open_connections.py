"""Remembering connections without keeping them alive, and without a WeakSet.

No weak reference to an apsw connection may have a callback, as those of the `weakref` collections
have. While a connection is destroyed, apsw calls them although the garbage collector still knows
the object, so a collection at that moment, in whatever thread, would destroy it a second time.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Generic, TypeVar

import apsw

C = TypeVar("C", bound=apsw.Connection)


class OpenConnections(Generic[C]):
    """The connections that were added and still exist."""

    def __init__(self) -> None:
        self._known: set[weakref.ref[C]] = set()

    def add(self, connection: C) -> None:
        for itself in list(self._known):
            if itself() is None:
                self._known.discard(itself)
        self._known.add(weakref.ref(connection))

    def __iter__(self) -> Iterator[C]:
        for itself in list(self._known):
            connection = itself()
            if connection is not None:
                yield connection
