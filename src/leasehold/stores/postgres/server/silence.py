"""A server, or the way to it, that falls silent on an open connection: it is not waited for long.

The server's own timeouts count for nothing where the server itself is stopped, and the network's
for nothing where something on the way still takes what is sent. So whoever waits for an answer
counts for how long there was none. psycopg looks up from its wait ten times a second, and a wait
that ends before that costs next to nothing. Time in which this process was itself stopped is not
counted.

Meanwhile the server is asked whether it is there (`pulse`).

An order to a connection that fell silent may still be carried out: it is lost, as one that was cut.

Ctrl-C ends a wait likewise. Connections are used inside the shield (`lending`), so nothing else is
cut in two by it; and whoever waits looks up for signals, too. If a handler raises, the server is
asked to stop, and the connection is given up: what it would answer next is the answer to something
that nobody waits for.
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
"""How long it may take to ask the server to stop: it may be the one that does not answer."""


class SilentError(psycopg.OperationalError):
    """No answer came for as long as one was waited for."""


class AskedServer(Protocol):
    """What knows whether a server is gone (`pulse.Pulse`)."""

    after_seconds: float

    def is_gone(self) -> bool:
        """Whether there is no answer at all."""


class ListeningConnection(OwnConnection):
    """psycopg's own, which is closed when its server falls silent."""

    patience_seconds: float = CONNECT_TIMEOUT_SECONDS
    """For so long no answer is waited for; it is as for connecting until it is set."""
    pulse: AskedServer | None = None
    """Tells of a server that is gone before that."""

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
            # Closed before psycopg hears of it: it would wait for the server once more.
            self.pgconn.finish()
            raise

    def _heard(self, gen: Generator[Any, Any, T], interval: float) -> Generator[Any, Any, T]:
        """The same steps, until there was nothing to be read or written for too long."""
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
