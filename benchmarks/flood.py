"""A flood: very many connections that are silent or slow, and one client that behaves well.

    python -m benchmarks.flood http://127.0.0.1:8700 --connections 2000 --token lh_...

A connection either says nothing, or sends the head of a request a letter at a time and never ends
it; whenever one is closed, another takes its place. Meanwhile a client asks for the list of queues,
again and again.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import resource
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

LETTER_SECONDS = 0.2
HEAD = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "
P99_SECONDS_MAX = 1.0


class Flood:
    """So many connections, kept up until it is stopped."""

    def __init__(self, host: str, port: int, connections: int) -> None:
        self._place = host, port
        self._connections = connections
        self.opened = 0
        self.is_full = threading.Event()
        """Set once so many were opened."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    async def _run(self) -> None:
        bothering = [asyncio.ensure_future(self._bother(n)) for n in range(self._connections)]
        await asyncio.to_thread(self._stopping.wait)
        for each in bothering:
            each.cancel()
        await asyncio.gather(*bothering, return_exceptions=True)
        # A transport that is closed lets go of its socket in the loop's next round.
        for _ in range(2):
            await asyncio.sleep(0)

    async def _bother(self, number: int) -> None:
        while True:
            with suppress(OSError):
                reader, writer = await asyncio.open_connection(*self._place)
                self.opened += 1
                if self.opened >= self._connections:
                    self.is_full.set()
                try:
                    await (self._be_slow(writer) if number % 2 else reader.read())
                finally:
                    writer.close()
            await asyncio.sleep(LETTER_SECONDS)

    async def _be_slow(self, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD)
        while not writer.is_closing():
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(LETTER_SECONDS)


@contextmanager
def flooded(host: str, port: int, connections: int) -> Iterator[Flood]:
    """A flood for as long as the block takes."""
    flood = Flood(host, port, connections)
    flood.start()
    try:
        yield flood
    finally:
        flood.stop()


def ask(host: str, port: int, token: str | None, requests: int) -> list[float]:
    """How long each request of a client that behaves well took, in seconds."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    connection = http.client.HTTPConnection(host, port, timeout=60)
    took = []
    for _ in range(requests):
        began = time.perf_counter()
        connection.request("GET", "/api/v1/queues", headers=headers)
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 200, answer.status
        took.append(time.perf_counter() - began)
    connection.close()
    return took


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("url")
    arguments.add_argument("--connections", type=int, default=2000)
    arguments.add_argument("--requests", type=int, default=500)
    arguments.add_argument("--token")
    given = arguments.parse_args()
    place = urlsplit(given.url)
    assert place.hostname is not None
    assert place.port is not None
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, given.connections + 200), hard))
    with flooded(place.hostname, place.port, given.connections) as flood:
        assert flood.is_full.wait(60)
        took = sorted(ask(place.hostname, place.port, given.token, given.requests))
    p50, p99 = took[len(took) // 2], took[len(took) * 99 // 100]
    kept = "kept" if p99 < P99_SECONDS_MAX else "MISSED"
    print(f"{given.connections} connections: p50 {p50 * 1000:.1f} ms, p99 {p99 * 1000:.1f} ms")
    print(f"p99 under {P99_SECONDS_MAX:g} s: {kept}")


if __name__ == "__main__":
    main()
