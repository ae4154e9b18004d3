"""A clock that is turned step by step, for tests of threads that sleep by it."""

from __future__ import annotations

import threading

from leasehold.env import ManualClock

PATIENCE_SECONDS = 60.0


class TurnedClock(ManualClock):
    """A manual clock that knows who sleeps by it.

    Whoever turns an ordinary one again and again outruns a thread that gets no processor: what was
    to happen in time then happens late.
    """

    def __init__(self) -> None:
        super().__init__()
        self._news = threading.Condition()
        self._asleep = 0
        self._fell_asleep = 0

    def turn(self, seconds: float) -> None:
        """Let time pass for a thread that sleeps, or will, until it sleeps again."""
        with self._news:
            assert self._news.wait_for(lambda: self._asleep > 0, PATIENCE_SECONDS), "nobody sleeps"
            again = self._fell_asleep + self._asleep
        self.advance(seconds)
        with self._news:
            assert self._news.wait_for(lambda: self._fell_asleep >= again, PATIENCE_SECONDS), (
                "whoever slept has not gone to sleep again"
            )

    def wait(self, condition: threading.Condition, seconds: float | None) -> bool:
        if seconds is None:
            return super().wait(condition, None)
        # Its caller holds the condition until it sleeps: no turn can pass it by.
        with self._news:
            self._asleep += 1
            self._fell_asleep += 1
            self._news.notify_all()
        try:
            return super().wait(condition, seconds)
        finally:
            with self._news:
                self._asleep -= 1
