"""Looking at the store itself: integrity, copies, what it is."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import apsw

from leasehold.core.model.codes import STATUS_CODE
from leasehold.core.model.seals import refusal_of
from leasehold.core.model.status import Status
from leasehold.core.model.stored import UNREADABLE, problem_of
from leasehold.errors import StoreError
from leasehold.stores.sqlite.disk.epoch import mark_as_copy, read_store_id
from leasehold.stores.sqlite.disk.files import StoreFiles, create_private, file_system
from leasehold.stores.sqlite.leasing import damage, key_check
from leasehold.stores.sqlite.reading import metrics
from leasehold.stores.sqlite.writing import own_state
from leasehold.stores.sqlite.writing.remembered import READ_SEAL
from leasehold.stores.sqlite.writing.turn import who_writes
from leasehold.stores.tables import graph, inheritance
from leasehold.stores.tables.places import AT_ITS_PLACE

# Every job stands in exactly one of the state tables, and nothing stands there without a job.
_PLACES: Final = """
    SELECT job.id, count(place.seq) AS places FROM job LEFT JOIN (
        SELECT seq FROM ready UNION ALL SELECT seq FROM waiting
        UNION ALL SELECT seq FROM running UNION ALL SELECT seq FROM finished
    ) AS place USING (seq) GROUP BY job.seq HAVING places <> 1 LIMIT 10
"""
_STRAYS: Final = """
    SELECT seq FROM (
        SELECT seq FROM ready UNION ALL SELECT seq FROM waiting
        UNION ALL SELECT seq FROM running UNION ALL SELECT seq FROM finished
    ) WHERE seq NOT IN (SELECT seq FROM job) LIMIT 10
"""
_LANELESS: Final = "SELECT id FROM job WHERE lane NOT IN (SELECT id FROM lane) LIMIT 10"
_MISPLACED: Final = f"""
    SELECT job.id FROM ready JOIN job USING (seq) LEFT JOIN place ON place.seq = job.seq
    WHERE NOT ({AT_ITS_PLACE}) LIMIT 10
"""  # noqa: S608  # our own names
_PLACED_NOWHERE: Final = "SELECT seq FROM place WHERE seq NOT IN (SELECT seq FROM ready) LIMIT 10"
_NEVER_DUE: Final = f"""
    SELECT id FROM waiting JOIN job USING (seq)
    WHERE status <> {STATUS_CODE[Status.BLOCKED]} AND due IS NULL LIMIT 10
"""  # noqa: S608  # our own number
_OVERSPENT: Final = """
    SELECT job.id FROM (
        SELECT seq, attempts FROM ready UNION ALL SELECT seq, attempts FROM waiting
        UNION ALL SELECT seq, attempts FROM running UNION ALL SELECT seq, attempts FROM finished
    ) AS place JOIN job USING (seq) WHERE attempts > allowance OR attempts < 0 LIMIT 10
"""
_ARCHIVED_ALIVE: Final = "SELECT job.id FROM archive JOIN job USING (seq) LIMIT 10"
_RECOUNT: Final = """
    SELECT job.lane, status, count(*) FROM (
        SELECT seq, 2 AS status FROM ready UNION ALL SELECT seq, status FROM waiting
        UNION ALL SELECT seq, 3 FROM running UNION ALL SELECT seq, status FROM finished
    ) JOIN job USING (seq) GROUP BY job.lane, status
"""
_COUNTS: Final = f"SELECT id, queue, task, {', '.join(Status)} FROM lane"  # noqa: S608  # our own names


def check(db: apsw.Connection) -> list[str]:
    """SQLite's own integrity check, then ours; the problems found."""
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
    """What one part of the check finds; a row that cannot be read must not hide the rest."""
    try:
        yield from part(db)
    except UNREADABLE as error:
        yield f"{name} could not be checked to the end: {problem_of(error)}"


def _places(db: apsw.Connection) -> Iterator[str]:
    for job_id, places in db.execute(_PLACES):
        yield f"job {job_id} stands in {places} places instead of one"
    for (seq,) in db.execute(_STRAYS):
        yield f"number {seq} stands in a state table but there is no such job"
    for (job_id,) in db.execute(_LANELESS):
        yield f"job {job_id} belongs to no queue and task"
    for (job_id,) in db.execute(_MISPLACED):
        yield f"job {job_id} is ready in the wrong lane or tier"
    for (seq,) in db.execute(_PLACED_NOWHERE):
        yield f"number {seq} has a place among the pending jobs, but is not pending"
    for (job_id,) in db.execute(_NEVER_DUE):
        yield f"job {job_id} waits for a time, but for none that ever comes"
    for (job_id,) in db.execute(_OVERSPENT):
        yield f"job {job_id} has more attempts than it is allowed"
    for (job_id,) in db.execute(_ARCHIVED_ALIVE):
        yield f"job {job_id} is in the archive and in the store"


def _counters(db: apsw.Connection) -> Iterator[str]:
    counted = {(lane, status): n for lane, status, n in db.execute(_RECOUNT)}
    for lane, queue, task, *kept in db.execute(_COUNTS):
        for status, count in zip(Status, kept, strict=True):
            found = counted.get((lane, STATUS_CODE[status]), 0)
            if found != count:
                yield (
                    f"queue {queue!r}, task {task!r}: {count} jobs are counted as {status}, "
                    f"but there are {found}"
                )


_PARTS: Final[dict[str, Callable[[apsw.Connection], Iterable[str]]]] = {
    "places": _places,
    "dependencies": graph.problems,
    "inherited priorities": inheritance.problems,
    "metrics": metrics.problems,
    "limits per key": key_check.problems,
    "counters": _counters,
}


def backup(db: apsw.Connection, target: Path) -> None:
    """A consistent copy, made in one step; it appears under its name only when it is whole."""
    if target.exists():
        raise StoreError(f"{target} exists already: a backup never overwrites anything")
    partial = target.with_name(f"{target.name}.partial-{os.getpid()}-{threading.get_ident()}")
    try:
        create_private(partial)
        copy = apsw.Connection(str(partial))
        try:
            # One step: a backup in several starts again at every commit of another process.
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
    """What this store is."""
    pages = int(str(db.pragma("page_count"))) * int(str(db.pragma("page_size")))
    sealed: Any = db.execute(READ_SEAL).fetchone()
    wal = files.database.with_name(files.database.name + "-wal")
    return {
        "kind": "sqlite",
        "store_id": read_store_id(db),
        "path": str(files.database),
        "durability": durability,
        "sqlite_version": apsw.sqlite_lib_version(),
        "schema_version": int(str(db.pragma("user_version"))),
        "size_bytes": pages,
        "wal_bytes": wal.stat().st_size if wal.exists() else 0,
        "journal_mode": str(db.pragma("journal_mode")),
        "file_system": file_system(files.database.parent),
        "free_bytes": files.free_bytes(),
        "warning": files.exposure(),
        "writing": who_writes(files),
        "seal": refusal_of(sealed and sealed[0], str(files.database)),
    }
