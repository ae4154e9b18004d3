"""A service in a process of its own, on a SQLite file or any store of a URL."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from leasehold.connect import connect
from leasehold.core.model.tokens import TokenDraft, digest_of, new_token_secret
from leasehold.env import SYSTEM


@dataclass
class Served:
    """A running service."""

    pid: int
    token: str
    port: int
    grpc_port: int

    def url(self, scheme: str) -> str:
        port = self.port if scheme == "http" else self.grpc_port
        return f"{scheme}://{self.token}@127.0.0.1:{port}"

    def cpu_seconds(self) -> float:
        """The processor time it has taken so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_bytes(self) -> int:
        """The memory it has now."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def served(path: str) -> Iterator[Served]:
    """Serve the store at a path or URL, over HTTP and gRPC; a file under FULL durability."""
    store = connect(path)
    secret = new_token_secret(SYSTEM)
    # A store that was kept has the tokens of earlier runs.
    draft = TokenDraft(name=f"bench-{SYSTEM.new_id()}", roles=("admin",))
    store.create_token(draft, digest_of(secret), actor="bench")
    store.close()
    process = subprocess.Popen(
        (
            *(sys.executable, "-m", "leasehold.cli", "serve", "--port", "0"),
            *("--grpc", "127.0.0.1:0", "-o", "jsonl"),
            *("--store", path if "://" in path else f"sqlite:///{path}?durability=full"),
        ),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        banner = json.loads(process.stdout.readline())
        ports = (urlsplit(banner[name]).port for name in ("address", "grpc_address"))
        port, grpc_port = (each or 0 for each in ports)
        yield Served(process.pid, secret, port, grpc_port)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        process.stdout.close()
