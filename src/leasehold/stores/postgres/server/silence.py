"""Bounding the wait for a server, or a network, that falls silent on an open connection.

The server's own timeouts do not help if the server itself is stopped, and the network's do not help
if something on the way still accepts data. So a caller that waits for an answer measures how long
there was none. psycopg wakes from its wait ten times a second, and a wait that ends before that
costs next to nothing. Time in which this process itself was stopped does not count.

Meanwhile the server is probed (`pulse`).

A statement on a connection that fell silent may still be carried out; its outcome is unknown, as
after a cut.

Ctrl-C ends a wait likewise. Connections are used inside the shield (`lending`), so it interrupts
nothing else, and a waiting caller checks for signals too. If a handler raises, the server is asked
to cancel, and the connection is abandoned: its next answer would be one that nobody waits for.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import Any, Final, Protocol, TypeVar

import psycopg

from leasehold.interrupts import SHIELD
from leasehold.stores.postgres.server.inherited import OwnConnection

T = TypeVar("T")

CONNECT_TIMEOUT_SECONDS: Final = 10
LOOK_UP_SECONDS: Final = 0.1
CANCEL_SECONDS: Final = 1.0
"""How long the request to cancel may take, since the server may be the one that does not answer."""


class SilentError(psycopg.OperationalError):
    """No answer came within the time allowed."""


class AskedServer(Protocol):
    """Reports whether a server is gone (`pulse.Pulse`)."""

    after_seconds: float

    def is_gone(self) -> bool:
        """Whether there is no answer at all."""


class ListeningConnection(OwnConnection):
    """A psycopg connection that is closed when its server falls silent."""

    patience_seconds: float = CONNECT_TIMEOUT_SECONDS
    """How long to wait without an answer; until it is set, the limit for connecting applies."""
    pulse: AskedServer | None = None
    """Detects a server that is gone before that."""

    def wait(
        self,
        gen: Generator[Any, Any, T],
        interval: float = LOOK_UP_SECONDS,
        *further: Any,
        **named: Any,
    ) -> T:
        try:
            return super().wait(self._heard(gen, interval), interval, *further, **named)
        except SilentError:
            self.pgconn.finish()
            raise

    def _deliver_signals(self) -> None:
        try:
            SHIELD.deliver()
        except BaseException:
            with contextlib.suppress(psycopg.Error):
                self.cancel_safe(timeout=CANCEL_SECONDS)
            # Closed before psycopg learns of it, since psycopg would wait for the server again.
            self.pgconn.finish()
            raise

    def _heard(self, gen: Generator[Any, Any, T], interval: float) -> Generator[Any, Any, T]:
        """The same steps, until nothing could be read or written for too long."""
        silent = since_asked = 0.0
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if ready:
                    silent = since_asked = 0.0
                else:
                    self._deliver_signals()
                    silent += interval
                    since_asked += interval
                    if silent > self.patience_seconds:
                        raise SilentError(f"no answer for {self.patience_seconds:g} s")
                    if self.pulse is not None and since_asked >= self.pulse.after_seconds:
                        since_asked = 0.0
                        if self.pulse.is_gone():
                            raise SilentError(f"no answer for {silent:.1f} s on any connection")
                wanted = gen.send(ready)
        except StopIteration as end:
            answer: T = end.value
            return answer
