"""Whether the server is there: asked by one for all who have waited for it for some time.

A statement may take long, and so may it until a connection is free: neither says that the server is
away. A new connection tells. Callers that cannot wait until the other limits have passed, such as
those of the service, are then told so at once.
"""

from __future__ import annotations

import threading
from typing import Final

import psycopg

from leasehold.env import Clock
from leasehold.stores.postgres.server.address import Address
from leasehold.stores.postgres.server.connection import open_connection

RECENT_SECONDS: Final = 0.5
"""For so long a finding is good for whoever asks next: many wait at the same time."""


class Pulse:
    """Asks the server, by a connection of its own."""

    def __init__(self, address: Address, clock: Clock, after_seconds: float) -> None:
        self._address = address
        self._clock = clock
        self.after_seconds = after_seconds
        """How long a caller waits before it asks for the first time, and between two questions."""
        self._mutex = threading.Lock()
        self._asked_at = float("-inf")
        self._trouble: str | None = None

    def check(self) -> None:
        """Raise what psycopg does if the server is away, or refuses to be used."""
        with self._mutex:
            if self._clock.monotonic() >= self._asked_at + RECENT_SECONDS:
                self._trouble = self._ask()
                self._asked_at = self._clock.monotonic()
            if self._trouble is not None:
                raise psycopg.OperationalError(self._trouble)

    def is_gone(self) -> bool:
        """Whether there is no answer at all: a refusal is one, too."""
        try:
            self.check()
        except psycopg.OperationalError as error:
            return "FATAL: " not in str(error)
        return False

    def _ask(self) -> str | None:
        try:
            open_connection(self._address, application_name="leasehold look-up").close()
        except psycopg.OperationalError as error:
            return str(error)
        return None


def pulse_of(address: Address, clock: Clock) -> Pulse | None:
    """For a store whose URL says after how long its server counts as away."""
    if address.away_seconds is None:
        return None
    return Pulse(address, clock, address.away_seconds / 2)
