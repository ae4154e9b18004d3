"""Inspecting the store itself: its integrity and its description."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from leasehold.core.model.seals import refusal_of
from leasehold.stores.postgres.keeping import days
from leasehold.stores.postgres.reading.figures import SpanShelf
from leasehold.stores.postgres.rules import known
from leasehold.stores.postgres.rules.known import unreadable_settings
from leasehold.stores.postgres.rules.orders import QueueReader
from leasehold.stores.postgres.rules.schedules import SCHEDULES
from leasehold.stores.postgres.server.address import Address
from leasehold.stores.postgres.server.connection import SqlConnection
from leasehold.stores.tables import checks, dependents, inheritance
from leasehold.stores.tables.moving import READ_SEAL
from leasehold.stores.tables.tokens import TokenReader

_DESCRIBED: Final = """
    SELECT store_id, current_setting('server_version'), (SELECT max(number) FROM migration),
           (SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class
            WHERE relnamespace = to_regnamespace($1) AND relkind = 'r'),
           current_setting('synchronous_commit')
    FROM store_state
"""
# Whoever has one keeps rows that were deleted since from being removed. Nothing is known of those
# of other roles, unless this one may see that.
_OLDEST_TRANSACTION: Final = """
    SELECT pid, application_name, coalesce(host(client_addr), 'this machine'),
           extract(epoch FROM clock_timestamp() - xact_start)::float8
    FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL
        AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)
    ORDER BY xact_start LIMIT 1
"""
_INDEXED: Final = "SELECT count(*) FROM indexed_lane"


# If the planner believes a table to be empty, scanning another one for each of its rows seems
# cheap. Instead, the tables are compared as a whole: each is read once.
_COMPARE_AS_A_WHOLE: Final = "SET LOCAL enable_nestloop = off"


def check(db: SqlConnection) -> list[str]:
    """Check the invariants of the store's rows at one moment; returns the problems found."""
    db.execute(_COMPARE_AS_A_WHOLE)
    return [problem for part in _PARTS for problem in part(db)]


_PARTS: Final[tuple[Callable[[SqlConnection], Iterable[str]], ...]] = (
    checks.misplaced,
    days.problems,
    dependents.problems,
    inheritance.problems,
    lambda db: checks.mismeasured(SpanShelf(db), db, "lane_now"),
    lambda db: checks.key_problems(db, QueueReader),
    lambda db: checks.miscounted(db, "lane_now"),
    lambda db: known.read_rules(db).problems(),
    unreadable_settings,
    SCHEDULES.unreadable,
    lambda db: TokenReader(db).unreadable(),
)


def describe(db: SqlConnection, address: Address) -> dict[str, Any]:
    """The description of this store."""
    row: Any = db.execute(_DESCRIBED, (address.schema,)).fetchone()
    store_id, version, schema_version, size, durability = row
    sealed: Any = db.execute(READ_SEAL).fetchone()
    return {
        "kind": "postgresql",
        "store_id": store_id,
        "path": address.shown,
        "durability": "full" if durability != "off" else "normal",
        "server_version": version,
        "schema_version": schema_version,
        "size_bytes": size,
        "is_pooled": db.raw.is_pooled,
        "seal": refusal_of(sealed and sealed[0], address.shown),
        "oldest_transaction": _oldest_transaction(db),
    }


def indexed_lanes(db: SqlConnection) -> int:
    """Of how many lanes an accelerator keeps the order."""
    row: Any = db.execute(_INDEXED).fetchone()
    return int(row[0])


def _oldest_transaction(db: SqlConnection) -> dict[str, Any] | None:
    row: Any = db.execute(_OLDEST_TRANSACTION).fetchone()
    if row is None:
        return None
    pid, application, host, seconds = row
    return {"pid": pid, "application": application, "host": host, "seconds": seconds}
