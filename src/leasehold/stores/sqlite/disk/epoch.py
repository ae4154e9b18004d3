"""Preventing lease versions from being granted twice, even if the store itself went back in time.

A store goes back when it is restored from a copy, or when the machine lost power under `normal`
durability. Then it may not know of versions that were granted. So, whenever that could have
happened, the floor under all future versions is raised above anything granted before: to the wall
clock, in a part of the number that counting alone never reaches. Raising it needlessly costs
nothing, since versions only have to grow, so every process that opens the store to write raises it,
unless the store is known to continue where it was left:

    a backup                bears a mark, which the first opening takes away
    a copy of the file      is another file, is not where the note of the last close says, or was
                            changed since by somebody else, which the kernel tells
    a snapshot of the disk  comes back after another start of the machine
    a log was deleted       and with it, it may be, all that was ever written: the file is not empty
    a process was killed    and nobody else had the store open: it cannot be told from the above

If a copy has certainly been restored (it has the mark, or is behind the note of the last opening),
its running leases may have been overtaken since the copy was made. The first write takes them back,
whatever its purpose; `restored` in `meta` is set until it has.

One case cannot be detected: a machine that is snapshotted with its memory and resumed continues
within the same boot, with its processes, and with unchanged files.

This file also gives every store an id, which distinguishes its blobs from those of other stores.

The id stays with the file and every copy of it, so a restored backup still knows its blobs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import apsw

from leasehold.env import Env
from leasehold.stores.sqlite.disk.continuity import Continuity, StoreProgress
from leasehold.stores.sqlite.disk.failures import translated
from leasehold.stores.sqlite.disk.files import FileId, StoreFiles, boot_id
from leasehold.stores.sqlite.writing.turn import transaction

FLOOR_SHIFT: Final = 20
"""Seconds since 1970, shifted this far, stay below 2^53, so they are exact even as doubles.

The part below the seconds is time too, in steps of about a microsecond: no store grants leases that
fast, so two copies restored within one second count from different floors.
"""

READ: Final = "SELECT CAST(value AS BLOB) FROM meta WHERE key = ?"
WRITE: Final = "INSERT OR REPLACE INTO meta VALUES (?, ?)"
MARK: Final = "INSERT OR REPLACE INTO meta VALUES ('copy', '1')"
UNMARK: Final = "DELETE FROM meta WHERE key = 'copy'"
RESTORED: Final = "INSERT OR REPLACE INTO meta VALUES ('restored', '1')"
TAKEN_BACK: Final = "DELETE FROM meta WHERE key = 'restored'"
# Above all versions counted from the last floor, even if the clock has not advanced.
RAISE: Final = f"""
    UPDATE store_state SET
        version_floor = max(((max(version_floor, ?) >> {FLOOR_SHIFT}) + 1) << {FLOOR_SHIFT}, ?)
"""
# The same applies to the numbers of changes: a follower that has seen some that this store does not
# know gets a gap, instead of other changes under the same numbers.
FORGET_CHANGES: Final = """
    DELETE FROM change;
    DELETE FROM sqlite_sequence WHERE name = 'change';
    INSERT INTO sqlite_sequence SELECT 'change', version_floor FROM store_state;
"""


def open_epoch(
    db: apsw.Connection,
    files: StoreFiles,
    file: FileId,
    continuity: Continuity,
    durability: str,
    env: Env,
    *,
    is_new: bool,
) -> None:
    """Raise the floor unless the store continues where it was left. Call it under the file lock.

    `is_new` says that the file was empty; a file that only looks new because it lost its log, with
    all that was ever written, is not.
    """
    now = {"identity": f"{file[0]}:{file[1]}", "boot": boot_id()}
    was_marked = False
    with translated(files.database), synced(db, durability), transaction(db):
        ensure_store_id(db, env)
        was_marked = _read(db, "copy") is not None
        before = {key: _read(db, key) for key in now}
        if not (is_new or _goes_on(db, before, now, continuity, files.changed_at())):
            left = continuity.noted()
            if was_marked or (left is not None and StoreProgress.of(db).is_behind(left)):
                db.execute(RESTORED)
            raise_floor(db, env, 0 if left is None else left.version_floor)
            db.execute(UNMARK)
        if before != now:
            for key, value in now.items():
                db.execute(WRITE, (key, value))
    if was_marked:
        # The mark is removed from the file itself too, since the log now belongs to this store. If
        # that fails, so does the opening: nothing has been acknowledged yet.
        with translated(files.database):
            db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    continuity.note_in_use(StoreProgress.of(db), file)


def raise_floor(db: apsw.Connection, env: Env, known: int = 0) -> None:
    """Prevent grants of versions that another copy of the store may have granted; `known` is a
    floor that one had.
    """
    db.execute(RAISE, (known, (env.now_micros() << FLOOR_SHIFT) // 1_000_000))
    db.execute(FORGET_CHANGES)


def _goes_on(
    db: apsw.Connection,
    before: dict[str, str | None],
    now: dict[str, str],
    continuity: Continuity,
    changed_at: int,
) -> bool:
    """Whether the store is known to be where it was left."""
    return (
        before == now
        # If the system does not distinguish one boot from another, every opening may be the first.
        and bool(now["boot"])
        and _read(db, "copy") is None
        and continuity.is_unbroken(StoreProgress.of(db), changed_at)
    )


def is_restored(db: apsw.Connection) -> bool:
    """Whether the leases of a restored copy still have to be taken back."""
    return _read(db, "restored") is not None


def mark_as_copy(db: apsw.Connection) -> None:
    """Mark this copy, so that its opener knows that the original may have continued since."""
    db.execute(MARK)


@contextmanager
def synced(db: apsw.Connection, durability: str) -> Iterator[None]:
    """Sync the writes inside; if they were lost together with grants, nobody would notice."""
    db.execute("PRAGMA synchronous = FULL")
    yield
    db.execute(f"PRAGMA synchronous = {durability}")


def _read(db: apsw.Connection, key: str) -> str | None:
    """A fact about the file; None if it cannot be read."""
    row: Any = db.execute(READ, (key,)).fetchone()
    try:
        return None if row is None else bytes(row[0]).decode()
    except (TypeError, UnicodeDecodeError):
        return None


# Guard: the first process to open the store sets its id, permanently.
NAME_ID: Final = "INSERT OR REPLACE INTO meta VALUES ('store_id', ?)"


def ensure_store_id(db: apsw.Connection, env: Env) -> None:
    """Set a store's id, inside the transaction of its opening."""
    if not has_store_id(db):
        db.execute(NAME_ID, (env.new_secret(),))


def has_store_id(db: apsw.Connection) -> bool:
    """Whether its creation was completed: a killed process may have left tables without an id."""
    return bool(_read(db, "store_id"))


def read_store_id(db: apsw.Connection) -> str:
    """The store's id."""
    return _read(db, "store_id") or ""
