"""Servers that are away, replies that are lost, connections that went stale: on both transports."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from http.client import RemoteDisconnected
from pathlib import Path

import pytest

from leasehold.connect import connect
from leasehold.core.contract.store import Store
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest
from leasehold.core.model.status import Status
from leasehold.env import Env, ManualClock
from leasehold.errors import StoreClosedError, StoreUnavailableError, UnsupportedError
from leasehold.service.server import bind
from leasehold.stores.remote.connections import WholeReply
from service.conftest import Service, serving
from support.ports import free_port

WAIT = 60.0


@pytest.fixture(params=["http", "grpc"])
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Store]:
    store = connect(str(tmp_path / "jobs.db"), durability="normal")
    yield store
    store.close()


class Proxy:
    """Stands before a service, hands everything on, and loses the replies it is told to lose."""

    def __init__(self, url: str) -> None:
        self._scheme, _, place = url.partition("://")
        self._port = int(place.rpartition(":")[2])
        self._listener = bind("127.0.0.1", 0)
        self._listener.listen()
        self.url = f"{self._scheme}://127.0.0.1:{self._listener.getsockname()[1]}"
        self.lose = 0
        self.lost = 0
        self.bytes_not_lost = 0
        """How much of a lost reply arrives before the connection ends."""
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.create_connection(("127.0.0.1", self._port)) as server:
            to_server = threading.Thread(target=self._carry, args=(client, server), daemon=True)
            to_server.start()
            while data := _read(server):
                if self.lose > 0 and (self._scheme == "http" or _has_headers(data)):
                    self.lose -= 1
                    self.lost += 1
                    _send(client, data[: self.bytes_not_lost])
                    break
                if not _send(client, data):
                    break
            for each in (client, server):
                _hang_up(each)
            to_server.join(WAIT)

    @staticmethod
    def _carry(source: socket.socket, target: socket.socket) -> None:
        while (data := _read(source)) and _send(target, data):
            pass
        _hang_up(target)

    def close(self) -> None:
        _hang_up(self._listener)
        self._listener.close()


def _read(source: socket.socket) -> bytes:
    try:
        return source.recv(65536)
    except OSError:
        return b""


def _send(target: socket.socket, data: bytes) -> bool:
    """Whether the other side still takes it: a proxy that has cut a reply may be sent more."""
    try:
        target.sendall(data)
    except OSError:
        return False
    return True


def _has_headers(data: bytes) -> bool:
    """Whether one of these frames of HTTP/2 begins a reply: others are about the connection."""
    while len(data) >= 9:
        length, kind = int.from_bytes(data[:3]), data[3]
        if kind == 1:
            return True
        data = data[9 + length :]
    return False


def _hang_up(sock: socket.socket) -> None:
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


@contextmanager
def serving_on(scheme: str, store: Store, port: int = 0) -> Iterator[tuple[Service, str]]:
    """A service that lets everybody in, and its URL."""
    over_grpc = scheme == "grpc"
    grpc_port = port if over_grpc else None
    http_port = 0 if over_grpc else port
    with serving(store, insecure=True, port=http_port, grpc_port=grpc_port) as service:
        yield service, service.grpc_url if over_grpc else service.url


@contextmanager
def lossy(scheme: str, served: Store) -> Iterator[tuple[Store, Proxy]]:
    with serving_on(scheme, served) as (_, url):
        proxy = Proxy(url)
        remote = connect(proxy.url)
        try:
            yield remote, proxy
        finally:
            remote.close()
            proxy.close()


def test_what_was_done_before_its_reply_was_lost_is_not_done_again(
    scheme: str, served: Store
) -> None:
    with lossy(scheme, served) as (remote, proxy):
        assert remote.queues() == []  # what opens the connection is not lost
        proxy.lose = 1
        [answer] = remote.submit([Draft(id="job", task="work")])
        assert (answer.id, answer.is_duplicate) == ("job", False)  # type: ignore[union-attr]
        proxy.lose = 1
        [lease] = remote.exchange(request=LeaseRequest(worker="w")).leases
        assert (lease.job_id, lease.attempt) == ("job", 1)
        assert proxy.lost == 2
        assert served.stats().leased == 1


def test_a_reply_that_is_cut_anywhere_is_a_lost_one(served: Store) -> None:
    with lossy("http", served) as (remote, proxy):
        # Inside the status line, inside and between the headers, inside the body, and behind it.
        for place in range(0, 400, 9):
            proxy.bytes_not_lost, proxy.lose = place, 1
            [answer] = remote.submit([Draft(id=f"cut at {place}", task="work")])
            assert (answer.id, answer.is_duplicate) == (f"cut at {place}", False)  # type: ignore[union-attr]
            assert proxy.lose == 0


@pytest.mark.parametrize(
    ("place", "told"),
    [(0, "closed before any response"), (9, "inside the head"), (90, "inside the head")],
)
def test_a_call_is_told_how_much_of_its_reply_came(served: Store, place: int, told: str) -> None:
    with lossy("http", served) as (remote, proxy):
        remote.submit([Draft(id="job", task="work")])
        proxy.bytes_not_lost, proxy.lose = place, 1
        with pytest.raises(StoreUnavailableError, match=told):
            remote.cancel(["job"], reason="", actor="me")


def test_what_may_not_be_done_twice_is_not_sent_again(scheme: str, served: Store) -> None:
    with lossy(scheme, served) as (remote, proxy):
        remote.submit([Draft(id="job", task="work")])
        proxy.lose = 1
        with pytest.raises(StoreUnavailableError, match="cancel may have been carried out"):
            remote.cancel(["job"], reason="", actor="me")
        job = remote.get("job")
        assert job is not None
        assert job.status is Status.CANCELLED


def test_another_server_is_asked_when_one_is_away(scheme: str, served: Store) -> None:
    with serving_on(scheme, served) as (first, url), serving_on(scheme, served) as (_, other):
        remote = connect(f"{url},{other.partition('://')[2]}")
        remote.submit([Draft(id="one", task="work")])
        heard = threading.Event()
        remote.subscribe(Ears(heard))
        first.stop()
        assert remote.get("one") is not None
        remote.submit([Draft(id="two", task="work")])
        assert heard.wait(WAIT)
        remote.close()


def test_a_server_that_comes_back_is_waited_for(scheme: str, served: Store) -> None:
    port = free_port()
    remote = connect(f"{scheme}://127.0.0.1:{port}?retry_seconds=60")
    answers: list[object] = []
    asking = threading.Thread(target=lambda: answers.append(remote.get("job")))
    asking.start()
    with serving_on(scheme, served, port):
        asking.join(WAIT)
        assert answers == [None]
    remote.close()


def test_one_that_does_not_come_back_is_named(scheme: str, served: Store) -> None:
    with serving_on(scheme, served) as (_, url):
        remote = connect(f"{url}?retry_seconds=0.1")
        assert remote.queues() == []
    with pytest.raises(StoreUnavailableError, match=f"{url} cannot be reached"):
        remote.queues()
    remote.close()
    with pytest.raises(StoreClosedError):
        remote.queues()


def test_a_server_without_tls_is_told_from_one_that_is_away(served: Store) -> None:
    with serving_on("http", served) as (_, url):
        remote = connect(f"{url.replace('http://', 'https://')}?retry_seconds=0.1")
        with pytest.raises(StoreUnavailableError, match="is its address http://"):
            remote.queues()
        remote.close()


class Hurrying(ManualClock):
    """A clock that is turned by the pauses of the test's own calls."""

    def pause(self, seconds: float) -> None:
        if threading.current_thread() is threading.main_thread():
            self.advance(seconds)


def test_who_makes_several_calls_waits_once_for_a_server_that_is_away(
    scheme: str, served: Store
) -> None:
    clock = Hurrying()
    with serving_on(scheme, served) as (_, url):
        remote = connect(f"{url}?retry_seconds=10", env=Env(clock=clock))
        assert remote.queues() == []
    waited = []
    for _ in range(3):
        before = clock.monotonic()
        with pytest.raises(StoreUnavailableError):
            remote.queues()
        waited.append(round(clock.monotonic() - before))
    assert waited == [10, 0, 0]
    clock.advance(11)
    with pytest.raises(StoreUnavailableError):
        remote.queues()
    assert round(clock.monotonic() - before) == 21
    remote.close()


def test_what_is_no_leasehold_service_is_told() -> None:
    listener = bind("127.0.0.1", 0)
    listener.listen()

    def answer() -> None:
        client, _ = listener.accept()
        with client:
            client.recv(65536)
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")

    thread = threading.Thread(target=answer)
    thread.start()
    remote = connect(f"http://127.0.0.1:{listener.getsockname()[1]}")
    with pytest.raises(UnsupportedError, match="is not a Leasehold service"):
        remote.queues()
    thread.join(WAIT)
    remote.close()
    listener.close()


def test_it_works_on_both_sides_of_a_fork(served: Store) -> None:
    with serving(served, insecure=True) as service:
        remote = connect(service.url)
        remote.submit([Draft(id="parent", task="work")])
        pid = os.fork()
        if pid == 0:
            try:
                remote.submit([Draft(id="child", task="work")])
                os._exit(0)
            except BaseException:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert {"parent", "child"} == {remote.get(each).id for each in ("parent", "child")}  # type: ignore[union-attr]
        remote.close()


class Ears:
    """A listener that hears that jobs may be available."""

    def __init__(self, heard: threading.Event) -> None:
        self._heard = heard

    def on_ready(self) -> None:
        self._heard.set()

    def on_ended(self, job_ids: object) -> None: ...

    def on_cancel_requested(self, job_ids: object) -> None: ...


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b"", "closed before any response; is this the HTTP port"),
        (b"HTTP/1.", "the connection ended inside the head of a reply"),
        (b"HTTP/1.1 200 OK\r\n", "the connection ended inside the head of a reply"),
        (b"HTTP/1.1 200 OK\r\nContent-Le", "the connection ended inside the head of a reply"),
    ],
)
def test_a_reply_that_is_cut_in_its_head_is_told_from_none(sent: bytes, said: str) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(sent)
        theirs.shutdown(socket.SHUT_WR)
        with closing(WholeReply(ours)) as reply, pytest.raises(RemoteDisconnected, match=said):
            reply.begin()
