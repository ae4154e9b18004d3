"""Inspecting the store itself: its integrity, copies and its description."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import apsw

from leasehold.core.model.seals import refusal_of
from leasehold.core.model.stored import UNREADABLE, problem_of
from leasehold.errors import BackupExistsError, StoreError
from leasehold.stores.sqlite.disk.epoch import mark_as_copy, read_store_id
from leasehold.stores.sqlite.disk.files import StoreFiles, create_private, file_system
from leasehold.stores.sqlite.leasing import damage
from leasehold.stores.sqlite.reading.figures import SpanShelf
from leasehold.stores.sqlite.rules.orders import QueueReader
from leasehold.stores.sqlite.writing import own_state
from leasehold.stores.sqlite.writing.turn import who_writes
from leasehold.stores.tables import checks, dependents, inheritance
from leasehold.stores.tables.moving import READ_SEAL


def check(db: apsw.Connection) -> list[str]:
    """SQLite's own integrity check, then Leasehold's; returns the problems found."""
    problems = [str(line) for (line,) in db.execute("PRAGMA integrity_check") if str(line) != "ok"]
    if problems:
        return problems
    problems += _as_far_as_possible(db, "the store's own state", own_state.told)
    problems += _as_far_as_possible(db, "rows", damage.told)
    for name, part in _PARTS.items():
        problems += _as_far_as_possible(db, name, part)
    return problems


def _as_far_as_possible(
    db: apsw.Connection, name: str, part: Callable[[apsw.Connection], Iterable[str]]
) -> Iterator[str]:
    """The findings of one part of the check; an unreadable row must not hide the others."""
    try:
        yield from part(db)
    except UNREADABLE as error:
        yield f"{name} could not be checked to the end: {problem_of(error)}"


_PARTS: Final[dict[str, Callable[[apsw.Connection], Iterable[str]]]] = {
    "places": checks.misplaced,
    "dependencies": dependents.problems,
    "inherited priorities": inheritance.problems,
    "metrics": lambda db: checks.mismeasured(SpanShelf(db), db, "lane"),
    "limits per key": lambda db: checks.key_problems(db, QueueReader),
    "counters": lambda db: checks.miscounted(db, "lane"),
}


def backup(db: apsw.Connection, target: Path, *, replace: bool) -> None:
    """Make a consistent copy in one step; it gets its name only when it is complete."""
    if target.exists() and not replace:
        raise BackupExistsError(f"{target} already exists: a backup never overwrites anything")
    partial = target.with_name(f"{target.name}.partial-{os.getpid()}-{threading.get_ident()}")
    try:
        create_private(partial)
        copy = apsw.Connection(str(partial))
        try:
            # One step: a backup in several steps restarts at every commit of another process.
            with copy.backup("main", db, "main") as work:
                work.step(-1)
            mark_as_copy(copy)
        finally:
            copy.close()
        partial.rename(target)
    except OSError as error:
        raise StoreError(f"cannot write the backup {target}: {error.strerror}") from error
    finally:
        with suppress(FileNotFoundError):
            partial.unlink()


def describe(db: apsw.Connection, files: StoreFiles, durability: str) -> Mapping[str, Any]:
    """The description of this store."""
    pages = int(str(db.pragma("page_count"))) * int(str(db.pragma("page_size")))
    sealed: Any = db.execute(READ_SEAL).fetchone()
    return {
        "kind": "sqlite",
        "store_id": read_store_id(db),
        "path": str(files.database),
        "durability": durability,
        "sqlite_version": apsw.sqlite_lib_version(),
        "schema_version": int(str(db.pragma("user_version"))),
        "size_bytes": pages,
        "wal_bytes": files.log.stat().st_size if files.log.exists() else 0,
        "journal_mode": str(db.pragma("journal_mode")),
        "file_system": file_system(files.database.parent),
        "free_bytes": files.free_bytes(),
        "warning": files.exposure(),
        "writing": who_writes(files),
        "seal": refusal_of(sealed and sealed[0], str(files.database)),
    }
