"""Silent and slow connections, and more calls than the server bears with: others are served.

`benchmarks/flood.py` is the same with 2,000 connections, and measures.
"""

from __future__ import annotations

import socket
from contextlib import ExitStack, suppress
from threading import Event, Thread

import pytest
from benchmarks.flood import ask, flooded

from leasehold.connect import connect
from leasehold.core.contract.wire import VERBS, encode
from leasehold.env import SYSTEM
from leasehold.service.grpc import server as grpc_server
from leasehold.service.http_protocol import SILENT_CONNECTIONS_MAX, BoundedProtocol
from leasehold.stores.remote import address
from leasehold.stores.remote.carrying import FailedError
from leasehold.stores.remote.channels import Channels, GrpcLine
from service.conftest import WAIT, Service, serving


def test_a_client_is_served_in_a_flood(memory_service: Service) -> None:
    connections = SILENT_CONNECTIONS_MAX + 100
    token = memory_service.token("producer")
    with flooded("127.0.0.1", memory_service.port, connections) as flood:
        assert flood.is_full.wait(WAIT)
        assert len(ask("127.0.0.1", memory_service.port, token, 50)) == 50
        assert len(BoundedProtocol.silent) <= SILENT_CONNECTIONS_MAX + 1


def wait_on(line: GrpcLine, wait: bytes, ended: Event) -> None:
    """Take a place and keep it; a probe may have been in it, so ask until there is one."""
    while not ended.is_set():
        with suppress(FailedError):
            line.call(0, "hints", wait)


def test_calls_beyond_the_limit_are_refused_over_grpc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_server, "CALLS_MAX", 4)
    store = connect("memory://")
    with serving(store, insecure=True, grpc_port=0) as service:
        channels = Channels(address.parse(service.grpc_url), SYSTEM)
        silent = [
            socket.create_connection(("127.0.0.1", int(service.grpc_url.rpartition(":")[2])))
            for _ in range(50)
        ]
        assert channels.call(0, "now", encode({}))  # whoever says nothing hinders nobody
        cursor = VERBS["hints"].answer.decode(channels.call(0, "hints", encode({}))).cursor
        wait = encode({"cursor": cursor, "wait_seconds": 20.0})
        waiting = [channels.line() for _ in range(4)]
        ended = Event()
        threads = [Thread(target=wait_on, args=(each, wait, ended)) for each in waiting]
        for thread in threads:
            thread.start()
        refused = None
        while refused is None:
            try:
                channels.call(0, "now", encode({}))
            except FailedError as error:
                refused = error
        assert not refused.was_sent
        ended.set()
        for line, thread in zip(waiting, threads, strict=True):
            line.hang_up()
            thread.join()
        remote = connect(f"{service.grpc_url}?retry_seconds={WAIT:g}")
        assert remote.queues() == []  # it asks again until there is room
        remote.close()
        channels.close()
        for each in silent:
            each.close()
    store.close()


def test_connections_beyond_the_limit_are_closed_over_grpc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_server, "CONNECTIONS_MAX", 2)
    greeting = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
    store = connect("memory://")
    with serving(store, insecure=True, grpc_port=0) as service, ExitStack() as lines:
        place = ("127.0.0.1", int(service.grpc_url.rpartition(":")[2]))
        answers = []
        for _ in range(3):
            line = lines.enter_context(socket.create_connection(place, timeout=WAIT))
            with suppress(ConnectionError):
                line.sendall(greeting)
                answers.append(line.recv(9))
        assert len([answer for answer in answers if answer]) == 2
        assert service.anonymous().get("/readyz").status_code == 200
    store.close()
