"""How much a caller may ask of a server, over any transport."""

from __future__ import annotations

import resource
from typing import Final

BODY_BYTES_MAX: Final = 16 * 1024 * 1024
CALL_BYTES_MAX: Final = 64 * 1024 * 1024
"""The limit for a call of a remote store. An all-or-nothing submit cannot be split."""
SMALL_BODY_BYTES: Final = 64 * 1024
"""Up to this size, a body is read before its sender is known, and a job is stored together with
others, which saves thread switches.
"""
BODY_SECONDS_MAX: Final = 30.0
"""How long a body may take to arrive."""
HEADER_BYTES_MAX: Final = 64 * 1024
CONNECTIONS_MAX: Final = 4096
"""The limit for each face."""
FILES_BESIDE_MAX: Final = 1024
"""Files that a server has open besides its connections, including the store's."""
STOP_SECONDS: Final = 30
"""How long requests in flight may take to finish when the service stops."""


def allow_open_files() -> None:
    """Raise this process's limit on open files to match its connections, as far as permitted."""
    wanted = 2 * CONNECTIONS_MAX + FILES_BESIDE_MAX
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
