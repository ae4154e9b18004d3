"""A relay before a server on a local socket, which can fall silent: it still takes what is sent."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

NAME = ".s.PGSQL.5432"


class Way(NamedTuple):
    """One direction of a connection."""

    source: socket.socket
    target: socket.socket
    flows: threading.Event

    def carry(self, relay: Relay, back: Way | None) -> None:
        with contextlib.suppress(OSError):
            while piece := self.source.recv(65536):
                if back is not None and relay.sign in piece:
                    relay.on_commit(self, back)
                self.flows.wait()
                self.target.sendall(piece)
        if self.flows.is_set():
            self.cut()

    def cut(self) -> None:
        for end in (self.source, self.target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


class Relay:
    """Carries bytes both ways until it is silenced."""

    def __init__(self, folder: Path, server: str) -> None:
        self._server = server
        self._door = socket.socket(socket.AF_UNIX)
        self._door.bind(str(folder / NAME))
        self._door.listen(100)
        self._flows = True
        self._ways: list[Way] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()
        self.silent_at_commit: str | None = None
        """Fall silent at the next COMMIT, "before" the server hears of it, or "after" that."""
        self.sign = b"COMMIT"
        """What is to be seen in a piece with one. A prepared statement is sent by another name."""

    def silence(self, *, new: bool) -> None:
        """Let nothing through on the connections that there are, and on `new` ones."""
        self._flows = not new
        for way in self._ways:
            way.flows.clear()

    def let_go(self) -> None:
        """Let through what was held back, late as it is."""
        for way in self._ways:
            way.flows.set()

    def on_commit(self, there: Way, back: Way) -> None:
        when, self.silent_at_commit = self.silent_at_commit, None
        if when is not None:
            (there if when == "before" else back).flows.clear()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._door.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(str(Path(self._server) / NAME))
                there = Way(client, server, threading.Event())
                back = Way(server, client, threading.Event())
                for way, other in ((there, back), (back, None)):
                    if self._flows:
                        way.flows.set()
                    self._ways.append(way)
                    thread = threading.Thread(target=way.carry, args=(self, other))
                    thread.start()
                    self._threads.append(thread)

    def close(self) -> None:
        self._door.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        for way in self._ways:
            way.cut()
            way.flows.set()
        for thread in self._threads:
            thread.join()
        for way in self._ways:
            way.source.close()
        self._door.close()


@contextlib.contextmanager
def relay(folder: Path, server: str) -> Iterator[Relay]:
    carrying = Relay(folder, server)
    try:
        yield carrying
    finally:
        carrying.close()
