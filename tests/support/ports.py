"""Ports for servers that come later, or come back."""

from __future__ import annotations

import random
from contextlib import suppress

from leasehold.service.server import bind

LOWEST = 10_000
EPHEMERAL = 32_768
"""From here on the kernel gives ports to whoever connects to somebody."""
TRIES = 1000


def free_port() -> int:
    """A port where nobody listens, and which no connection is given meanwhile.

    Not one that the kernel chose: it would give it to others again, even to a client that tries to
    connect to it.
    """
    for _ in range(TRIES):
        port = random.randrange(LOWEST, EPHEMERAL)
        with suppress(OSError), bind("127.0.0.1", port):
            return port
    raise AssertionError("there is no free port")
