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
            return condition.wait()
        deadline = self._monotonic_micros + round(seconds * 1e6)
        with self._lock:
            self._waiting.append(condition)
        # It sleeps as soon as it is woken by turns: its caller holds the condition until it waits.
        with self._news:
            self._asleep += 1
            self._fell_asleep += 1
            self._news.notify_all()
        try:
            if self._monotonic_micros < deadline:
                condition.wait()
            return self._monotonic_micros < deadline
        finally:
            with self._lock:
                self._waiting.remove(condition)
            with self._news:
                self._asleep -= 1
