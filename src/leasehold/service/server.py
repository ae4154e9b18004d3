"""The server: uvicorn with Leasehold's limits, a sweep beside it, and a lossless stop."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

import uvicorn
from starlette.routing import BaseRoute

from leasehold.blobs.blobs import Blobs
from leasehold.blobs.place import BlobPlace
from leasehold.core.contract.store import Store
from leasehold.core.contract.worker_leases import REMOTE_LEASE_SECONDS
from leasehold.env import SYSTEM, Env
from leasehold.service.api import Api
from leasehold.service.http import http_app
from leasehold.service.http_protocol import HEADER_SECONDS_MAX, BoundedProtocol
from leasehold.service.limits import STOP_SECONDS, allow_open_files
from leasehold.worker.pruner import Pruner
from leasehold.worker.sweep import RecoverySweep

if TYPE_CHECKING:
    from leasehold.service.grpc.server import GrpcAddress, GrpcServer

KEEP_ALIVE_SECONDS: Final = 75
UNREAD_SECONDS_MAX: Final = 30
"""How long a client may leave an answer unread."""
SWITCH_SECONDS: Final = 0.001
"""How long a thread keeps the interpreter while others wait for it. Python's default of 5 ms would
be paid at each hand-over of a request between threads while a page is being rendered.
"""
SWEEP_SECONDS: Final = REMOTE_LEASE_SECONDS / 3
"""The death of a remote worker is never proved: its expired leases are the first sign of it."""


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

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop; uvicorn would raise the signal again at the end, before the store is closed."""
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True

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


class _Loop(asyncio.SelectorEventLoop):
    """An event loop on which a TLS handshake takes no longer than a request's head."""

    async def create_server(self, *args: Any, **kwargs: Any) -> asyncio.Server:
        if kwargs.get("ssl") is not None:
            kwargs["ssl_handshake_timeout"] = HEADER_SECONDS_MAX
        return await super().create_server(*args, **kwargs)


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
    """A server on a bound socket; `tls` has uvicorn's ssl options."""
    config = uvicorn.Config(
        http_app(api, hosts=hosts, beside=beside(api)),
        http=BoundedProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=STOP_SECONDS,
        **(tls or {}),
    )
    return Server(config, api, on_started, grpc_server), [listener]


@contextmanager
def upkeep(store: Store, env: Env, blobs: Blobs | None) -> Iterator[None]:
    """Do the upkeep that workers do for a store, since there may be only remote ones."""
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
    """Serve a store until a signal comes, then let running requests finish.

    `beside` makes the routes served besides the API, such as the dashboard's. `on_started` gets the
    port of the gRPC face; raises OSError if it cannot be bound.
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

    allow_open_files()
    sys.setswitchinterval(SWITCH_SECONDS)
    with upkeep(store, env, blobs), asyncio.Runner(loop_factory=_Loop) as runner:
        runner.run(run())


def _grpc_server(api: Api, address: GrpcAddress) -> GrpcServer:
    from leasehold.service.grpc.server import GrpcServer

    return GrpcServer(api, address)


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; raises OSError with the reason if that fails."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With its protocol told, asyncio sends each answer at once, not when the one before was heard.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # Its connections have it, too.
            listener.setsockopt(
                socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * UNREAD_SECONDS_MAX
            )
        listener.bind((host.strip("[]"), port))
    except OSError:
        listener.close()
        raise
    return listener
