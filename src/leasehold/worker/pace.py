"""The pace of a worker's exchanges while jobs arrive one by one.

Each submit wakes the worker, and each exchange takes the store's one place to write from the
producer. So a worker that has emptied its queue and hears of new jobs right after an exchange rests
a moment: jobs that arrive meanwhile share the next exchange, and the producer continues. A job that
reaches an idle worker is served at once, and so is a run that ends while nothing new arrives: a
lone job, and a caller that waits for its result, pay nothing.
"""

from __future__ import annotations

from typing import Final

REST_SECONDS_MIN: Final = 0.001
REST_SECONDS_MAX: Final = 0.005
RESTS_MAX: Final = 5
"""How many of the shortest rests in a row may delay an exchange while most of the jobs leased ahead
have yet to run.
"""
RESTS_PER_EXCHANGE: Final = 2.0
"""The producer is left alone for this many times as long as an exchange has kept it waiting."""


class Pace:
    """How long to rest before the next exchange, in monotonic time."""

    __slots__ = ("_queue_was_emptied", "_rest_until")

    def __init__(self) -> None:
        self._queue_was_emptied = False
        self._rest_until = float("-inf")

    def exchanged(self, began: float, ended: float, *, queue_was_emptied: bool) -> None:
        """Record an exchange: a long one, on a busy store, is followed by a longer rest."""
        rest_seconds = RESTS_PER_EXCHANGE * (ended - began)
        rest_seconds = min(max(REST_SECONDS_MIN, rest_seconds), REST_SECONDS_MAX)
        self._queue_was_emptied = queue_was_emptied
        self._rest_until = ended + rest_seconds

    def rest_seconds(self, now: float, *, jobs_arrive: bool) -> float:
        """How long to let more jobs arrive first; 0 or less means not at all."""
        return self._rest_until - now if jobs_arrive and self._queue_was_emptied else 0.0
