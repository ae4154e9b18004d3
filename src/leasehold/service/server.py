"""The server: uvicorn with our limits, a sweep beside it, and a stop that loses nothing."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import uvicorn
from starlette.routing import BaseRoute
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from leasehold.blobs.blobs import Blobs
from leasehold.blobs.place import BlobPlace
from leasehold.core.contract.store import Store
from leasehold.core.contract.worker_leases import REMOTE_LEASE_SECONDS
from leasehold.env import SYSTEM, Env
from leasehold.service.api import Api
from leasehold.service.http import http_app
from leasehold.service.http_answers import plain_problem
from leasehold.service.limits import CONNECTIONS_MAX, HEADER_BYTES_MAX, STOP_SECONDS
from leasehold.worker.pruner import Pruner
from leasehold.worker.sweep import RecoverySweep

if TYPE_CHECKING:
    from leasehold.service.grpc.server import GrpcAddress, GrpcServer

HEADER_SECONDS_MAX: Final = 10.0
"""How long a request's head may take to come in."""
SILENT_CONNECTIONS_MAX: Final = 256
"""Connections that have not sent a request's head: beyond, the longest silent ones are closed."""
KEEP_ALIVE_SECONDS: Final = 75
SWEEP_SECONDS: Final = REMOTE_LEASE_SECONDS / 3
"""The death of a worker far away is never proved: its expired leases are the first sign of it."""


class BoundedProtocol(HttpToolsProtocol):
    """HTTP with bounds on how long, and how large, a request's head may be."""

    silent: dict[BoundedProtocol, None] = {}  # noqa: RUF012  # of the process, the oldest first

    _deadline: asyncio.TimerHandle | None = None
    _head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self.end_wait_for_head()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_bytes = 0
        if self._deadline is None:
            self._await_head()

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._count(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._count(len(name) + len(value))

    def on_headers_complete(self) -> None:
        self.end_wait_for_head()
        if not self.transport.is_closing():
            super().on_headers_complete()

    def _await_head(self) -> None:
        self._deadline = self.loop.call_later(HEADER_SECONDS_MAX, self.transport.close)
        self.silent[self] = None
        if len(self.silent) > SILENT_CONNECTIONS_MAX:
            oldest = next(iter(self.silent))
            oldest.end_wait_for_head()
            oldest.transport.close()

    def end_wait_for_head(self) -> None:
        self.silent.pop(self, None)
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def send_400_response(self, msg: str) -> None:
        """Refuse bytes that are no HTTP request, in the form of every other problem."""
        answer = plain_problem(400, "bad_request", msg, {"Connection": "close"})
        head = b"".join(b"%b: %b\r\n" % header for header in answer.raw_headers)
        self.transport.write(b"HTTP/1.1 400 Bad Request\r\n%b\r\n%b" % (head, bytes(answer.body)))
        self.transport.close()

    def _count(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > HEADER_BYTES_MAX and not self.transport.is_closing():
            self.send_400_response("The request's head is too large.")


class Server(uvicorn.Server):
    """A uvicorn that lets long polls end before it waits for requests in flight."""

    def __init__(
        self,
        config: uvicorn.Config,
        api: Api,
        on_started: Callable[[], None],
        grpc_server: GrpcServer | None,
    ) -> None:
        super().__init__(config)
        self._api = api
        self._on_started = on_started
        self._grpc_server = grpc_server

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            if self._grpc_server is not None:
                await self._grpc_server.start()
            self._on_started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._api.stop_waiting()
        if self._grpc_server is None:
            await super().shutdown(sockets)
        else:
            await asyncio.gather(super().shutdown(sockets), self._grpc_server.stop())


def make_server(
    api: Api,
    listener: socket.socket,
    *,
    hosts: tuple[str, ...] = (),
    beside: Callable[[Api], Sequence[BaseRoute]] = lambda _: (),
    tls: dict[str, Any] | None = None,
    on_started: Callable[[], None] = lambda: None,
    grpc_server: GrpcServer | None = None,
) -> tuple[Server, list[socket.socket]]:
    """A server on a socket that is bound already; `tls` are uvicorn's ssl options."""
    config = uvicorn.Config(
        http_app(api, hosts=hosts, beside=beside(api)),
        http=BoundedProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=CONNECTIONS_MAX,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=STOP_SECONDS,
        **(tls or {}),
    )
    return Server(config, api, on_started, grpc_server), [listener]


@contextmanager
def upkeep(store: Store, env: Env, blobs: Blobs | None) -> Iterator[None]:
    """Do beside the server what workers do for a store: there may be none but those far away."""
    sweep = RecoverySweep(store, env=env, interval_seconds=SWEEP_SECONDS)
    pruner = Pruner(store, env=env, blobs=blobs, actor="service")
    sweep.start()
    pruner.start()
    try:
        yield
    finally:
        pruner.stop()
        sweep.stop()


def serve(
    store: Store,
    listener: socket.socket,
    *,
    env: Env = SYSTEM,
    blob_place: BlobPlace = None,
    backup_folder: Path | None = None,
    insecure: bool = False,
    hosts: tuple[str, ...] = (),
    beside: Callable[[Api], Sequence[BaseRoute]] = lambda _: (),
    tls: dict[str, Any] | None = None,
    grpc_address: GrpcAddress | None = None,
    on_started: Callable[[int | None], None] = lambda _: None,
) -> None:
    """Serve a store until a signal comes, then let everybody finish.

    `beside` makes the routes that are served beside the API, such as the dashboard's.
    `on_started` is told the port of the gRPC face; raises OSError if that cannot be had.
    """
    blobs = Blobs(store, blob_place, env=env)

    async def run() -> None:
        api = Api(store, env=env, blobs=blobs, insecure=insecure)
        api.backup_folder = backup_folder
        try:
            grpc_server = None if grpc_address is None else _grpc_server(api, grpc_address)
            port = None if grpc_server is None else grpc_server.port
            server, sockets = make_server(
                api,
                listener,
                hosts=hosts,
                beside=beside,
                tls=tls,
                on_started=lambda: on_started(port),
                grpc_server=grpc_server,
            )
            await server.serve(sockets)
        finally:
            api.close()

    with upkeep(store, env, blobs):
        asyncio.run(run())


def _grpc_server(api: Api, address: GrpcAddress) -> GrpcServer:
    from leasehold.service.grpc.server import GrpcServer

    return GrpcServer(api, address)


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens there; raises OSError with the reason if it cannot."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With its protocol told, asyncio sends each answer at once, not when the one before was heard.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host.strip("[]"), port))
    except OSError:
        listener.close()
        raise
    return listener
