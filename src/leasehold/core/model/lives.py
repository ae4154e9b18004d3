"""Lives of workers: what a proof of death is about.

A name proves nothing: two processes may have the same one, at once or one after the other. So each
registration of a worker has a number, and each of its leases carries that number. A death proves
only those leases lost.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final, NamedTuple

from leasehold.core.model.records import WorkerInfo

NO_LIFE: Final = 0
"""The life of a worker that leases under a name not registered by its own process."""


class Life(NamedTuple):
    """One registration of a worker."""

    worker: str
    number: int


def remote_life(info: WorkerInfo) -> Life:
    """The registration of a worker that speaks through this process.

    It has no lock, so its number is negative. A worker that gives the same details has the same
    number, through any process: a repeated registration is the same one, and closing an old one
    late does not end a newer one.
    """
    said = f"{info.host}\n{info.pid}\n{info.started_at.isoformat()}"
    digest = blake2b(said.encode(errors="surrogatepass"), digest_size=4).digest()
    return Life(info.id, -1 - (int.from_bytes(digest) >> 1))


def is_remote(number: int) -> bool:
    """Whether a registration belongs to a worker that speaks through another process."""
    return number < 0


class LivesHere:
    """The workers that this process has registered and not yet closed."""

    def __init__(self) -> None:
        self._number_of: dict[str, int] = {}

    def begin(self, life: Life) -> None:
        self._number_of[life.worker] = life.number

    def end(self, life: Life) -> None:
        """If the same name was registered again, the later life continues."""
        if self._number_of.get(life.worker) == life.number:
            del self._number_of[life.worker]

    def number_of(self, worker: str) -> int:
        """The life under which this process leases for this name."""
        return self._number_of.get(worker, NO_LIFE)
