"""The circuit breaker before the store: while the database is away, requests do not pile up."""

from __future__ import annotations

import logging
import math
import threading
from typing import Final

from leasehold.env import Env
from leasehold.errors import StoreError, StoreMovedError, StoreUnavailableError

logger = logging.getLogger("leasehold.service")

FAILURES_MAX: Final = 5
"""After this many failures in a row, requests are refused without calling the store."""
PROBE_SECONDS: Final = 1.0
"""How long after the last one a request is then let through as a probe."""
REFUSAL: Final = "the store is unavailable: try again in a second"
"""The message for the others; the log says once why, and when the store is back."""


class StoreBreaker:
    """Counts consecutive failures of the store, and decides which requests may call it.

    >>> from leasehold.env import Env, ManualClock
    >>> clock = ManualClock()
    >>> breaker = StoreBreaker(Env(clock=clock))
    >>> for _ in range(FAILURES_MAX):
    ...     breaker.check()
    ...     breaker.failed()
    >>> breaker.check()
    Traceback (most recent call last):
    leasehold.errors.StoreUnavailableError: the store is unavailable: try again in a second
    >>> clock.advance(PROBE_SECONDS)
    >>> breaker.check()
    >>> clock.advance(PROBE_SECONDS)
    >>> breaker.check()  # the probe is still under way
    Traceback (most recent call last):
    leasehold.errors.StoreUnavailableError: the store is unavailable: try again in a second
    >>> breaker.worked()
    >>> breaker.is_open
    False
    """

    def __init__(self, env: Env) -> None:
        self._clock = env.clock
        self._lock = threading.Lock()
        self._failures = 0
        self._next_probe = 0.0

    @property
    def is_open(self) -> bool:
        """Whether requests are refused."""
        return self._failures >= FAILURES_MAX

    def check(self) -> None:
        """Refuse the request while the store is away, unless it is the probe."""
        if not self.is_open:
            return
        with self._lock:
            now = self._clock.monotonic()
            if self.is_open and now < self._next_probe:
                raise StoreUnavailableError(REFUSAL)
            # No other until this one has ended: a store that is away may keep it for long, and each
            # of them keeps a thread.
            self._next_probe = math.inf

    def worked(self) -> None:
        """Record that the store has answered."""
        if self._failures:
            with self._lock:
                was_open, self._failures = self.is_open, 0
            if was_open:
                logger.warning("the store answers again: requests are accepted")

    def failed(self) -> None:
        """Record that the store has failed."""
        with self._lock:
            self._failures += 1
            self._next_probe = self._clock.monotonic() + PROBE_SECONDS
            opens = self._failures == FAILURES_MAX
        if opens:
            logger.warning(
                "the store is unavailable: all requests but one a second are refused until it "
                "answers"
            )

    def note(self, error: BaseException | None) -> None:
        """Record the outcome of a request: only errors about the store itself count as its
        failures.
        """
        if isinstance(error, StoreError) and not isinstance(error, StoreMovedError):
            self.failed()
        else:
            self.worked()
