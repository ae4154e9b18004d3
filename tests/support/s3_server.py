"""An S3-compatible server in a process of its own, on a free port of this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

_SERVE = """
import signal, sys, threading
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
signal.sigwait({signal.SIGTERM})
"""


@contextmanager
def s3_server() -> Iterator[str]:
    """Start it, and end it afterwards; gives its address."""
    server = subprocess.Popen(
        [
            sys.executable,
            "-W",
            "ignore",
            "-c",
            # A signal that comes early must wait until it is waited for.
            "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})" + _SERVE,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"},
        text=True,
    )
    assert server.stdout is not None
    try:
        port = server.stdout.readline().strip()
        assert port, "the S3 server did not start: is moto[server] installed?"
        yield f"http://127.0.0.1:{port}"
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(30)
        server.stdout.close()


def make_bucket(address: str, bucket: str) -> None:
    """Make an empty bucket."""
    request = urllib.request.Request(f"{address}/{bucket}", method="PUT")
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert answer.status == 200


def bucket_url(address: str, bucket: str, prefix: str = "") -> str:
    """The URL of a place for blobs there."""
    return (
        f"s3://{bucket}/{prefix}?endpoint={address}&region=us-east-1"
        "&access_key_id=test&secret_access_key=verysecret"
    )
