"""PgBouncer in front of a test's server, lending its connections for one transaction each."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from support.debian import installed
from support.servers import START_SECONDS, _unprivileged, missing

PORT = 6432
CONFIG = """
[databases]
* = host={server} port=5432 user={user}
[pgbouncer]
listen_addr =
unix_socket_dir = {folder}
listen_port = {port}
auth_type = any
pool_mode = transaction
default_pool_size = {size}
"""


def _program() -> str | None:
    return shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


@contextlib.contextmanager
def pgbouncer(url: str, *, size: int = 5) -> Iterator[str]:
    """The URL of the same database, through a pooler with so many connections of the server."""
    program = _program() or installed("pgbouncer", _program)
    if program is None:
        missing("no PgBouncer: install Debian's package pgbouncer")
    parts = urlsplit(url)
    server = parse_qs(parts.query).get("host", [""])[0]
    if not server.startswith("/"):
        pytest.skip("the pooler of the tests is for a server on a local socket")
    with tempfile.TemporaryDirectory(prefix="leasehold-pooler-") as folder:
        config = Path(folder) / "pgbouncer.ini"
        values = {"server": server, "user": parts.username or "postgres", "folder": folder}
        config.write_text(CONFIG.format(port=PORT, size=size, **values))
        ids: dict[str, object] = {}
        if (user := _unprivileged()) is not None:
            os.chown(folder, *user)
            os.chown(config, *user)
            ids = {"user": user[0], "group": user[1], "extra_groups": []}
        process = subprocess.Popen(
            [program, "-q", str(config)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            **ids,  # type: ignore[call-overload]
        )
        try:
            _wait_for(process, Path(folder) / f".s.PGSQL.{PORT}")
            yield url.replace(f"host={server}", f"host={folder}&port={PORT}")
        finally:
            process.terminate()
            process.wait(START_SECONDS)


def _wait_for(process: subprocess.Popen[bytes], socket: Path) -> None:
    for _ in range(START_SECONDS * 20):
        if socket.exists():
            return
        if process.poll() is not None:
            break
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.05)
    pytest.fail(f"PgBouncer did not start: it ended with {process.returncode}")
