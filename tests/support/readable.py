"""Waiting for a descriptor, whatever its number: select() knows only the first 1024."""

from __future__ import annotations

import select


def is_readable(fd: int, seconds: float) -> bool:
    """Wait until there is something to read, or the process behind a pidfd has ended."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(seconds * 1000))
