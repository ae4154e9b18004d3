"""Room: giving free pages back to the disk, and keeping the write-ahead log short.

Never a plain VACUUM, which would keep everybody out while it copies the file. The file is made with
auto_vacuum = INCREMENTAL, so free pages can be given back some hundred at a time.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import apsw

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
    """Move what is committed from the write-ahead log to the database, hindering nobody.

    Called where nobody waits, so that less of it falls to those who commit.
    """
    # Busy: somebody else is at it already.
    with suppress(apsw.BusyError):
        db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
