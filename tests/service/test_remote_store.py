"""The remote store keeps the contract: the conformance suite, over a real server.

Over HTTP and over gRPC all of it, on servers whose stores are in memory: what is tried is the way
to a store, and each store has a suite of its own. Over HTTP, what only lasting stores have is tried
on a file, too. `test_grpc_store.py` has every verb and every error.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar

import pytest
import uvicorn

from leasehold.connect import connect
from leasehold.core.contract.store import Store
from leasehold.core.model.tokens import ROLES
from leasehold.env import Env
from leasehold.service.api import Api
from leasehold.service.caller import Caller
from leasehold.service.grpc.server import GrpcAddress, GrpcServer
from leasehold.service.http import http_app
from leasehold.service.http_protocol import BoundedProtocol
from leasehold.service.server import bind
from leasehold.stores.memory import MemoryStore, feed
from leasehold.stores.sqlite import SQLiteStore
from leasehold.testing.conformance import MakeStore, StoreConformance
from leasehold.testing.conformance.referencing import ReferencingClauses
from support.effort import THOROUGH

WAIT = 60.0
FEW_CHANGES = 2000
DRAWN = (
    "test_inh_2_the_bases_are_the_oracles",
    "test_lea_1_the_order_is_the_oracles",
    "test_sco_2_the_order_is_the_formulas",
)
"""Orders of service that chance draws, in thousands of calls: they are those of the store behind
the service, and its own suite draws them."""


class OpenApi(Api):
    """Lets everybody in as an admin: what the contract says is to be seen, not who may ask."""

    def authenticate(self, secret: str | None) -> Caller:
        return Caller(name="all", roles=frozenset(ROLES), commands=True, digest=f"of {secret}")


class TellingServer(uvicorn.Server):
    """Says when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_up = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.is_up.set()


class Host:
    """One server for many stores, each under a path of its own: to start one takes long."""

    def __init__(self) -> None:
        self.apps: dict[str, Any] = {}
        self.numbers = itertools.count()
        self.listener = bind("127.0.0.1", 0)
        self.server = TellingServer(
            uvicorn.Config(self, http=BoundedProtocol, lifespan="off", log_config=None)
        )
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()
        assert self.server.is_up.wait(WAIT)

    def run(self) -> None:
        self.loop.run_until_complete(self.server.serve([self.listener]))
        self.loop.close()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        _, name, rest = scope["path"].split("/", 2)
        path = f"/{rest}"
        await self.apps[name]({**scope, "path": path, "raw_path": path.encode()}, receive, send)

    def serve(self, store: Store, env: Env) -> tuple[str, Callable[[], None]]:
        """A URL for a store, and what ends it."""
        api = OpenApi(store, env=env)
        name = f"store-{next(self.numbers)}"
        self.apps[name] = http_app(api)

        def end() -> None:
            stopped = threading.Event()
            self.loop.call_soon_threadsafe(api.stop_waiting)
            self.loop.call_soon_threadsafe(stopped.set)
            assert stopped.wait(WAIT)
            api.close()
            del self.apps[name]

        return f"http://127.0.0.1:{self.listener.getsockname()[1]}/{name}", end

    def serve_grpc(self, store: Store, env: Env) -> tuple[str, Callable[[], None]]:
        """The same over gRPC, where each store has a server of its own."""

        async def start() -> tuple[GrpcServer, Api]:
            api = OpenApi(store, env=env)
            server = GrpcServer(api, GrpcAddress("127.0.0.1", 0))
            await server.start()
            return server, api

        async def stop() -> None:
            api.stop_waiting()
            await server.stop()

        server, api = asyncio.run_coroutine_threadsafe(start(), self.loop).result(WAIT)

        def end() -> None:
            asyncio.run_coroutine_threadsafe(stop(), self.loop).result(WAIT)
            api.close()

        return f"grpc://127.0.0.1:{server.port}", end

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join(WAIT)


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    host = Host()
    yield host
    host.stop()


Serve = Callable[[Store, Env], tuple[str, Callable[[], None]]]


def making(serve: Serve, make_served: MakeStore) -> Iterator[MakeStore]:
    with ExitStack() as stack:

        def make(env: Env) -> Store:
            served = make_served(env)
            stack.callback(served.close)
            url, end = serve(served, env)
            stack.callback(end)
            remote = connect(url, env=env)
            stack.callback(remote.close)
            return remote

        yield make


def in_files(folder: Path) -> MakeStore:
    numbers = itertools.count()
    return lambda env: SQLiteStore(folder / f"{next(numbers)}.db", env=env, durability="normal")


class TestRemoteStore(StoreConformance):
    not_kept: ClassVar = {
        "TOK-5": "the signing key never leaves its server",
        "BLO-1": "the server's store is in memory here, and has no id",
        "TOK-7": "a token is looked for by the server itself",
    }

    @pytest.fixture
    def make_store(self, host: Host) -> Iterator[MakeStore]:
        yield from making(host.serve, MemoryStore)

    @pytest.fixture
    def changes_kept(self, monkeypatch: pytest.MonkeyPatch) -> int:
        """The bound is that of the store behind the service, which has a suite of its own."""
        monkeypatch.setattr(feed, "CHANGES_KEPT", FEW_CHANGES)
        return FEW_CHANGES


if not THOROUGH:
    for name in DRAWN:
        setattr(TestRemoteStore, name, None)


class TestRemoteStoreInAFile(ReferencingClauses):
    @pytest.fixture
    def make_store(self, tmp_path: Path, host: Host) -> Iterator[MakeStore]:
        yield from making(host.serve, in_files(tmp_path))


class TestRemoteStoreOverGrpc(TestRemoteStore):
    @pytest.fixture
    def make_store(self, host: Host) -> Iterator[MakeStore]:
        yield from making(host.serve_grpc, MemoryStore)
