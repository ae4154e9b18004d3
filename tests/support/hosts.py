"""Hosts on this machine, each in a network of its own, whose link to a server can be cut.

They are Linux's network namespaces: only root can make them, and not on every machine. What is sent
over a link that is cut is lost, and nobody is told, as with a cable that was pulled out.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

SERVER = "server"


class Hosts:
    """A server's host, and others."""

    def __init__(self, names: list[str]) -> None:
        self._names = names

    def network(self, name: str) -> str:
        """The file that stands for the network of this host."""
        return f"/run/netns/{_namespace(name)}"

    def within(self, name: str) -> list[str]:
        """The command that starts another one on this host."""
        return ["nsenter", f"--net={self.network(name)}"]

    def server_seen_from(self, name: str) -> str:
        """The server's address for this host."""
        return f"10.213.{self._names.index(name)}.1"

    def cut(self, name: str) -> None:
        self._turn(name, "down")

    def join(self, name: str) -> None:
        self._turn(name, "up")

    def _turn(self, name: str, state: str) -> None:
        _ip("-n", _namespace(SERVER), "link", "set", f"to-{name}", state)


@contextmanager
def hosts(*names: str) -> Iterator[Hosts]:
    """The hosts with these names, and the server's."""
    if os.geteuid() != 0 or not (shutil.which("ip") and shutil.which("nsenter")):
        pytest.skip("hosts are network namespaces: they need root, ip and nsenter")
    with ExitStack() as undo:
        for name in (SERVER, *names):
            try:
                _ip("netns", "add", _namespace(name))
            except subprocess.CalledProcessError as error:
                pytest.skip(f"this machine allows no network namespaces: {error.stderr}")
            undo.callback(_ip, "netns", "delete", _namespace(name))
        made = Hosts(list(names))
        for number, name in enumerate(names):
            server, host = _namespace(SERVER), _namespace(name)
            ends = ["name", f"to-{name}", "netns", server, "type", "veth"]
            _ip("link", "add", *ends, "peer", "name", "out", "netns", host)
            for namespace, end, last in ((server, f"to-{name}", 1), (host, "out", 2)):
                _ip("-n", namespace, "address", "add", f"10.213.{number}.{last}/30", "dev", end)
                _ip("-n", namespace, "link", "set", end, "up")
        yield made


def _namespace(name: str) -> str:
    return f"leasehold-{os.getpid()}-{name}"


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)
