"""Connections of clients that mean ill, or ask for what is not there: none is held for nothing."""

from __future__ import annotations

import http.client
import json
import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from threading import Event

import pytest

from leasehold.connect import connect
from leasehold.service import http_protocol, server
from leasehold.service.http_protocol import PIPELINED_MAX, BoundedProtocol
from leasehold.service.limits import HEADER_BYTES_MAX
from service.conftest import WAIT, Service, serving
from service.test_jobs_over_http import JOBS

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
POST = f"POST {JOBS} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n".encode()


@pytest.fixture
def service() -> Iterator[Service]:
    store = connect("memory://")
    with serving(store) as service:
        yield service
    store.close()


@contextmanager
def connected(service: Service) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", service.port), timeout=WAIT) as line:
        yield line


def answer_on(line: socket.socket) -> http.client.HTTPResponse:
    """The next answer, whole."""
    answer = http.client.HTTPResponse(line)
    answer.begin()
    return answer


def is_closed(line: socket.socket) -> bool:
    """Whether the server hangs up; it says nothing more before."""
    try:
        return line.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize(
    "length", [b"Content-Length: 1000000\r\n", b"Transfer-Encoding: chunked\r\n"]
)
@pytest.mark.parametrize("more", [b"", b"2\r\nab\r\n"], ids=["silence", "a trickle"])
def test_the_body_of_an_answered_request_is_not_waited_for(
    service: Service, monkeypatch: pytest.MonkeyPatch, length: bytes, more: bytes
) -> None:
    monkeypatch.setattr(http_protocol, "HEADER_SECONDS_MAX", 0.2)
    with connected(service) as line:
        line.sendall(POST + length + b"\r\n")
        with answer_on(line) as answer:
            assert (answer.status, answer.read()[:1]) == (401, b"{")
        line.sendall(more)
        assert is_closed(line)


def test_an_answered_request_whose_body_comes_leaves_the_connection_open(service: Service) -> None:
    with connected(service) as line:
        line.sendall(POST + b"Content-Length: 2\r\n\r\n")
        with answer_on(line) as answer:
            assert (answer.status, answer.read()[:1]) == (401, b"{")
        line.sendall(b"{}")
        line.sendall(HEALTH)
        with answer_on(line) as answer:
            assert answer.status == 200


def test_empty_lines_are_no_sign_of_life(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "HEADER_SECONDS_MAX", 0.2)
    with connected(service) as line:
        line.sendall(HEALTH)
        with answer_on(line) as answer:
            assert answer.read()
        line.sendall(b"\r\n")
        assert is_closed(line)


@pytest.mark.parametrize(
    "head", [POST + b"X-Large: ", POST + b"Transfer-Encoding: chunked\r\n\r\n1;"]
)
def test_what_tells_the_server_nothing_is_not_gathered(service: Service, head: bytes) -> None:
    """A header, or the extension of a chunk, that never ends."""
    with connected(service) as line:
        line.sendall(head)
        with pytest.raises(ConnectionError):
            line.sendall(b"x" * 1000 * HEADER_BYTES_MAX)


def test_a_new_connection_takes_the_place_of_an_unused_one(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_protocol, "CONNECTIONS_MAX", 2)
    with ExitStack() as stack:
        lines = []
        for _ in range(3):
            lines.append(stack.enter_context(connected(service)))
            lines[-1].sendall(HEALTH)
            with answer_on(lines[-1]) as answer:
                assert answer.read()
        assert is_closed(lines[0])
        for line in lines[1:]:
            line.sendall(HEALTH)
            with answer_on(line) as answer:
                assert answer.status == 200


def test_connections_beyond_the_limit_are_told_to_come_again(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_protocol, "CONNECTIONS_MAX", 1)
    body = json.dumps({"worker": "w", "wait_seconds": 60}).encode()
    head = (
        f"POST /api/v1/leases HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
        f"Content-Type: application/json\r\nAuthorization: Bearer {service.token('admin')}\r\n\r\n"
    )
    with connected(service) as busy:
        busy.sendall(head.encode() + body)
        while not service.api.lines._lines:  # until it waits
            pass
        with connected(service) as line, answer_on(line) as answer:
            assert (answer.status, answer.getheader("retry-after")) == (503, "1")
            assert answer.getheader("content-type") == "application/problem+json"
            assert json.load(answer)["code"] == "too_many_connections"
    assert not BoundedProtocol.resting


@pytest.mark.parametrize("parts", [1, 2], ids=["at once", "body later"])
def test_a_wish_for_another_protocol_is_ignored(service: Service, parts: int) -> None:
    """As Java and curl ask for HTTP/2; the body is the request's, not another request."""
    body = b'{"task": "a", "metadata": {"next": "GET / HTTP/1.1"}}'
    head = (
        POST
        + (
            f"Authorization: Bearer {service.token('admin')}\r\nContent-Length: {len(body)}\r\n"
            "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"
            "\r\n"
        ).encode()
    )
    with connected(service) as line:
        for _ in range(2):
            if parts == 1:
                line.sendall(head + body)
            else:
                line.sendall(head)
                line.sendall(body)
            with answer_on(line) as answer:
                assert answer.status == 201, answer.read()
                assert json.load(answer)["id"]
        line.sendall(
            HEALTH.replace(b"\r\n\r\n", b"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
        )
        with answer_on(line) as answer:
            assert answer.status == 200


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="the system has no such bound")
def test_a_client_that_reads_no_answer_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "UNREAD_SECONDS_MAX", 1)
    lost = Event()

    class Watched(BoundedProtocol):
        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            lost.set()

    monkeypatch.setattr(server, "BoundedProtocol", Watched)
    monkeypatch.setattr(http_protocol, "HEADER_SECONDS_MAX", 10 * WAIT)
    store = connect("memory://")
    with serving(store) as service, connected(service) as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        large = "GET /api/v1/openapi.json HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "
        line.sendall(PIPELINED_MAX * f"{large}{service.token('admin')}\r\n\r\n".encode())
        assert lost.wait(WAIT)
    store.close()


def test_a_client_that_sends_requests_without_end_is_let_go(service: Service) -> None:
    with connected(service) as line, line.makefile("rb") as answers:
        line.sendall(1000 * HEALTH)
        with suppress(ConnectionResetError):
            assert answers.read().count(b"HTTP/1.1") <= PIPELINED_MAX + 1


def test_requests_that_follow_each_other_are_answered_in_turn(service: Service) -> None:
    with connected(service) as line, line.makefile("rb") as answers:
        last = HEALTH.replace(b"GET", b"TRACE").replace(
            b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"
        )
        line.sendall(PIPELINED_MAX * HEALTH + last)
        found = re.findall(rb"HTTP/1.1 (\d+)", answers.read())
        assert found == [*PIPELINED_MAX * [b"200"], b"405"]
