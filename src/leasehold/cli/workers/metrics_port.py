"""`--metrics-port`: a port on which Prometheus reads the store's figures, beside the workers.

For workers without a service: `queuectl serve` has the same at /metrics, with tokens. Anybody who
can reach the port can read it, so it is on this machine's own address unless told otherwise.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Final

from leasehold.env import SYSTEM
from leasehold.errors import LeaseholdError
from leasehold.observe.exposition import CONTENT_TYPE
from leasehold.observe.prometheus import exposition
from leasehold.worker.joblines import logger

if TYPE_CHECKING:
    from leasehold.core.contract.store import Store

PATHS: Final = ("/", "/metrics")
LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
REQUEST_SECONDS_MAX: Final = 10.0


@contextlib.contextmanager
def metrics_port(store_url: str, host: str, port: int) -> Iterator[int]:
    """Answer Prometheus there until the block ends; gives the port, which 0 leaves to the system.

    Raises OSError if the address cannot be used.
    """
    from leasehold.connect import connect

    store = connect(store_url)
    try:
        server = _Server(store, host, port)
        thread = threading.Thread(target=server.serve_forever, name="metrics-port", daemon=True)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            server.server_close()
            thread.join()
    finally:
        store.close()


def _name_of(host_header: str) -> str:
    """The name in a Host header, without the port.

    >>> _name_of("localhost:9100"), _name_of("[::1]:9100"), _name_of("evil.example")
    ('localhost', '::1', 'evil.example')
    """
    if host_header.startswith("["):
        return host_header[1:].partition("]")[0]
    return host_header.partition(":")[0].lower()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, store: Store, host: str, port: int) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.store = store
        self.is_local = host.strip("[]") in LOOPBACK
        # One scrape at a time: more frequent ones wait.
        self.scraping = threading.Lock()
        super().__init__((host.strip("[]"), port), _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = REQUEST_SECONDS_MAX
    server_version = "leasehold"
    sys_version = ""

    def do_GET(self) -> None:
        # A page can make a browser on this machine ask here under a name of its own.
        if self.server.is_local and _name_of(self.headers.get("Host", "")) not in LOOPBACK:
            self.send_error(403, "this port answers to the name localhost only")
            return
        if self.path.partition("?")[0] not in PATHS:
            self.send_error(404, "see /metrics")
            return
        try:
            with self.server.scraping:
                body = exposition(self.server.store, SYSTEM)
        except LeaseholdError as error:
            logger.warning("the figures cannot be read for Prometheus: %s", error)
            self.send_error(503, "the store cannot be read; the log says why")
            return
        self.send_response(200)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # its name there
        """Say nothing: a scrape every few seconds is no news."""
