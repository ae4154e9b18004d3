"""What a verb is carried out by: a write, or a look, of whichever store it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class AtomicStore(ABC):
    """An operation is given the store as its own code sees it: a state, a step, a connection."""

    @abstractmethod
    def _write(self, operation: Callable[[Any], T]) -> T:
        """Carry out an operation that may change the store: all of it, or nothing of it."""

    @abstractmethod
    def _look(self, operation: Callable[[Any], T]) -> T:
        """Carry out an operation that only reads, all of it at one moment."""

    @abstractmethod
    def _now(self, look: Any) -> int:
        """The store's time in microseconds, for who only looks."""

    def _walk(self, operation: Callable[[Any], T]) -> T:
        """The same for one that may read very much, and need not be of one moment."""
        return self._look(operation)
