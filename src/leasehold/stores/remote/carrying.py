"""A transport for the remote store: calls to one of the servers, and connections for long polls."""

from __future__ import annotations

from typing import Final, Protocol

CONNECT_SECONDS: Final = 5.0
IDLE_MAX: Final = 16
"""The most idle connections kept."""
IDLE_SECONDS_MAX: Final = 30.0
"""Shorter than any server keeps one, so that it is not closed just as it is used."""


class FailedError(Exception):
    """Raised when no reply came."""

    def __init__(self, reason: Exception | str, *, was_sent: bool) -> None:
        super().__init__(str(reason) or type(reason).__name__)
        self.was_sent = was_sent
        """Whether the request may have been carried out."""


class PollConnection(Protocol):
    """A connection for the long polls of one thread, which another thread may close."""

    def call(self, server: int, verb: str, body: bytes) -> bytes:
        """As `Carrier.call`, on this connection."""

    def hang_up(self) -> None:
        """End the current call, and refuse any other."""

    def close(self) -> None:
        """Release it; called by the calling thread."""


class Carrier(Protocol):
    """Carries calls to the servers of an address, by their number."""

    def call(self, server: int, verb: str, body: bytes) -> bytes:
        """The answer to a verb; raises the service's error, or FailedError."""

    def line(self) -> PollConnection:
        """A connection for long polls."""

    def close(self) -> None:
        """Close idle connections."""
