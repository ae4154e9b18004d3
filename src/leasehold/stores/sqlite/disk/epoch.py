"""Keeping lease versions from being granted twice, even when the store itself went back in time.

A store goes back when it is restored from a copy, or when the machine lost power under `normal`
durability. Then versions that were handed out may be unknown to it. So, whenever that could have
happened, the floor under all versions to come is raised above anything granted before: to the wall
clock, in a part of the number that counting alone never reaches. Raising it for nothing costs
nothing, since versions only have to grow; so whoever opens the store to write raises it unless the
store is known to go on where it was left:

    a backup                bears a mark, which the first opening takes away
    a copy of the file      is another file, is not where the note of the last close says, or was
                            changed since by somebody else, which the kernel tells
    a snapshot of the disk  comes back after another start of the machine
    a log was deleted       and with it, it may be, all that was ever written: the file is not empty
    a process was killed    and nobody else had the store open: it cannot be told from the above

Leases that run by a copy which has certainly come back, one that bears the mark or is behind the
note of the last opening, may have been overtaken since the copy was made. The first write takes
them back, whatever it is about: `restored` in `meta` says so until it has.

What cannot be told: a machine that is snapshotted with its memory and resumed goes on within the
same start, with its processes, and every file is as it was.

An id of its own for every store, by which its blobs are told from those of others.

It stays with the file, and with every copy of it: a restored backup still knows its blobs.
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
"""Seconds since 1970, shifted this far, stay below 2^53: exact wherever numbers are doubles.

The part below the seconds is time too, in steps of about a microsecond: no store grants leases as
fast as that, so two copies that come back within one second count from different floors.
"""

READ: Final = "SELECT CAST(value AS BLOB) FROM meta WHERE key = ?"
WRITE: Final = "INSERT OR REPLACE INTO meta VALUES (?, ?)"
MARK: Final = "INSERT OR REPLACE INTO meta VALUES ('copy', '1')"
UNMARK: Final = "DELETE FROM meta WHERE key = 'copy'"
RESTORED: Final = "INSERT OR REPLACE INTO meta VALUES ('restored', '1')"
TAKEN_BACK: Final = "DELETE FROM meta WHERE key = 'restored'"
# Above all versions counted from the last floor, even if the clock shows no later time.
RAISE: Final = f"""
    UPDATE store_state SET
        version_floor = max(((max(version_floor, ?) >> {FLOOR_SHIFT}) + 1) << {FLOOR_SHIFT}, ?)
"""
# As with versions, so with the numbers of changes: a follower that has seen some that this store
# does not know is told of a gap, and not given others under the same numbers.
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
    """Raise the floor unless the store goes on where it was left. Call it under the file lock.

    `is_new` says that the file was empty: one that only looks new, since it has lost its log with
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
        # The mark goes from the file itself too: what lies in the log from now on is this store's.
        # Where that fails, so does the opening: nothing was acknowledged yet.
        with translated(files.database):
            db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    continuity.note_in_use(StoreProgress.of(db), file)


def raise_floor(db: apsw.Connection, env: Env, known: int = 0) -> None:
    """Grant no version that another copy of the store may have granted; `known` is a floor that one
    had.
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
        # Where the system does not tell one start from another, every opening may be the first.
        and bool(now["boot"])
        and _read(db, "copy") is None
        and continuity.is_unbroken(StoreProgress.of(db), changed_at)
    )


def is_restored(db: apsw.Connection) -> bool:
    """Whether the leases of a copy that came back are still to be taken back."""
    return _read(db, "restored") is not None


def mark_as_copy(db: apsw.Connection) -> None:
    """Tell the opener of this copy that others may have gone on from where it was made."""
    db.execute(MARK)


@contextmanager
def synced(db: apsw.Connection, durability: str) -> Iterator[None]:
    """Sync the writes inside: were they lost together with grants, it would go unnoticed."""
    db.execute("PRAGMA synchronous = FULL")
    yield
    db.execute(f"PRAGMA synchronous = {durability}")


def _read(db: apsw.Connection, key: str) -> str | None:
    """A fact about the file; one that cannot be read is none."""
    row: Any = db.execute(READ, (key,)).fetchone()
    try:
        return None if row is None else bytes(row[0]).decode()
    except (TypeError, UnicodeDecodeError):
        return None


# Guard: the first to open the store names it, for good.
NAME_ID: Final = "INSERT OR REPLACE INTO meta VALUES ('store_id', ?)"


def ensure_store_id(db: apsw.Connection, env: Env) -> None:
    """Give a store its id, inside the transaction of its opening."""
    if not has_store_id(db):
        db.execute(NAME_ID, (env.new_secret(),))


def has_store_id(db: apsw.Connection) -> bool:
    """Whether its making was completed: a killed one may have left the tables alone."""
    return bool(_read(db, "store_id"))


def read_store_id(db: apsw.Connection) -> str:
    """The id that it was given."""
    return _read(db, "store_id") or ""
