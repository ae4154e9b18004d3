"""The store as its rows, for moving all of them: see `leasehold.core.rules.moving.RowStore`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, Protocol

import msgspec

from leasehold.core.model.seals import Seal, check_unchanged, seal_of
from leasehold.core.rules.moving import Row, StoreCounters, Table
from leasehold.stores.tables.statements import SqlConnection
from leasehold.stores.tables.step import NEXT_GENERATION

RUNNING: Final = "SELECT count(*) FROM running"
READ_SEAL: Final = "SELECT value FROM meta WHERE key = 'seal'"
SIGNING_KEY: Final = "SELECT value FROM meta WHERE key = 'signing_key'"
SET_FACT: Final = """
    INSERT INTO meta VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value
"""
UNSEAL: Final = "DELETE FROM meta WHERE key = 'seal'"
AUDIT: Final = """
    INSERT INTO audit (at, actor, action, count, detail)
    SELECT clock, $1, $2, (SELECT count(*) FROM job), $3 FROM store_state
"""


class MovedDatabase(Protocol):
    """The database of a store that is being moved."""

    def read(self) -> AbstractContextManager[SqlConnection]: ...

    def alone(self) -> AbstractContextManager[SqlConnection]:
        """A bare transaction, even in a sealed store."""


class TableRows(ABC):
    """Used by one process while no other writes."""

    def __init__(self, database: Any, shown: str) -> None:
        self._database: MovedDatabase = database
        self.shown = shown

    @abstractmethod
    def _insert(self, db: Any, table: Table, rows: Sequence[Row]) -> None: ...

    @abstractmethod
    def _raise_versions(self, db: Any) -> None:
        """Prevent grants of lease versions that may have been granted elsewhere."""

    @abstractmethod
    def _go_on_from(self, db: Any, counters: StoreCounters) -> None:
        """Make clock, numbers and versions continue where the source has stopped."""

    def seal(self) -> Seal | None:
        with self._database.read() as db:
            return seal_of(fact(db, READ_SEAL))

    def change_seal(
        self, found: Seal | None, seal: Seal | None, *, unless_running: bool = False
    ) -> int:
        with self._unchanged(found) as db:
            running = int(db.execute(RUNNING).fetchone()[0])
            if not (unless_running and running):
                _write_seal(db, seal)
                # A process checks the seal when it finds a new generation.
                db.execute(NEXT_GENERATION)
            return running

    def add(self, table: Table, rows: Sequence[Row], found: Seal, seal: Seal) -> None:
        with self._unchanged(found) as db:
            self._insert(db, table, rows)
            _write_seal(db, seal)

    def reopen(self, found: Seal, actor: str) -> None:
        with self._unchanged(found) as db:
            if found.is_complete:
                self._raise_versions(db)
            _audit(db, actor, "reopen_store", {"target": found.other})
            db.execute(UNSEAL)
            db.execute(NEXT_GENERATION)

    def take_over(self, counters: StoreCounters, seal: Seal, actor: str) -> None:
        with self._unchanged(seal) as db:
            self._go_on_from(db, counters)
            if counters.signing_key is not None:
                db.execute(SET_FACT, ("signing_key", counters.signing_key))
            _audit(db, actor, "migrate_store", {"source": seal.other})
            db.execute(UNSEAL)
            db.execute(NEXT_GENERATION)

    @contextmanager
    def _unchanged(self, found: Seal | None) -> Iterator[SqlConnection]:
        """A separate write, if the seal is still the one that was found."""
        with self._database.alone() as db:
            check_unchanged(seal_of(fact(db, READ_SEAL)), found, self.shown)
            yield db


def _audit(db: SqlConnection, actor: str, action: str, detail: dict[str, str]) -> None:
    db.execute(AUDIT, (actor, action, msgspec.json.encode(detail).decode()))


def _write_seal(db: SqlConnection, seal: Seal | None) -> None:
    if seal is None:
        db.execute(UNSEAL)
    else:
        db.execute(SET_FACT, ("seal", seal.text()))


def fact(db: SqlConnection, statement: str) -> str | None:
    """The only value of a row, as text, if there is one."""
    row: Any = db.execute(statement).fetchone()
    return None if row is None else str(row[0])
