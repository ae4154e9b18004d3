"""HTTP/1.1 with bounds: on a request's head, on waits for a client, on the number of connections.

A connection always has either a request in progress, or a timer that will close it.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import httptools
from starlette.responses import Response
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from leasehold.service.http_answers import plain_problem
from leasehold.service.limits import CONNECTIONS_MAX, HEADER_BYTES_MAX

HEADER_SECONDS_MAX: Final = 10.0
"""How long a request's head may take to arrive, or the rest of an already answered request."""
SILENT_CONNECTIONS_MAX: Final = 256
"""Connections that have not sent a request's head: beyond, the longest silent ones are closed."""

PIPELINED_MAX: Final = 100
"""Requests that may be queued behind the current one; each takes more memory than its bytes."""


class BoundedProtocol(HttpToolsProtocol):
    """HTTP with bounds on how long, and how large, a request's head may be."""

    silent: dict[BoundedProtocol, None] = {}  # noqa: RUF012  # of the process, the oldest first
    resting: dict[BoundedProtocol, None] = {}  # noqa: RUF012  # kept open between two requests

    _deadline: asyncio.TimerHandle | None = None
    _head_bytes = 0
    _unused_bytes = 0
    """How many bytes arrived since the parser last reported an event."""
    _is_whole = True
    """Whether the latest request has arrived completely."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.parser: _PlainParser = _PlainParser(self)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_request()
        if len(self.connections) > CONNECTIONS_MAX:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self.end_wait()
        self.resting.pop(self, None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self.resting.pop(self, None)
        self._unused_bytes += len(data)
        super().data_received(data)
        if self._unused_bytes > HEADER_BYTES_MAX and not self.transport.is_closing():
            self.send_400_response("The request's head is too large.")
            return
        # Bytes that begin no request, or belong to an answered one, have stopped uvicorn's timer,
        # and nothing else would end the connection.
        is_served = self.cycle is not None and not self.cycle.response_complete
        if not is_served and self._deadline is None and not self.transport.is_closing():
            self._await_request()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_bytes = 0
        self._is_whole = False
        if self._deadline is None:
            self._await_request()

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._count(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._count(len(name) + len(value))

    def on_headers_complete(self) -> None:
        if self.parser.is_wish():
            return  # It is parsed again.
        self._unused_bytes = 0
        self.end_wait()
        if not self.transport.is_closing():
            super().on_headers_complete()
        if len(self.pipeline) > PIPELINED_MAX:
            self.transport.close()

    def on_body(self, body: bytes) -> None:
        self._unused_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self.parser.is_wish() or self.transport.is_closing():
            return
        self._is_whole = True
        if self.cycle.response_complete:
            self.end_wait()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing() or not self.cycle.response_complete:
            return
        if self._is_whole:
            self.resting[self] = None
        elif self._deadline is None:
            # Answered before its body had arrived: the rest is read, so that the answer gets
            # through.
            self._await_request()

    def _await_request(self) -> None:
        self._deadline = self.loop.call_later(HEADER_SECONDS_MAX, self.transport.close)
        self.silent[self] = None
        if len(self.silent) > SILENT_CONNECTIONS_MAX:
            oldest = next(iter(self.silent))
            oldest.end_wait()
            oldest.transport.close()

    def end_wait(self) -> None:
        self.silent.pop(self, None)
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _make_room(self) -> None:
        """Close the connection that was unused for longest; this one, if all are in use."""
        unused = next(iter(self.resting), None)
        if unused is not None:
            del self.resting[unused]
            unused.transport.close()
            return
        detail = f"the service has {CONNECTIONS_MAX:,} connections, and all are in use"
        headers = {"Connection": "close", "Retry-After": "1"}
        self._end_with(plain_problem(503, "too_many_connections", detail, headers))

    def send_400_response(self, msg: str) -> None:
        """Refuse bytes that are not an HTTP request, in the form of every other problem."""
        self._end_with(plain_problem(400, "bad_request", msg, {"Connection": "close"}))

    def _end_with(self, answer: Response) -> None:
        title = {400: b"Bad Request", 503: b"Service Unavailable"}[answer.status_code]
        head = b"".join(b"%b: %b\r\n" % header for header in answer.raw_headers)
        self.transport.write(
            b"HTTP/1.1 %d %b\r\n%b\r\n%b" % (answer.status_code, title, head, bytes(answer.body))
        )
        self.transport.close()

    def _count(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > HEADER_BYTES_MAX and not self.transport.is_closing():
            self.send_400_response("The request's head is too large.")


class _PlainParser(httptools.HttpRequestParser):  # type: ignore[misc]  # untyped
    """A parser that ignores a request to upgrade the protocol (RFC 9110, 7.8).

    For such a request (some clients ask for HTTP/2 this way), the underlying parser would take the
    body for the next request. So the request is parsed again, without the upgrade.
    """

    def __init__(self, protocol: BoundedProtocol) -> None:
        super().__init__(protocol)
        self._protocol = protocol
        self.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn's own

    def feed_data(self, data: Any) -> None:
        while True:
            try:
                super().feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                if not self.is_wish():
                    raise
                data = self._plain_head() + bytes(data[upgrade.args[0] :])
            else:
                return

    def is_wish(self) -> bool:
        """Whether the parsed request asks for another protocol."""
        return self.should_upgrade() and self.get_method() != b"CONNECT"

    def _plain_head(self) -> bytes:
        """The head of the latest request, without the upgrade."""
        lines = [b"%b %b HTTP/%b" % (self.get_method(), self._protocol.url, self._version())]
        for name, value in self._protocol.headers:
            if name == b"connection":
                kept = [each for each in value.split(b",") if each.strip().lower() != b"upgrade"]
                lines.append(b"connection: " + b",".join(kept))
            elif name != b"upgrade":
                lines.append(b"%b: %b" % (name, value))
        return b"\r\n".join((*lines, b"", b""))

    def _version(self) -> bytes:
        version: str = self.get_http_version()
        return version.encode()
