"""A bare HTTP client: its requests are bytes made before, so that the server is what is timed."""

from __future__ import annotations

import json
import selectors
import socket
import time
from collections.abc import Iterator


def request(method: str, path: str, token: str, body: object = None) -> bytes:
    """A request, whole."""
    data = b"" if body is None else json.dumps(body).encode()
    head = (
        f"{method} /api/v1{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    )
    return head.encode() + data


class Wire:
    """One connection, which is kept open."""

    def __init__(self, port: int) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._came = b""

    def ask(self, sent: bytes) -> bytes:
        """The body of the answer, which must be a good one."""
        self.sock.sendall(sent)
        while (body := self.more()) is None:
            pass
        return body

    def more(self) -> bytes | None:
        """Read what came; the body, once the answer is whole."""
        came = self.sock.recv(1 << 20)
        assert came, "the server hung up"
        self._came += came
        head, end, body = self._came.partition(b"\r\n\r\n")
        if not end:
            return None
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        if len(body) < length:
            return None
        assert head[9:10] == b"2", self._came
        self._came = b""
        return body

    def close(self) -> None:
        self.sock.close()


def rate(port: int, requests: Iterator[bytes], count: int, connections: int = 1) -> float:
    """Requests per second, each connection asking again as soon as it is answered."""
    wires = [Wire(port) for _ in range(connections)]
    began = time.perf_counter()
    if connections == 1:
        for _ in range(count):
            wires[0].ask(next(requests))
    else:
        _ask_side_by_side(wires, requests, count)
    seconds = time.perf_counter() - began
    for wire in wires:
        wire.close()
    return count / seconds


def _ask_side_by_side(wires: list[Wire], requests: Iterator[bytes], count: int) -> None:
    left = count
    waiting = selectors.DefaultSelector()
    for wire in wires:
        waiting.register(wire.sock, selectors.EVENT_READ, wire)
        wire.sock.sendall(next(requests))
    while left > 0:
        for key, _ in waiting.select():
            if key.data.more() is not None:
                left -= 1
                key.data.sock.sendall(next(requests))
    for wire in wires:  # those that were asked last
        while wire.more() is None:
            pass
    waiting.close()
