"""Numbered migrations: the first process to open a store brings it up to date.

Guard: a lock on the schema's name, so that of several processes that start at once one migrates and
the others find it done.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from leasehold.env import Env
from leasehold.errors import StoreVersionError
from leasehold.stores.postgres.server.address import Address
from leasehold.stores.postgres.server.connection import SqlConnection

MADE: Final = re.compile(r"^CREATE TABLE (\w+)", re.MULTILINE)
IS_THERE: Final = "SELECT 1 FROM pg_namespace WHERE nspname = $1"
LOCK: Final = "SELECT pg_advisory_xact_lock(hashtextextended('leasehold migrate ' || $1, 0))"
# A query of the catalog, not to_regclass(): within a transaction, the server may answer that from
# its cache, and a process that has just waited for the lock would miss commits made meanwhile.
TABLES: Final = """
    SELECT count(*), coalesce(bool_or(relname = 'migration'), false)
    FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE nspname = $1
"""
VERSION: Final = "SELECT max(number) FROM migration"
REMEMBER: Final = """
    CREATE TABLE IF NOT EXISTS migration (
        number bigint PRIMARY KEY, applied_at timestamptz NOT NULL)
"""
APPLIED: Final = "INSERT INTO migration VALUES ($1, clock_timestamp())"
FIRST_STATE: Final = """
    INSERT INTO store_state (one, store_id, clock, version_base, server_started_at, table_number)
    VALUES (1, $1, 0, 0, pg_postmaster_start_time(), 'store_state'::regclass::oid::bigint)
"""


def migrations() -> list[tuple[int, str]]:
    """Every migration as (number, SQL), in order."""
    folder = Path(__file__).with_name("migrations")
    found = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [(int(name[:4]), (folder / name).read_text(encoding="utf-8")) for name in found]


def own_tables() -> set[str]:
    """The tables that the migrations create; there may be others in the schema."""
    return {name for _, sql in migrations() for name in MADE.findall(sql)}


def migrate(db: SqlConnection, address: Address, env: Env) -> None:
    """Create the schema or bring it up to date; refuses a foreign or a newer schema."""
    newest = migrations()[-1][0]
    with db.transaction():
        if version(db, address) == newest:
            return
    with db.transaction():
        db.execute(LOCK, (address.schema,))
        found = version(db, address)
        if found > newest:
            raise StoreVersionError(
                f"{address.shown} was written by a newer Leasehold (schema {found}, this one "
                f"knows {newest}): upgrade leasehold here before using it"
            )
        if db.execute(IS_THERE, (address.schema,)).fetchone() is None:
            # The server requires the right to create schemas even if this one exists.
            db.execute(f'CREATE SCHEMA IF NOT EXISTS "{address.schema}"')
        db.execute(REMEMBER)
        for number, script in migrations():
            if number > found:
                db.raw.execute(script.encode(), prepare=False)
                db.execute(APPLIED, (number,))
        if found == 0:
            db.execute(FIRST_STATE, (env.new_secret(),))


def version(db: SqlConnection, address: Address) -> int:
    """The number of the last migration applied; 0 if there is no store yet."""
    row: Any = db.execute(TABLES, (address.schema,)).fetchone()
    tables, has_store = row
    if has_store:
        applied: Any = db.execute(VERSION).fetchone()
        return int(applied[0] or 0)
    if tables:
        raise StoreVersionError(
            f"{address.shown}: the schema holds tables that are not Leasehold's, and nothing was "
            "changed in it; name another one with ?schema=..."
        )
    return 0
