"""Keeping lease versions from being granted twice, even when the store itself went back in time.

A store goes back when it is restored from a copy, or when the machine lost power under `normal`
durability. Then versions that were handed out may be unknown to it. So, whenever that could have
happened, the floor under all versions to come is raised above anything granted before: to the wall
clock, in a part of the number that counting alone never reaches.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import apsw

from leasehold.env import Env
from leasehold.stores.sqlite.failures import translated
from leasehold.stores.sqlite.files import StoreFiles, boot_id
from leasehold.stores.sqlite.identity import ensure_store_id
from leasehold.stores.sqlite.transaction import transaction

_SHIFT: Final = 20
"""Seconds since 1970, shifted this far, stay below 2^53: exact wherever numbers are doubles."""

READ: Final = "SELECT value FROM meta WHERE key = ?"
WRITE: Final = "INSERT OR REPLACE INTO meta VALUES (?, ?)"
# Above all that was counted from the last floor, even if the clock shows no later time.
RAISE: Final = f"""
    UPDATE store_state SET version_floor = max((version_floor >> {_SHIFT}) + 1, ?) << {_SHIFT}
"""  # noqa: S608  # our own number


def open_epoch(db: apsw.Connection, files: StoreFiles, durability: str, env: Env) -> None:
    """Compare the file with what it was at the last opening; raise the floor if it may be older."""
    now = {"identity": files.identity(), "boot": boot_id(), "durability": durability}
    with translated(files.database), _synced(db, durability), transaction(db):
        ensure_store_id(db, env)
        before = {key: _read(db, key) for key in now}
        if before["identity"] is not None and _may_be_older(before, now):
            db.execute(RAISE, (env.now_micros() // 1_000_000,))
        if before["durability"] == "normal" and before["boot"] == now["boot"]:
            # Whoever wrote without syncing may do so still, so the next start must not rely on it.
            now["durability"] = "normal"
        if before != now:
            for key, value in now.items():
                db.execute(WRITE, (key, value))


@contextmanager
def _synced(db: apsw.Connection, durability: str) -> Iterator[None]:
    """Sync what is written inside: were it lost together with grants, nobody would miss them."""
    db.execute("PRAGMA synchronous = FULL")
    yield
    db.execute(f"PRAGMA synchronous = {durability}")


def _may_be_older(before: dict[str, str | None], now: dict[str, str]) -> bool:
    if before["identity"] != now["identity"]:
        return True  # a copy, or a restored backup
    # Without fsync an acknowledged grant may be lost with the power; where the system does not
    # tell one start from another, every opening has to be taken for one.
    return before["durability"] == "normal" and (before["boot"] != now["boot"] or not now["boot"])


def _read(db: apsw.Connection, key: str) -> str | None:
    row = db.execute(READ, (key,)).fetchone()
    return None if row is None else str(row[0])
