"""A write-ahead log that lies beside a file to which it does not belong.

A process that is killed leaves SQLite's log behind, and the next one to open the database replays
it. If another file was put in the database's place meanwhile, SQLite cannot tell: it would replay
the log of the one into the other. A backup bears a mark in the file itself, and loses it, there
too, before anything is written to its own log. So a file that bears the mark has no log, and one
that lies beside it is another's: it is moved out of the way, and kept.
"""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

import apsw

from leasehold.errors import StoreUnavailableError
from leasehold.stores.sqlite.disk.continuity import is_held
from leasehold.stores.sqlite.disk.files import StoreFiles

logger = logging.getLogger("leasehold.store")

CLOSING_LOOKS: Final = 40
LOOK_SECONDS: Final = 0.05

_never_free: Final = threading.Lock()
_never_free.acquire()

BEARS_MARK: Final = "SELECT 1 FROM meta WHERE key = 'copy'"


def has_log(files: StoreFiles) -> bool:
    """Whether there are writes in the log that may not be in the database."""
    return _size(files.log) > 0


def refuse_without_log(files: StoreFiles) -> None:
    """Raise StoreUnavailableError where others have the store open, and its log was deleted.

    They would never see what is written to a new one, nor would its writer see what they wrote.
    Call it under the store's lock: nobody is about to open the store. One who is about to close it
    has deleted the log a moment before it lets go of the store, so this waits a little.
    """
    for _ in range(CLOSING_LOOKS):
        if not (is_held(files.continuity) and files.lacks_log()):
            return
        _never_free.acquire(timeout=LOOK_SECONDS)
    raise StoreUnavailableError(
        f"cannot open {files.database}: its -wal or its -shm file was deleted while other "
        "processes have it open. Let all of them close it, or end them, then open it again: the "
        "first write of each, or its closing, copies what it still has of the log into the database"
    )


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
