"""A transport for the remote store: calls to one of the servers, and a line of its own."""

from __future__ import annotations

from typing import Final, Protocol

CONNECT_SECONDS: Final = 5.0
IDLE_MAX: Final = 16
"""Connections that are kept for later."""
IDLE_SECONDS_MAX: Final = 30.0
"""Less than any server keeps one: it is not closed in the very moment in which it is used."""


class FailedError(Exception):
    """Raised when no reply came."""

    def __init__(self, reason: Exception | str, *, was_sent: bool) -> None:
        super().__init__(str(reason) or type(reason).__name__)
        self.was_sent = was_sent
        """Whether the request may have been carried out."""


class PollConnection(Protocol):
    """A connection for long polls, of one thread, that another may hang up."""

    def call(self, server: int, verb: str, body: bytes) -> bytes:
        """As `Carrier.call`, on this line."""

    def hang_up(self) -> None:
        """End the call that is under way, and refuse any other."""

    def close(self) -> None:
        """Let go of it; said by the thread that calls."""


class Carrier(Protocol):
    """Carries calls to the servers of an address, by their number."""

    def call(self, server: int, verb: str, body: bytes) -> bytes:
        """The answer to a verb; raises the error that the service tells, or FailedError."""

    def line(self) -> PollConnection:
        """A line for long polls."""

    def close(self) -> None:
        """Let go of idle connections."""
