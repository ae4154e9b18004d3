"""Numbered migrations: whoever opens a store first brings it up to date.

Guard: under a lock of the schema's name, so that of several processes that start at once one
migrates and the others find it done.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from leasehold.env import Env
from leasehold.errors import StoreVersionError
from leasehold.stores.postgres.server.address import Address
from leasehold.stores.postgres.server.connection import Connection

LOCK: Final = "SELECT pg_advisory_xact_lock(hashtextextended('leasehold migrate ' || $1, 0))"
EXISTS: Final = "SELECT to_regnamespace($1) IS NOT NULL, to_regclass($2) IS NOT NULL"
VERSION: Final = "SELECT max(number) FROM migration"
REMEMBER: Final = """
    CREATE TABLE IF NOT EXISTS migration (
        number bigint PRIMARY KEY, applied_at timestamptz NOT NULL)
"""
APPLIED: Final = "INSERT INTO migration VALUES ($1, clock_timestamp())"
TABLES: Final = "SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace($1)"
FIRST_STATE: Final = """
    INSERT INTO store_state (one, store_id, clock, epoch, system_identifier, timeline)
    SELECT 1, $1, 0, 1, system_identifier::text, timeline_id
    FROM pg_control_system(), pg_control_checkpoint()
"""
# Another server, or this one restored or failed over: it may have forgotten the last versions.
NEXT_EPOCH: Final = """
    UPDATE store_state SET epoch = epoch + 1, system_identifier = control.system_identifier::text,
        timeline = checkpoint.timeline_id
    FROM pg_control_system() AS control, pg_control_checkpoint() AS checkpoint
    WHERE store_state.system_identifier <> control.system_identifier::text
        OR timeline <> checkpoint.timeline_id
"""


def migrations() -> list[tuple[int, str]]:
    """Every migration as (number, SQL), in order."""
    folder = Path(__file__).with_name("migrations")
    found = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [(int(name[:4]), (folder / name).read_text(encoding="utf-8")) for name in found]


def migrate(db: Connection, address: Address, env: Env) -> None:
    """Make the schema or bring it up to date; refuses what is not ours, or newer than we are."""
    newest = migrations()[-1][0]
    if _version(db, address) == newest:
        db.execute(NEXT_EPOCH)
        return
    with db.raw.transaction():
        db.execute(LOCK, (address.schema,))
        version = _version(db, address)
        if version > newest:
            raise StoreVersionError(
                f"{address.shown} was written by a newer Leasehold (schema {version}, this one "
                f"knows {newest}): upgrade leasehold here before using it"
            )
        db.execute(f"CREATE SCHEMA IF NOT EXISTS {address.schema}")
        db.execute(REMEMBER)
        for number, script in migrations():
            if number > version:
                db.raw.execute(script.encode(), prepare=False)
                db.execute(APPLIED, (number,))
        if version == 0:
            db.execute(FIRST_STATE, (env.new_secret(),))


def _version(db: Connection, address: Address) -> int:
    """The number of the last migration applied; 0 where there is no store yet."""
    row: Any = db.execute(EXISTS, (address.schema, f"{address.schema}.migration")).fetchone()
    has_schema, has_store = row
    if has_store:
        applied: Any = db.execute(VERSION).fetchone()
        return int(applied[0] or 0)
    tables: Any = db.execute(TABLES, (address.schema,)).fetchone() if has_schema else (0,)
    if tables[0]:
        raise StoreVersionError(
            f"{address.shown}: the schema holds tables that are not Leasehold's, and nothing was "
            "changed in it; name another one with ?schema=..."
        )
    return 0
