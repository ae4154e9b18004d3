"""The store as its rows, for who moves all of them: see `leasehold.core.rules.moving.RowStore`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import apsw
import msgspec

from leasehold.core.model.seals import Key, Seal, check_unchanged, seal_of
from leasehold.core.rules.moving import Row, StoreCounters, Table
from leasehold.stores.sqlite.disk.epoch import raise_floor, read_store_id
from leasehold.stores.sqlite.schema.cells import CELLS
from leasehold.stores.sqlite.writing.remembered import READ_SEAL

if TYPE_CHECKING:
    from leasehold.stores.sqlite.writing.database import Database

NOT_MOVED: Final = {
    "store_state": "see `StoreCounters`",
    "meta": "facts about the file; see `StoreCounters` for the others",
    "worker": "processes that have the source open",
    "change": "who follows the feed begins anew, and is told of a gap",
    "sqlite_sequence": "SQLite's own; see `StoreCounters`",
}
"""Tables of which no row is moved, and why."""
NOT_MOVED_COLUMNS: Final = {
    ("running", "moved_by"): "about the clock of this machine, and a holder who is gone"
}

TABLES: Final = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name"
# Without generated columns. `pk` is the place in the primary key, from 1.
COLUMNS: Final = "SELECT name, pk FROM pragma_table_info(?) ORDER BY cid"
RUNNING: Final = "SELECT count(*) FROM running"
SET_FACT: Final = "INSERT OR REPLACE INTO meta VALUES (?, ?)"
UNSEAL: Final = "DELETE FROM meta WHERE key = 'seal'"
# A process looks at the seal when it finds another generation than before.
TELL: Final = "UPDATE store_state SET queue_generation = queue_generation + 1"
SIGNING_KEY: Final = "SELECT value FROM meta WHERE key = 'signing_key'"
STATE: Final = "SELECT clock, open_minute, version_floor, next_seq FROM store_state"
USED_UP: Final = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = ?"
SET_STATE: Final = """
    UPDATE store_state SET clock = max(clock, ?), open_minute = ?,
        version_floor = max(version_floor, ?), next_seq = max(next_seq, ?),
        settings_generation = settings_generation + 1
"""
FORGET_USED_UP: Final = "DELETE FROM sqlite_sequence WHERE name = ?"
SET_USED_UP: Final = "INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)"
AUDIT: Final = """
    INSERT INTO audit (at, actor, action, count, detail)
    SELECT clock, ?, 'migrate_store', (SELECT count(*) FROM job), ? FROM store_state
"""


class Rows:
    """Used by one process, while no other writes."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.shown = os.path.abspath(database.files.database)
        # An older copy is dealt with before its versions are asked for.
        database.open_to_write()

    def store_id(self) -> str:
        with self._database.read() as db:
            return read_store_id(db)

    def tables(self) -> list[Table]:
        with self._database.read() as db:
            names: list[Any] = db.execute(TABLES).fetchall()
            # An application may have tables of its own in the file.
            return [_table(db, name) for (name,) in names if name in CELLS.keys() - NOT_MOVED]

    def rows(self, table: Table, after: Key | None, limit: int) -> list[Row]:
        key = ", ".join(table.key)
        begin = "" if after is None else f"WHERE ({key}) > ({_places(table.key)})"
        columns = ", ".join(table.columns)
        statement = f"SELECT {columns} FROM {table.name} {begin} ORDER BY {key} LIMIT ?"  # noqa: S608  # our own names
        with self._database.read() as db:
            found: Any = db.execute(statement, (*(after or ()), limit))
            return list(found)

    def fitted(self, rows: list[Row]) -> list[Row]:
        return rows

    def seal(self) -> Seal | None:
        with self._database.read() as db:
            return seal_of(_fact(db, READ_SEAL))

    def change_seal(
        self, found: Seal | None, seal: Seal | None, *, unless_running: bool = False
    ) -> int:
        with self._database.alone() as db:
            check_unchanged(seal_of(_fact(db, READ_SEAL)), found, self.shown)
            running = _number(db, RUNNING)
            if not (unless_running and running):
                _write_seal(db, seal)
                db.execute(TELL)
            return running

    def add(self, table: Table, rows: Sequence[Row], found: Seal, seal: Seal) -> None:
        columns = ", ".join(table.columns)
        statement = f"INSERT INTO {table.name} ({columns}) VALUES ({_places(table.columns)})"  # noqa: S608  # our own names
        with self._database.alone() as db:
            check_unchanged(seal_of(_fact(db, READ_SEAL)), found, self.shown)
            db.executemany(statement, rows)
            _write_seal(db, seal)

    def reopen(self, found: Seal) -> None:
        with self._database.alone() as db:
            check_unchanged(seal_of(_fact(db, READ_SEAL)), found, self.shown)
            raise_floor(db, self._database.env)
            db.execute(UNSEAL)
            db.execute(TELL)

    def counters(self) -> StoreCounters:
        with self._database.read() as db:
            state: Any = db.execute(STATE).fetchone()
            return StoreCounters(
                store_id=read_store_id(db),
                signing_key=_fact(db, SIGNING_KEY),
                clock=state[0],
                open_minute=state[1],
                version=state[2],
                next_seq=state[3],
                audit=_number(db, USED_UP, "audit"),
                change=_number(db, USED_UP, "change"),
            )

    def take_over(self, counters: StoreCounters, seal: Seal, actor: str) -> None:
        with self._database.alone() as db:
            check_unchanged(seal_of(_fact(db, READ_SEAL)), seal, self.shown)
            db.execute(
                SET_STATE,
                (counters.clock, counters.open_minute, counters.version, counters.next_seq),
            )
            for name, used in (("audit", counters.audit), ("change", counters.change)):
                used_here = max(used, _number(db, USED_UP, name))
                db.execute(FORGET_USED_UP, (name,))
                db.execute(SET_USED_UP, (name, used_here))
            facts = {"store_id": counters.store_id}
            if counters.signing_key is not None:
                facts["signing_key"] = counters.signing_key
            db.executemany(SET_FACT, facts.items())
            detail = msgspec.json.encode({"source": seal.other}).decode()
            db.execute(AUDIT, (actor, detail))
            db.execute(UNSEAL)
            db.execute(TELL)


def _table(db: apsw.Connection, name: str) -> Table:
    found: Any = db.execute(COLUMNS, (name,))
    columns = [each for each in found if (name, each[0]) not in NOT_MOVED_COLUMNS]
    key = sorted((place, column) for column, place in columns if place)
    return Table(name, tuple(column for column, _ in columns), tuple(each for _, each in key))


def _write_seal(db: apsw.Connection, seal: Seal | None) -> None:
    if seal is None:
        db.execute(UNSEAL)
    else:
        db.execute(SET_FACT, ("seal", seal.text()))


def _places(columns: Sequence[str]) -> str:
    return ", ".join("?" * len(columns))


def _fact(db: apsw.Connection, statement: str) -> str | None:
    row: Any = db.execute(statement).fetchone()
    return None if row is None else str(row[0])


def _number(db: apsw.Connection, statement: str, *values: str) -> int:
    row: Any = db.execute(statement, values).fetchone()
    return int(row[0])
