"""Opening a SQLite connection the one right way."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

import apsw

from leasehold.errors import StoreUnavailableError
from leasehold.stores.sqlite.schema.migrate import migrate, migrations, schema_version
from leasehold.stores.sqlite.submitting.mentions import add_mentions
from leasehold.stores.sqlite.writing.failures import translated
from leasehold.stores.sqlite.writing.transaction import wait_when_busy

Durability = Literal["full", "normal"]

SQLITE_OLDEST: Final = (3, 51, 3)
"""Up to 3.51.2 a reset of the write-ahead log can corrupt the database."""

BUSY_SECONDS: Final = 10.0
"""How long to wait for SQLite's own locks: for an application's transaction, as a rule."""
WAL_PAGES_BEFORE_CHECKPOINT: Final = 4000
WAL_BYTES_KEPT: Final = 64 * 1024 * 1024


def check_sqlite_version() -> None:
    """Refuse a SQLite that is known to lose data."""
    version = tuple(int(part) for part in apsw.sqlite_lib_version().split("."))
    if version < SQLITE_OLDEST:
        raise StoreUnavailableError(
            f"this apsw brings SQLite {apsw.sqlite_lib_version()}, which can corrupt a database "
            "in WAL mode; upgrade apsw to one with SQLite 3.51.3 or later"
        )


def open_writer(
    path: Path, durability: Durability, busy_seconds: float | None = None
) -> apsw.Connection:
    """A connection that may write, its schema up to date. Call it under the store's file lock.

    A file of another program is refused untouched.
    """
    with translated(path):
        db = connected(path)
        try:
            wait_when_busy(db, BUSY_SECONDS if busy_seconds is None else busy_seconds)
            schema_version(db, path)
            # Each pragma is its own call: apsw runs a string of several only up to the first row.
            for pragma in (
                "auto_vacuum = INCREMENTAL",  # counts only before the first table
                "journal_mode = WAL",
                f"synchronous = {durability.upper()}",
                f"wal_autocheckpoint = {WAL_PAGES_BEFORE_CHECKPOINT}",
                f"journal_size_limit = {WAL_BYTES_KEPT}",
                "cache_size = -65536",
                "temp_store = MEMORY",
                "trusted_schema = OFF",
            ):
                db.execute(f"PRAGMA {pragma}").fetchall()
            migrate(db, path)
        except BaseException:
            db.close()
            raise
        return db


def open_reader(path: Path) -> apsw.Connection:
    """A connection that can only read, and never waits for a writer."""
    with translated(path):
        # Not opened read-only: the last one to close must be able to checkpoint the WAL.
        db = connected(path)
        db.execute("PRAGMA query_only = ON").fetchall()
        db.execute("PRAGMA cache_size = -16384").fetchall()
        return db


def is_up_to_date(db: apsw.Connection, path: Path) -> bool:
    """Whether the schema is ours and the newest; a file of another program is refused."""
    with translated(path):
        return schema_version(db, path) == migrations()[-1][0]


def connected(path: Path) -> apsw.Connection:
    """A connection to a file that must be there, settled as all of ours are."""
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    db.set_busy_timeout(round(BUSY_SECONDS * 1000))
    _keep_plans(db)
    add_mentions(db)
    return db


def _keep_plans(db: apsw.Connection) -> None:
    """Plan a statement once. Else SQLite plans those with a range, or on a table with a partial
    index, again for every new value: that costs more than to carry them out.
    """
    db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
