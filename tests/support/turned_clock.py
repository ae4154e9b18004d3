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
        self._waiting: _Sleepers = _Sleepers()

    def turn(self, seconds: float) -> None:
        """Let time pass for a thread that sleeps, or will, until it sleeps again."""
        sleepers = self._waiting
        with sleepers.news:
            assert sleepers.news.wait_for(lambda: len(sleepers) > 0, PATIENCE_SECONDS), (
                "nobody sleeps"
            )
            again = sleepers.fell_asleep + len(sleepers)
        self.advance(seconds)
        with sleepers.news:
            assert sleepers.news.wait_for(
                lambda: sleepers.fell_asleep >= again, PATIENCE_SECONDS
            ), "whoever slept has not gone to sleep again"


class _Sleepers(list[threading.Condition]):
    """Those whom the clock wakes; it tells of each that falls asleep.

    One is here before it waits, but its caller holds its condition until it does: to wake it
    takes until then.
    """

    def __init__(self) -> None:
        super().__init__()
        self.news = threading.Condition()
        self.fell_asleep = 0

    def append(self, condition: threading.Condition) -> None:
        with self.news:
            super().append(condition)
            self.fell_asleep += 1
            self.news.notify_all()

    def remove(self, condition: threading.Condition) -> None:
        with self.news:
            super().remove(condition)
