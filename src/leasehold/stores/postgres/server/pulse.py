"""Whether the server is reachable: probed once for all callers that have waited for some time.

A statement may take long, and so may waiting for a free connection: neither proves that the server
is away. A new connection does, long before the other limits have passed.
"""

from __future__ import annotations

import threading
from typing import Final

import psycopg

from leasehold.env import Clock
from leasehold.stores.postgres.server.address import Address
from leasehold.stores.postgres.server.connection import RawConnection, open_connection
from leasehold.stores.postgres.server.reach import Reach

RECENT_SECONDS: Final = 0.5
"""How long a result is reused for other callers, since many wait at the same time."""


def is_refusal(error: psycopg.OperationalError) -> bool:
    """Whether the server has answered with a refusal, such as one for too many connections."""
    return "FATAL: " in str(error)


def connect(address: Address, name: str, reach: Reach) -> RawConnection:
    """Open a connection, and log a line if the server is away or back."""
    try:
        raw = open_connection(address, application_name=name)
    except psycopg.OperationalError as error:
        if not is_refusal(error):
            reach.is_lost(error)
        raise
    reach.is_back()
    return raw


class Pulse:
    """Probes the server with a separate connection."""

    def __init__(self, address: Address, clock: Clock, reach: Reach) -> None:
        self._address = address
        self._reach = reach
        self._clock = clock
        self.after_seconds = address.away_seconds / 2
        """How long a caller waits before its first probe, and between probes."""
        self._mutex = threading.Lock()
        self._asked_at = float("-inf")
        self._trouble: str | None = None

    def check(self) -> None:
        """Raise psycopg's error if the server is away or refuses connections."""
        with self._mutex:
            if self._clock.monotonic() >= self._asked_at + RECENT_SECONDS:
                self._trouble = self._ask()
                self._asked_at = self._clock.monotonic()
            if self._trouble is not None:
                raise psycopg.OperationalError(self._trouble)

    def is_gone(self) -> bool:
        """Whether there is no answer at all; a refusal is an answer."""
        try:
            self.check()
        except psycopg.OperationalError as error:
            return not is_refusal(error)
        return False

    def _ask(self) -> str | None:
        try:
            connect(self._address, "leasehold look-up", self._reach).close()
        except psycopg.OperationalError as error:
            return str(error)
        return None
