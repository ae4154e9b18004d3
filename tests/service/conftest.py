"""A real server on a private port of this machine, and a real HTTP client."""

from __future__ import annotations

import asyncio
import itertools
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from leasehold.blobs.blobs import Blobs
from leasehold.blobs.place import BlobPlace
from leasehold.connect import connect
from leasehold.core.contract.store import Store
from leasehold.core.model.tokens import Role, TokenDraft, digest_of, new_token_secret
from leasehold.env import SYSTEM
from leasehold.service.api import Api
from leasehold.service.grpc.server import GrpcAddress, GrpcServer
from leasehold.service.server import Server, bind, make_server

WAIT = 60.0
NOBODY = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Whom clients over plain HTTP trust: to read all certificates takes longer than most requests."""


@dataclass
class Service:
    """A running server."""

    store: Store
    api: Api
    server: Server
    url: str
    thread: threading.Thread
    grpc_url: str
    """"" unless it was asked for."""
    clients: list[httpx.Client] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def token(
        self,
        *roles: Role,
        queues: tuple[str, ...] | None = None,
        commands: bool = False,
        name: str | None = None,
        lifetime_seconds: float | None = None,
    ) -> str:
        """A new token's secret."""
        secret = new_token_secret(SYSTEM)
        draft = TokenDraft(
            name=name or f"t{next(self.numbers)}",
            roles=roles or ("admin",),
            queues=queues,
            commands=commands,
            lifetime_seconds=lifetime_seconds,
        )
        self.store.create_token(draft, digest_of(secret), actor="test")
        return secret

    def client(self, *roles: Role, secret: str | None = None, **options: Any) -> httpx.Client:
        """A client with a new token, or with one that is given."""
        shown = secret or self.token(*roles, **options)
        return self.anonymous(Authorization=f"Bearer {shown}")

    def anonymous(self, **headers: str) -> httpx.Client:
        """A client without a token."""
        client = httpx.Client(
            base_url=self.url, headers=headers, timeout=WAIT, trust_env=False, verify=NOBODY
        )
        self.clients.append(client)
        return client

    def stop(self) -> None:
        """End in order, as after a signal."""
        self.server.should_exit = True
        self.thread.join(WAIT)
        assert not self.thread.is_alive()

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])


@contextmanager
def serving(
    store: Store,
    *,
    insecure: bool = False,
    hosts: tuple[str, ...] = (),
    port: int = 0,
    grpc_port: int | None = None,
    beside: Callable[[Api], Sequence[BaseRoute]] = lambda _: (),
    wrap: Callable[[ASGIApp], ASGIApp] = lambda app: app,
    blobs: BlobPlace = None,
) -> Iterator[Service]:
    """Serve a store until the block ends; over gRPC, too, on any port if that is 0.

    `wrap` puts something in front of the application.
    """
    listener = bind("127.0.0.1", port)
    started = threading.Event()
    made: list[Any] = []

    def run() -> None:
        async def main() -> None:
            api = Api(store, blobs=Blobs(store, blobs), insecure=insecure)
            grpc_server = None
            if grpc_port is not None:
                grpc_server = GrpcServer(api, GrpcAddress("127.0.0.1", grpc_port))
            server, sockets = make_server(
                api,
                listener,
                hosts=hosts,
                beside=beside,
                on_started=started.set,
                grpc_server=grpc_server,
            )
            inner: Any = server.config.app
            server.config.app = wrap(inner)
            grpc_url = "" if grpc_server is None else f"grpc://127.0.0.1:{grpc_server.port}"
            made.extend((api, server, grpc_url))
            await server.serve(sockets)
            api.close()

        asyncio.run(main())

    thread = threading.Thread(target=run, name="service-under-test", daemon=True)
    thread.start()
    assert started.wait(WAIT)
    api, server, grpc_url = made
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    service = Service(store, api, server, url, thread, grpc_url)
    try:
        yield service
    finally:
        for client in service.clients:
            client.close()
        service.stop()


@contextmanager
def serving_file(folder: Path) -> Iterator[Service]:
    """Serve a new store in a file until the block ends."""
    with (
        closing(connect(str(folder / "jobs.db"), durability="normal")) as store,
        serving(store) as service,
    ):
        yield service


@pytest.fixture(params=["memory", "sqlite"])
def service(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Service]:
    """A server on each kind of store."""
    url = "memory://" if request.param == "memory" else str(tmp_path / "jobs.db")
    store = connect(url, durability=None if request.param == "memory" else "normal")
    with serving(store) as service:
        yield service
    store.close()


@pytest.fixture(scope="module")
def memory_service() -> Iterator[Service]:
    """A server on a memory store, shared by tests that do not mind each other."""
    store = connect("memory://")
    with serving(store) as service:
        yield service
    store.close()
