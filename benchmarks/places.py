"""Where contenders keep their jobs: servers that are started for the benchmark, and emptied."""

from __future__ import annotations

import itertools
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.contest import ROOT

sys.path.append(str(ROOT / "tests"))  # What starts servers there does it here as well.


class Places:
    """Servers, each started when it is first asked for."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._urls: dict[str, str] = {}
        self._numbers = itertools.count(1)

    def fresh(self, kind: str) -> str:
        """The URL of an empty store of that kind."""
        number = next(self._numbers)
        if kind == "sqlite":
            place = self._folder / f"store-{number}"
            place.mkdir()
            return str(place / "jobs.db")
        if kind not in self._urls:
            start = _postgres() if kind == "postgres" else _redis(durable=kind == "redis-aof")
            self._urls[kind] = self._stack.enter_context(start)
        url = self._urls[kind]
        if kind == "postgres":
            import psycopg

            with psycopg.connect(url, autocommit=True) as db:
                db.execute(f"CREATE DATABASE bench_{number}")
            return url.replace("/postgres?", f"/bench_{number}?")
        import redis

        with redis.Redis.from_url(url) as server:
            server.flushall()
        return url


@contextmanager
def _postgres() -> Iterator[str]:
    from support.servers import own_server

    with own_server(durable=True) as server:
        yield server.url


@contextmanager
def _redis(*, durable: bool) -> Iterator[str]:
    from support.redis_servers import redis_server

    with redis_server() as server:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        # Not all clients speak to a socket of the file system.
        server.command("CONFIG", "SET", "port", str(port))
        if durable:
            server.command("CONFIG", "SET", "appendonly", "yes")
            server.command("CONFIG", "SET", "appendfsync", "always")
        yield f"redis://127.0.0.1:{port}/0"
