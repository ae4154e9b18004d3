"""Numbered migrations: the first process to open a store brings it up to date."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

import apsw

from leasehold.errors import StoreVersionError
from leasehold.stores.sqlite.writing.turn import transaction

APPLICATION_ID: Final = 0x4C454153  # "LEAS", in the file's header


@cache
def migrations() -> tuple[tuple[int, str], ...]:
    """Every migration as (number, SQL), in order."""
    # Not importlib.resources: loading that takes longer than opening a store.
    folder = Path(__file__).with_name("migrations")
    found = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return tuple((int(name[:4]), (folder / name).read_text(encoding="utf-8")) for name in found)


def schema_version(db: apsw.Connection, path: Path) -> int:
    """The number of the last migration applied; refuses a foreign or newer file.

    It only reads, so a file of another program is left unchanged.
    """
    application = db.pragma("application_id")
    version = int(str(db.pragma("user_version")))
    if application != APPLICATION_ID:
        tables = db.execute("SELECT count(*) FROM sqlite_schema").fetchall()[0][0]
        if tables or application or version:
            raise StoreVersionError(
                f"{path} is a SQLite database of another program, not a Leasehold store; "
                "nothing was changed in it"
            )
        return 0
    newest = migrations()[-1][0]
    if version > newest:
        raise StoreVersionError(
            f"{path} was written by a newer Leasehold (schema {version}, this one knows {newest}): "
            "upgrade leasehold here before using it"
        )
    return version


def migrate(db: apsw.Connection, path: Path) -> None:
    """Apply missing migrations, each in a transaction of its own. Call it under the lock."""
    version = schema_version(db, path)
    for number, script in migrations():
        if number <= version:
            continue
        with transaction(db):
            db.execute(script)
            db.execute(f"PRAGMA application_id = {APPLICATION_ID}").fetchall()
            db.execute(f"PRAGMA user_version = {number}").fetchall()
