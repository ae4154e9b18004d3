"""Whether Redis answers, and the one way to ask it.

A caller gets an answer, or None after a quarter of a second at the latest: then Redis counts as
away for all callers, and only the thread that retries every second asks it. That thread tries a
write, so a Redis that is full, read-only or loading counts as away too.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final, TypeVar

import redis

from leasehold.stores.redis.address import Address

logger = logging.getLogger("leasehold.store")

T = TypeVar("T")

PROBE_SECONDS: Final = 1.0
"""How often Redis is probed."""
_AWAY: Final = (redis.RedisError, OSError, ValueError, TypeError, IndexError)
"""The errors of a lost connection, and of an invalid answer."""


class Link:
    """One process's link to Redis."""

    def __init__(self, address: Address, probe: Callable[[redis.Redis], object]) -> None:
        """`probe` raises if Redis cannot do its work. Nothing is connected yet."""
        self._address = address
        self._probe = probe
        self._mutex = threading.Lock()
        self.client = address.open()
        self.problem: str | None = None
        """Why it is away."""
        self._is_up: bool | None = None
        """None before the first call."""

    @property
    def is_up(self) -> bool:
        return self.look() if self._is_up is None else self._is_up

    def ask(self, question: Callable[[redis.Redis], T]) -> T | None:
        """The answer, or None if Redis is away."""
        if not self.is_up:
            return None
        try:
            return question(self.client)
        except _AWAY as error:
            self.lose(error)
            return None

    def look(self) -> bool:
        """Probe Redis, regardless of the last result."""
        try:
            self._probe(self.client)
        except _AWAY as error:
            self.lose(error)
            return False
        with self._mutex:
            is_back, self._is_up, self.problem = self._is_up is False, True, None
        if is_back:
            logger.info("Redis at %s answers again; it is in use again", self._address.shown)
        return True

    def lose(self, error: Exception) -> None:
        """Record that Redis was found to be away."""
        with self._mutex:
            is_news, self._is_up = self._is_up is not False, False
            self.problem = f"{type(error).__name__}: {error}"
        if is_news:
            logger.warning(
                "Redis at %s does not answer (%s): PostgreSQL continues alone, which is only "
                "slower",
                self._address.shown,
                self.problem,
            )

    def close(self) -> None:
        self.client.close()
