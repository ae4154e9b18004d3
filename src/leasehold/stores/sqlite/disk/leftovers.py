"""A write-ahead log that lies beside a file to which it does not belong.

A process that is killed leaves SQLite's log behind, and the next one to open the database replays
it. If another file was put in the database's place meanwhile, SQLite cannot tell: it would replay
the log of the one into the other. A backup bears a mark in the file itself, and loses it, there
too, before anything is written to its own log. So a file that bears the mark has no log, and one
that lies beside it is another's: it is moved out of the way, and kept.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

import apsw

from leasehold.errors import StoreUnavailableError
from leasehold.stores.sqlite.disk.files import StoreFiles

logger = logging.getLogger("leasehold.store")

BEARS_MARK: Final = "SELECT 1 FROM meta WHERE key = 'copy'"


def has_log(files: StoreFiles) -> bool:
    """Whether there are writes in the log that may not be in the database."""
    return _size(files.log) > 0


def set_foreign_log_aside(files: StoreFiles) -> None:
    """Call it under the store's lock, while no process has the store open.

    Raises StoreUnavailableError where there is a log and no database: whatever was acknowledged
    last is in that log, and a new store would be made beside it.
    """
    if not has_log(files):
        return
    if not files.has_content():
        raise StoreUnavailableError(
            f"{files.database} is missing or empty, but {files.log} holds writes to it: put the "
            "database back beside its log, or move the log away to begin anew or to restore a "
            "backup"
        )
    if not _bears_mark(files.database):
        return
    kept = _free_name(files.log)
    files.log.rename(kept)
    with suppress(FileNotFoundError):
        files.log_index.unlink()
    logger.warning(
        "%s is a backup that was put beside the log of the store before it: that log is not "
        "replayed into it, and was moved to %s",
        files.database,
        kept,
    )


def _bears_mark(database: Path) -> bool:
    """Whether the file itself, whatever a log says, is a backup that nobody has opened yet."""
    # Immutable: SQLite looks neither for a log nor for other processes.
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    try:
        db = apsw.Connection(f"file:{quote(str(database))}?immutable=1", flags=flags)
        try:
            return db.execute(BEARS_MARK).fetchone() is not None
        finally:
            db.close()
    except apsw.Error:
        # What is only whole together with its log is no backup.
        return False


def _free_name(log: Path) -> Path:
    number = 1
    while (kept := log.with_name(f"{log.name}.{number}")).exists():
        number += 1
    return kept


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
