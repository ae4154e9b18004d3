"""Room on the disk: new jobs are refused while there is still enough left to settle what runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from leasehold.core.model.job import Draft
from leasehold.env import Env
from leasehold.errors import StoreFullError
from leasehold.stores.sqlite.disk.files import StoreFiles

DISK_RESERVE_BYTES: Final = 16 * 1024 * 1024
"""Submits are refused below this much free space, so that what runs can still be settled."""
DISK_IS_ROOMY_BYTES: Final = 16 * DISK_RESERVE_BYTES
"""With more free space than this, it is enough to look at the disk now and then."""
DISK_LOOK_MICROS: Final = 1_000_000


class DiskReserve:
    """Reckons with the room that is left, and looks at the disk no more often than it must."""

    def __init__(self, files: StoreFiles, env: Env) -> None:
        self._files = files
        self._env = env
        self._looked_at = 0
        self._free_bytes = 0

    def refuse_when_low(self, drafts: Sequence[Draft]) -> None:
        """Raise StoreFullError if these would eat into the reserve."""
        # Every byte is written to the write-ahead log, and to the database later on.
        needed = 2 * sum(len(draft.payload) for draft in drafts)
        now = self._env.now_micros()
        if (
            self._free_bytes - needed < DISK_IS_ROOMY_BYTES
            or abs(now - self._looked_at) > DISK_LOOK_MICROS
        ):
            self._looked_at = now
            self._free_bytes = self._files.free_bytes()
        self._free_bytes -= needed
        if self._free_bytes < DISK_RESERVE_BYTES:
            raise StoreFullError(
                f"less than {DISK_RESERVE_BYTES // 1024**2} MiB are free where "
                f"{self._files.database} is kept: new jobs are refused so that running ones can "
                "still finish; free some space"
            )
