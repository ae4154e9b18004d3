"""How much a caller may ask of a server, over any transport."""

from __future__ import annotations

import resource
from typing import Final

BODY_BYTES_MAX: Final = 16 * 1024 * 1024
CALL_BYTES_MAX: Final = 64 * 1024 * 1024
"""Of a call of a remote store. A submit is all or nothing: it cannot be cut into several."""
SMALL_BODY_BYTES: Final = 64 * 1024
"""Up to here a body is read before it is known who sends it, and a job stored together with others:
changes of threads less."""
BODY_SECONDS_MAX: Final = 30.0
"""How long a body may take to come in."""
HEADER_BYTES_MAX: Final = 64 * 1024
CONNECTIONS_MAX: Final = 4096
"""Of each face."""
FILES_BESIDE_MAX: Final = 1024
"""Files that a server has open beside its connections, the store's among them."""
STOP_SECONDS: Final = 30
"""How long requests in flight may take to finish when the service stops."""


def allow_open_files() -> None:
    """Let this process have as many files open as it takes connections, as far as it may."""
    wanted = 2 * CONNECTIONS_MAX + FILES_BESIDE_MAX
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
