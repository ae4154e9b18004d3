"""Room on the disk: new jobs are refused while there is still enough left to settle what runs.

Room: giving free pages back to the disk, and keeping the write-ahead log short.

Never a plain VACUUM, which would keep everybody out while it copies the file. The file is made with
auto_vacuum = INCREMENTAL, so free pages can be given back some hundred at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import apsw

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
        self._time_micros = env.clock.time_micros
        self._looked_at = 0
        self._free_bytes = 0

    def refuse_when_low(self, drafts: Sequence[Draft]) -> None:
        """Raise StoreFullError if these would eat into the reserve."""
        # Every byte is written to the write-ahead log, and to the database later on.
        needed = 0
        for draft in drafts:
            needed += 2 * len(draft.payload)
        now = self._time_micros()
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


KEPT_FREE: Final = 4
"""One page in so many stays free inside the file: the jobs of the next day will fill it again, and
giving it back only to ask for it anew would be work for nothing."""


def to_release(db: apsw.Connection, *, everything: bool) -> int:
    """How many free pages are worth giving back to the disk."""
    free = int(str(db.pragma("freelist_count")))
    return free if everything else max(0, free - int(str(db.pragma("page_count"))) // KEPT_FREE)


def release(db: apsw.Connection, pages: int) -> None:
    """Give so many free pages back; the file shrinks with the next checkpoint."""
    if pages > 0:
        # Each page is one step of the statement: it must be run to its end.
        db.execute(f"PRAGMA incremental_vacuum({pages:d})").fetchall()


def checkpoint(db: apsw.Connection) -> None:
    """Move commits from the write-ahead log to the database, blocking no writer.

    Called where no caller waits, so that less of it falls to commits.
    """
    # Busy: somebody else is at it already.
    with suppress(apsw.BusyError):
        db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
