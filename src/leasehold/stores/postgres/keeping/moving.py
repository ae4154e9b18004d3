"""The store as its rows, for moving all of them: see `leasehold.core.rules.moving.RowStore`."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from leasehold.core.model.seals import Key, Seal
from leasehold.core.rules.moving import Row, StoreCounters, Table
from leasehold.stores.postgres.keeping import days
from leasehold.stores.postgres.schema.migrate import own_tables
from leasehold.stores.postgres.schema.texts import storable
from leasehold.stores.postgres.server.connection import SqlConnection
from leasehold.stores.postgres.writing.remembered import RAISE_VERSIONS
from leasehold.stores.tables.moving import SIGNING_KEY, TableRows, fact

if TYPE_CHECKING:
    from leasehold.stores.postgres.writing.database import Database

NOT_MOVED: Final = {
    "migration": "facts about the schema",
    "store_state": "see `StoreCounters`",
    "meta": "facts about the store; see `StoreCounters`",
    "worker": "processes that have the source open",
    "mark": "of connections to this server",
    "indexed_lane": "of the accelerator beside this server",
    "change": "who follows the feed begins anew, and is told of a gap",
    "lane_delta": "read as a part of `lane`",
    "archive_day": "made with the partitions of the archive",
    "blob": "see `leasehold.blobs.moving`: other stores keep theirs elsewhere",
}
"""Tables whose rows are not moved, and why."""
NOT_MOVED_COLUMNS: Final = {("schedule", "number"): "given anew by this store"}

READ_AS: Final = {
    "lane": "lane_now",
    "measured": """(SELECT lane, measure, bucket, sum(jobs)::bigint AS jobs,
        sum(micros)::bigint AS micros FROM measured GROUP BY lane, measure, bucket) AS measured""",
}
"""Tables whose rows are only partial counts, and what is read instead."""
OWN_KEYS: Final = {"measured": ("lane", "measure", "bucket")}
"""The keys of views and tables that have none themselves."""

# Generated columns are excluded.
COLUMNS: Final = """
    SELECT relname::text, attname::text FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
    WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p') AND attnum > 0
        AND NOT attisdropped AND attgenerated = ''
    ORDER BY relname, attnum
"""
KEYS: Final = """
    SELECT relname::text, attname::text FROM pg_index
    JOIN pg_class ON pg_class.oid = indrelid
    CROSS JOIN LATERAL unnest(indkey::int2[]) WITH ORDINALITY AS part (attnum, n)
    JOIN pg_attribute ON attrelid = indrelid AND pg_attribute.attnum = part.attnum
    WHERE indisprimary AND relnamespace = current_schema()::regnamespace ORDER BY relname, part.n
"""
IDENTITIES: Final = """
    SELECT relname::text, attname::text FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
    WHERE relnamespace = current_schema()::regnamespace AND attidentity <> ''
"""
STORE_ID: Final = "SELECT store_id FROM store_state"
# A server restarted since the last write may have forgotten the last versions it granted.
STATE: Final = """
    SELECT clock, open_minute, greatest(
               version_base + (SELECT last_value FROM lease_version),
               CASE WHEN server_started_at <> pg_postmaster_start_time()
                    THEN (extract(epoch FROM clock_timestamp()) * 1048576)::bigint END),
           (SELECT last_value + is_called::int FROM job_seq),
           (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM audit_n_seq),
           (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM change_n_seq)
    FROM store_state
"""
SET_STATE: Final = """
    UPDATE store_state SET store_id = $1, clock = greatest(clock, $2), open_minute = $3,
        version_base = greatest(version_base, $4), settings_generation = settings_generation + 1
"""
# Even if the server's clock is not later than the versions.
LEAVE_OUT_VERSIONS: Final = "UPDATE store_state SET version_base = version_base + 1048576"
SET_NEXT_JOB: Final = """
    SELECT setval('job_seq', greatest($1, (SELECT last_value + is_called::int FROM job_seq)), false)
"""


class Rows(TableRows):
    """See `leasehold.core.rules.moving.RowStore`."""

    _database: Database

    def __init__(self, database: Database) -> None:
        super().__init__(database, database.address.shown)

    def store_id(self) -> str:
        with self._database.read() as db:
            return fact(db, STORE_ID) or ""

    def tables(self) -> list[Table]:
        columns: defaultdict[str, list[str]] = defaultdict(list)
        keys: defaultdict[str, list[str]] = defaultdict(list)
        ours = own_tables() - NOT_MOVED.keys()
        with self._database.read() as db:
            for table, column in db.execute(COLUMNS):
                if table in ours and (table, column) not in NOT_MOVED_COLUMNS:
                    columns[table].append(column)
            for table, column in db.execute(KEYS):
                keys[table].append(column)
        # Sorted by their bytes, as in SQLite.
        return [
            Table(name, tuple(columns[name]), OWN_KEYS.get(name) or tuple(keys[name]))
            for name in sorted(columns)
        ]

    def tables_of_others(self) -> list[str]:
        # A schema is the store's own; nobody expects the rest of the database to be moved.
        return []

    def rows(self, table: Table, after: Key | None, limit: int) -> list[Row]:
        key, columns = ", ".join(table.key), ", ".join(table.columns)
        read_from = READ_AS.get(table.name, table.name)
        begin = ""
        if after is not None:
            begin = f"WHERE ({key}) > ({', '.join(f'${n + 2}' for n in range(len(after)))})"
        statement = f"SELECT {columns} FROM {read_from} {begin} ORDER BY {key} LIMIT $1"
        with self._database.read() as db:
            found = db.execute(statement, (limit, *(after or ()))).fetchall()
        return [tuple(map(_cell, row)) for row in found]

    def fitted(self, rows: list[Row]) -> list[Row]:
        return [
            tuple(storable(cell) if isinstance(cell, str) else cell for cell in row) for row in rows
        ]

    def _insert(self, db: SqlConnection, table: Table, rows: Sequence[Row]) -> None:
        if table.name == "archive":
            day = table.columns.index("day")
            days.make_room(db, Counter(cast("int", row[day]) for row in rows))
        copy = f"COPY {table.name} ({', '.join(table.columns)}) FROM STDIN"
        with db.raw.cursor().copy(copy.encode()) as copied:
            for row in rows:
                copied.write_row(row)

    def _raise_versions(self, db: SqlConnection) -> None:
        db.execute(LEAVE_OUT_VERSIONS)
        db.execute(RAISE_VERSIONS)

    def counters(self) -> StoreCounters:
        with self._database.read() as db:
            state: Any = db.execute(STATE).fetchone()
            return StoreCounters(
                store_id=fact(db, STORE_ID) or "",
                signing_key=fact(db, SIGNING_KEY),
                clock=state[0],
                open_minute=state[1],
                version=state[2],
                next_seq=state[3],
                audit=state[4],
                change=state[5],
            )

    def take_over(self, counters: StoreCounters, seal: Seal, actor: str) -> None:
        super().take_over(counters, seal, actor)
        self._database.store_id = counters.store_id

    def _go_on_from(self, db: SqlConnection, counters: StoreCounters) -> None:
        state = (counters.store_id, counters.clock, counters.open_minute, counters.version)
        db.execute(SET_STATE, state)
        db.execute(SET_NEXT_JOB, (counters.next_seq,))
        used = {"audit": counters.audit, "change": counters.change}
        for table, column in db.execute(IDENTITIES).fetchall():
            db.execute(_raise_identity(table, column), (used.get(table, 0),))


def _raise_identity(table: str, column: str) -> str:
    """The statement that makes a column continue after its present values and after a number."""
    sequence = f"{table}_{column}_seq"
    return f"""
        SELECT setval('{sequence}', 1 + greatest($1, (SELECT max({column}) FROM {table}),
            (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {sequence})), false)
    """


def _cell(cell: Any) -> Any:
    """A cell in the form common to all stores: a boolean is a number."""
    return int(cell) if isinstance(cell, bool) else cell
