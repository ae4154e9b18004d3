"""Where contenders keep their jobs: servers that are started for the benchmark, and emptied."""

from __future__ import annotations

import itertools
import shutil
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg
import pytest
import redis

from benchmarks.contest import ROOT
from benchmarks.served import served

sys.path.append(str(ROOT / "tests"))  # What starts servers there does it here as well.

REDIS_DATABASES = 16


class Places:
    """Servers, each started when it is first asked for."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._urls: dict[str, str] = {}
        self._numbers = itertools.count(1)
        self._redis_databases = list(range(REDIS_DATABASES))

    @contextmanager
    def fresh(self, kind: str) -> Iterator[str]:
        """The URL of an empty store of that kind, which is taken away afterwards."""
        if kind == "postgres":
            place = self._in_postgres()
        elif kind.startswith("redis"):
            place = self._in_redis(kind)
        elif kind == "sqlite":
            place = self._file()
        else:
            place = self._service(kind)
        with place as url:
            yield url

    @contextmanager
    def _file(self) -> Iterator[str]:
        place = self._folder / f"store-{next(self._numbers)}"
        place.mkdir()
        try:
            yield str(place / "jobs.db")
        finally:
            shutil.rmtree(place)

    @contextmanager
    def _service(self, scheme: str) -> Iterator[str]:
        with self._file() as path, served(path) as server:
            yield server.url(scheme)

    @contextmanager
    def _in_postgres(self) -> Iterator[str]:
        url, name = self._server("postgres"), f"bench_{next(self._numbers)}"
        with psycopg.connect(url, autocommit=True) as db:
            db.execute(f"CREATE DATABASE {name}")
            try:
                yield url.replace("/postgres?", f"/{name}?")
            finally:
                db.execute(f"DROP DATABASE {name} WITH (FORCE)")

    @contextmanager
    def _in_redis(self, kind: str) -> Iterator[str]:
        url, database = self._server(kind), self._redis_databases.pop()
        try:
            yield f"{url}/{database}"
        finally:
            with redis.Redis.from_url(url, db=database) as server:
                server.flushdb()
            self._redis_databases.append(database)

    def _server(self, kind: str) -> str:
        if kind not in self._urls:
            start = _postgres() if kind == "postgres" else _redis(durable=kind == "redis-aof")
            try:
                self._urls[kind] = self._stack.enter_context(start)
            except (pytest.skip.Exception, pytest.fail.Exception) as error:
                raise RuntimeError(str(error)) from None
        return self._urls[kind]

    def versions(self) -> dict[str, str]:
        """Of the servers that run."""
        found = {}
        if "postgres" in self._urls:
            with psycopg.connect(self._urls["postgres"]) as db:
                found["PostgreSQL"] = str(db.info.parameter_status("server_version")).split()[0]
        if "redis" in self._urls:
            with redis.Redis.from_url(self._urls["redis"]) as server:
                info = server.info("server")
                name = str(info.get("server_name", "redis")).title()
                found[name] = str(info.get(f"{name.lower()}_version", info["redis_version"]))
        return found


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
        yield f"redis://127.0.0.1:{port}"
