"""Connections to the servers of a service: kept open, used by one thread at a time."""

from __future__ import annotations

import select
import socket
import ssl
import threading
from contextlib import suppress
from http.client import (
    HTTPConnection,
    HTTPException,
    HTTPResponse,
    HTTPSConnection,
    RemoteDisconnected,
)
from typing import IO, Any, Final

from leasehold.core.contract.wire import MEDIA_TYPE
from leasehold.env import Env
from leasehold.stores.remote.address import Address
from leasehold.stores.remote.carrying import (
    CONNECT_SECONDS,
    IDLE_MAX,
    IDLE_SECONDS_MAX,
    FailedError,
)
from leasehold.stores.remote.replies import Reply, answer_of

ROOT: Final = "/api/v1/store/"
_CUT: Final = (RemoteDisconnected, ConnectionError, ssl.SSLError)
"""The errors of a connection that a server rejects."""


class Connections:
    """One pool for all servers of an address."""

    def __init__(self, address: Address, env: Env) -> None:
        self._address = address
        self._clock = env.clock
        self._lock = threading.Lock()
        self._idle: list[tuple[int, float, HTTPConnection]] = []
        """Idle connections, each with the number of its server, and when it became idle."""
        self._tls: ssl.SSLContext | None = None
        if address.is_secure:
            self._tls = ssl.create_default_context(cafile=address.ca)
            if address.cert is not None:
                self._tls.load_cert_chain(address.cert, address.key)
        self._headers = {"Content-Type": MEDIA_TYPE}
        if address.token is not None:
            self._headers["Authorization"] = f"Bearer {address.token}"

    def call(self, server: int, verb: str, body: bytes) -> bytes:
        """Send a request to a server, and wait for its reply."""
        connection = self._take(server) or self.open(server)
        reply = self.post_on(connection, verb, body)
        with self._lock:
            is_kept = connection.sock is not None and len(self._idle) < IDLE_MAX
            if is_kept:
                self._idle.append((server, self._clock.monotonic(), connection))
        if not is_kept:
            connection.close()
        return answer_of(reply, self._address)

    def line(self) -> HTTPLine:
        return HTTPLine(self, self._address)

    def post_on(self, connection: HTTPConnection, verb: str, body: bytes) -> Reply:
        """The reply on one connection, which is closed if it fails."""
        try:
            connection.request("POST", self._address.prefix + ROOT + verb, body, self._headers)
            answer = connection.getresponse()
            kind = (answer.getheader("content-type") or "").partition(";")[0]
            return Reply(answer.status, kind, answer.read())
        except (OSError, HTTPException) as error:
            connection.close()
            hint = self._address.certificate_hint if isinstance(error, _CUT) else ""
            raise FailedError((str(error) or type(error).__name__) + hint, was_sent=True) from None
        except BaseException:
            # The next caller must not get the rest of the reply.
            connection.close()
            raise

    def open(self, server: int) -> HTTPConnection:
        """A new connection; raises FailedError."""
        host, port = self._address.servers[server]
        connection = (
            HTTPConnection(host, port, timeout=CONNECT_SECONDS)
            if self._tls is None
            else HTTPSConnection(host, port, timeout=CONNECT_SECONDS, context=self._tls)
        )
        connection.response_class = WholeReply
        try:
            connection.connect()
        except OSError as error:
            connection.close()
            raise FailedError(error, was_sent=False) from None
        connection.sock.settimeout(self._address.timeout_seconds)
        return connection

    def close(self) -> None:
        """Close idle connections."""
        with self._lock:
            idle, self._idle = self._idle, []
        for *_, connection in idle:
            connection.close()

    def _take(self, server: int) -> HTTPConnection | None:
        """The connection to a server that was used last, if it is still usable."""
        oldest = self._clock.monotonic() - IDLE_SECONDS_MAX
        while True:
            with self._lock:
                places = [place for place, idle in enumerate(self._idle) if idle[0] == server]
                if not places:
                    return None
                _, since, connection = self._idle.pop(places[-1])
            if since >= oldest and not _has_news(connection.sock):
                return connection
            connection.close()


class WholeReply(HTTPResponse):
    """A reply that checks that its headers are complete.

    The standard library takes the end of the connection for the end of the headers, so a reply cut
    there would look like the answer of something other than a Leasehold service.
    """

    def begin(self) -> None:
        self.fp: Any = _Head(self.fp)
        super().begin()
        if isinstance(self.fp, _Head):
            self.fp = self.fp.connection


class _Head:
    """The lines of a reply up to its body."""

    def __init__(self, connection: IO[bytes]) -> None:
        self.connection = connection
        self.close = connection.close
        self.flush = connection.flush
        self._has_begun = False

    def readline(self, limit: int) -> bytes:
        line = self.connection.readline(limit)
        if not line.endswith(b"\n") and len(line) < limit:
            if line or self._has_begun:
                raise RemoteDisconnected("the connection ended inside the head of a reply")
            raise RemoteDisconnected("closed before any response; is this the HTTP port?")
        self._has_begun = True
        return line


class HTTPLine:
    """A connection outside the pool."""

    def __init__(self, connections: Connections, address: Address) -> None:
        self._connections = connections
        self._address = address
        self._lock = threading.Lock()
        self._connection: HTTPConnection | None = None
        self._closed = False

    def call(self, server: int, verb: str, body: bytes) -> bytes:
        connection = self._connection
        if connection is None or connection.sock is None:
            connection = self._connections.open(server)
        with self._lock:
            self._connection = connection
            if self._closed:
                connection.close()
                raise FailedError("the connection was closed", was_sent=False)
        return answer_of(self._connections.post_on(connection, verb, body), self._address)

    def hang_up(self) -> None:
        with self._lock:
            self._closed = True
            connection = self._connection
        if connection is not None and connection.sock is not None:
            with suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _has_news(sock: socket.socket | None) -> bool:
    """Whether an idle connection has something to read, which can only be its end."""
    if sock is None:
        return True
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))
