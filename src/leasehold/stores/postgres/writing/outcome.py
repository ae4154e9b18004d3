"""What became of a write whose connection was lost: looked up, never guessed.

If its COMMIT was not sent, nothing of it is kept, and it is repeated. If it was sent, the mark that
it was to leave (`marks`) is checked once the server can be reached again.
"""

from __future__ import annotations

import threading
from typing import Final, Generic, TypeVar

import psycopg

from leasehold.env import Clock
from leasehold.errors import StoreUnavailableError
from leasehold.stores.postgres.server.address import Address
from leasehold.stores.postgres.server.connection import (
    SqlConnection,
    SqlCursor,
    connect_seconds,
    open_connection,
)
from leasehold.stores.postgres.server.pipeline import Reply
from leasehold.stores.postgres.writing.marks import Mark, was_left
from leasehold.stores.tables.step import Hints

T = TypeVar("T")

LOOKS_MAX: Final = 8
FIRST_PAUSE_SECONDS: Final = 0.05
"""The pause before the second look; each further one is twice as long, 6 seconds in total."""


class Outcome(Generic[T]):
    """How far one try of a write got."""

    def __init__(self) -> None:
        self.has_begun = False
        """Whether there was a connection."""
        self.is_sent = False
        """Whether the server was told to commit."""
        self.answer: T
        self.hints = Hints()
        self.takes_news = False
        """Whether its news was sent right behind its COMMIT."""
        self.is_told = False
        """Whether other processes were told of it."""
        self.mark: Mark | None = None
        """The value of its mark if it is kept."""
        self._commit: SqlCursor | None = None

    def send(self, db: SqlConnection, answer: T, hints: Hints) -> None:
        """Send the COMMIT."""
        self.answer, self.hints, self.is_sent = answer, hints, True
        self._commit = db.execute("COMMIT")

    def begin_anew(self) -> None:
        """Reset: it has done nothing, and is tried in another way."""
        self.is_sent = self.takes_news = self.is_told = False
        self.mark = self._commit = None

    @property
    def is_durable(self) -> bool:
        """Whether the server has confirmed the commit."""
        return isinstance(self._commit, Reply) and self._commit.result is not None

    def was_committed(self, address: Address, clock: Clock) -> bool:
        """Whether a write whose connection was lost is kept; raises if the server cannot say."""
        if not self.is_sent or self.mark is None:
            return False
        pause, error, began = FIRST_PAUSE_SECONDS, None, clock.monotonic()
        for _ in range(LOOKS_MAX):
            try:
                with open_connection(address, application_name="leasehold look-up") as raw:
                    raw.patience_seconds = connect_seconds(address)
                    return was_left(SqlConnection(raw), self.mark)
            except psycopg.OperationalError as still:
                error = still
            if clock.monotonic() - began >= address.away_seconds:
                break
            threading.Event().wait(pause)
            pause *= 2
        raise StoreUnavailableError(
            f"{address.shown}: the connection was lost during the commit, and the outcome could "
            "not be determined. Check whether the change was made before you try again"
        ) from error
