"""The store as its rows, for moving all of them: see `leasehold.core.rules.moving.RowStore`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import apsw

from leasehold.core.model.seals import Key
from leasehold.core.rules.moving import Row, StoreCounters, Table
from leasehold.stores.sqlite.disk.epoch import raise_floor, read_store_id
from leasehold.stores.sqlite.schema.cells import CELLS
from leasehold.stores.tables.moving import SET_FACT, SIGNING_KEY, TableRows, fact

if TYPE_CHECKING:
    from leasehold.stores.sqlite.writing.database import Database

NOT_MOVED: Final = {
    "store_state": "see `StoreCounters`",
    "meta": "facts about the file; see `StoreCounters` for the others",
    "worker": "processes that have the source open",
    "change": "who follows the feed begins anew, and is told of a gap",
    "sqlite_sequence": "SQLite's own; see `StoreCounters`",
}
"""Tables whose rows are not moved, and why."""
NOT_MOVED_COLUMNS: Final = {
    ("running", "moved_by"): "about the clock of this machine, and a holder who is gone"
}

TABLES: Final = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name"
# Generated columns are excluded. `pk` is the position in the primary key, from 1.
COLUMNS: Final = "SELECT name, pk FROM pragma_table_info(?) ORDER BY cid"
STATE: Final = "SELECT clock, open_minute, version_floor, next_seq FROM store_state"
USED_UP: Final = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = ?"
SET_STATE: Final = """
    UPDATE store_state SET clock = max(clock, ?), open_minute = ?,
        version_floor = max(version_floor, ?), next_seq = max(next_seq, ?),
        settings_generation = settings_generation + 1
"""
FORGET_USED_UP: Final = "DELETE FROM sqlite_sequence WHERE name = ?"
SET_USED_UP: Final = "INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)"


class Rows(TableRows):
    """See `leasehold.core.rules.moving.RowStore`."""

    _database: Database

    def __init__(self, database: Database) -> None:
        super().__init__(database, os.path.abspath(database.files.database))
        # A restored older copy is handled before its versions are read.
        database.open_to_write()

    def store_id(self) -> str:
        with self._database.read() as db:
            return read_store_id(db)

    def tables(self) -> list[Table]:
        with self._database.read() as db:
            names: list[Any] = db.execute(TABLES).fetchall()
            # An application may have its own tables in the file.
            return [_table(db, name) for (name,) in names if name in CELLS.keys() - NOT_MOVED]

    def tables_of_others(self) -> list[str]:
        with self._database.read() as db:
            names: list[Any] = db.execute(TABLES).fetchall()
        ours = CELLS.keys() | NOT_MOVED
        return [name for (name,) in names if name not in ours and not name.startswith("sqlite_")]

    def rows(self, table: Table, after: Key | None, limit: int) -> list[Row]:
        key = ", ".join(table.key)
        begin = "" if after is None else f"WHERE ({key}) > ({_places(table.key)})"
        columns = ", ".join(table.columns)
        statement = f"SELECT {columns} FROM {table.name} {begin} ORDER BY {key} LIMIT ?"
        with self._database.read() as db:
            found: Any = db.execute(statement, (*(after or ()), limit))
            return list(found)

    def fitted(self, rows: list[Row]) -> list[Row]:
        return rows

    def _insert(self, db: apsw.Connection, table: Table, rows: Sequence[Row]) -> None:
        columns = ", ".join(table.columns)
        statement = f"INSERT INTO {table.name} ({columns}) VALUES ({_places(table.columns)})"
        db.executemany(statement, rows)

    def _raise_versions(self, db: apsw.Connection) -> None:
        raise_floor(db, self._database.env)

    def counters(self) -> StoreCounters:
        with self._database.read() as db:
            state: Any = db.execute(STATE).fetchone()
            return StoreCounters(
                store_id=read_store_id(db),
                signing_key=fact(db, SIGNING_KEY),
                clock=state[0],
                open_minute=state[1],
                version=state[2],
                next_seq=state[3],
                audit=_number(db, USED_UP, "audit"),
                change=_number(db, USED_UP, "change"),
            )

    def _go_on_from(self, db: apsw.Connection, counters: StoreCounters) -> None:
        state = (counters.clock, counters.open_minute, counters.version, counters.next_seq)
        db.execute(SET_STATE, state)
        for name, used in (("audit", counters.audit), ("change", counters.change)):
            used_here = max(used, _number(db, USED_UP, name))
            db.execute(FORGET_USED_UP, (name,))
            db.execute(SET_USED_UP, (name, used_here))
        db.execute(SET_FACT, ("store_id", counters.store_id))


def _table(db: apsw.Connection, name: str) -> Table:
    found: Any = db.execute(COLUMNS, (name,))
    columns = [each for each in found if (name, each[0]) not in NOT_MOVED_COLUMNS]
    key = sorted((place, column) for column, place in columns if place)
    return Table(name, tuple(column for column, _ in columns), tuple(each for _, each in key))


def _places(columns: Sequence[str]) -> str:
    return ", ".join("?" * len(columns))


def _number(db: apsw.Connection, statement: str, *values: str) -> int:
    row: Any = db.execute(statement, values).fetchone()
    return int(row[0])
