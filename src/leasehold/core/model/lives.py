"""Lives of workers: the subject of a proof of death.

A name is not a proof: two processes may have the same one, at once or one after the other. So each
registration of a worker has a number, and so has each lease that it takes. A death proves those
leases lost, and no others.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final, NamedTuple

from leasehold.core.model.records import WorkerInfo

NO_LIFE: Final = 0
"""The life of a worker that leases under a name its own process has not registered."""


class Life(NamedTuple):
    """One registration of a worker."""

    worker: str
    number: int


def remote_life(info: WorkerInfo) -> Life:
    """The registration of a worker that speaks through this process.

    No lock stands for it, so its number is below zero. A worker that gives the same details has the
    same number, through any process: so a registration that is sent again is the same one, and one
    that ends late ends no other.
    """
    said = f"{info.host}\n{info.pid}\n{info.started_at.isoformat()}"
    digest = blake2b(said.encode(errors="surrogatepass"), digest_size=4).digest()
    return Life(info.id, -1 - (int.from_bytes(digest) >> 1))


def is_remote(number: int) -> bool:
    """Whether a registration belongs to a worker that speaks through another process."""
    return number < 0


class LivesHere:
    """The workers that this process has registered, and that have not left."""

    def __init__(self) -> None:
        self._number_of: dict[str, int] = {}

    def begin(self, life: Life) -> None:
        self._number_of[life.worker] = life.number

    def end(self, life: Life) -> None:
        """Where the same name was registered once more, the later life goes on."""
        if self._number_of.get(life.worker) == life.number:
            del self._number_of[life.worker]

    def number_of(self, worker: str) -> int:
        """Under which life this process leases in this name."""
        return self._number_of.get(worker, NO_LIFE)
