"""A write's messages to listeners: told after its commit."""

from __future__ import annotations

from typing import Final


class Hints:
    """Whom to wake after the commit. Losing one costs time, never a job: nothing may hang on it."""

    __slots__ = ("cancel_requested", "ended", "ready", "unresolved")

    def __init__(self) -> None:
        self.ready = False
        self.ended: list[str] = []
        self.unresolved = False
        """Whether this write left dependents to another one; the table `resolving` names them."""
        self.cancel_requested: list[str] = []

    def __bool__(self) -> bool:
        return bool(self.ready or self.unresolved or self.ended or self.cancel_requested)

    def clear(self) -> None:
        self.ready = self.unresolved = False
        self.ended = []
        self.cancel_requested = []

    def take(self, other: Hints) -> None:
        """Add what another one holds, and leave it empty."""
        if other.ready:
            self.ready, other.ready = True, False
        if other.unresolved or other.ended or other.cancel_requested:
            self.unresolved = self.unresolved or other.unresolved
            self.ended += other.ended
            self.cancel_requested += other.cancel_requested
            other.clear()


READY: Final = Hints()
"""Only the news of jobs to lease."""
READY.ready = True
