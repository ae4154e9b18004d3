"""Operations: their records, and what their jobs were before; `core.rules.operations` decides.

Guard of every write: the record is read inside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import apsw
import msgspec

from leasehold.core.model.search import JobFilter
from leasehold.core.model.stored import UNREADABLE
from leasehold.core.rules import operations
from leasehold.core.rules.filter_orders import DiscardAll, Order
from leasehold.core.rules.operations import Advance, Found, Operation, Plan, known_as, to_look_for
from leasehold.core.rules.undoing import Part
from leasehold.env import from_micros
from leasehold.stores.sqlite.leasing.people import Desk
from leasehold.stores.sqlite.reading import jobs, read
from leasehold.stores.sqlite.schema.rows import guarded, value_of
from leasehold.stores.sqlite.submitting import ended_dependents
from leasehold.stores.tables.query import Kind

if TYPE_CHECKING:
    from leasehold.stores.sqlite.writing.database import Database
    from leasehold.stores.sqlite.writing.step import Step

_DOCUMENT: Final = guarded("document", Kind.TEXT)
ALL: Final = f"SELECT {_DOCUMENT} FROM operation ORDER BY number DESC"  # noqa: S608  # our own names
BY_ID: Final = f"SELECT {_DOCUMENT} FROM operation WHERE id = ?"  # noqa: S608  # our own names
ADD: Final = "INSERT INTO operation (id, document) VALUES (?, ?)"
REPLACE: Final = "UPDATE operation SET document = ? WHERE id = ?"
ADD_PART: Final = """
    INSERT INTO operation_part SELECT number, ?2, ?3 FROM operation WHERE id = ?1
"""
PART: Final = f"""
    SELECT {_DOCUMENT} FROM operation_part
    WHERE operation = (SELECT number FROM operation WHERE id = ?) AND part = ?
"""  # noqa: S608  # our own names
_ALL_BUT: Final = "(SELECT number FROM operation ORDER BY number DESC LIMIT 1 OFFSET ?)"
FORGET_PARTS: Final = f"DELETE FROM operation_part WHERE operation <= {_ALL_BUT}"  # noqa: S608  # our own names
FORGET: Final = f"DELETE FROM operation WHERE number <= {_ALL_BUT}"  # noqa: S608  # our own names

D = TypeVar("D")

_operation: Final = msgspec.json.Decoder(Operation)
_part: Final = msgspec.json.Decoder(Part)


class OperationShelf:
    """See `leasehold.core.rules.operations.OperationShelf`."""

    def __init__(self, step: Step) -> None:
        self._step = step
        self.now = step.now
        self.audit = step.audit

    def find(self, operation_id: str) -> Operation | None:
        return _only(_operation, self._step.execute(BY_ID, (operation_id,)).fetchall())

    def add(self, operation: Operation) -> None:
        self._step.execute(ADD, (operation.id, _text(operation)))

    def replace(self, operation: Operation) -> None:
        self._step.execute(REPLACE, (_text(operation), operation.id))

    def add_part(self, operation_id: str, number: int, part: Part) -> None:
        self._step.execute(ADD_PART, (operation_id, number, _text(part)))

    def part(self, operation_id: str, number: int) -> Part | None:
        return _only(_part, self._step.execute(PART, (operation_id, number)).fetchall())

    def forget_all_but(self, operations: int, with_parts: int) -> None:
        self._step.execute(FORGET_PARTS, (with_parts,))
        self._step.execute(FORGET, (operations,))


def plan(database: Database, order: Order, where: JobFilter) -> Plan:
    """Count what fits; the moment is that before the count."""

    def look(db: apsw.Connection) -> Plan:
        now = from_micros(database.now(db))
        return operations.plan(order, where, now, read.count_by_status(db, where))

    return database.look(look)


def advance(database: Database, operation_id: str, limit: int) -> Advance:
    """Do the next part of an operation: a reader finds the jobs, one write takes them."""
    asked = known_as(operation_id, database.look(lambda db: find(db, operation_id)))
    look = to_look_for(asked, limit)
    found = None
    if look is not None:
        found = Found(*jobs.fitting(database, *look[:-1], oldest_first=look.oldest_first))
        if isinstance(asked.order, DiscardAll):
            ended_dependents.look_through(database, found.job_ids)
    return database.write(
        lambda step: operations.advance(OperationShelf(step), Desk(step), asked, found)
    )


def every(db: apsw.Connection) -> list[Operation]:
    rows: Any = db.execute(ALL)
    known = (_only(_operation, [row]) for row in rows)
    return [each for each in known if each is not None]


def find(db: apsw.Connection, operation_id: str) -> Operation | None:
    return _only(_operation, db.execute(BY_ID, (operation_id,)).fetchall())


def _text(document: msgspec.Struct) -> str:
    return msgspec.json.encode(document).decode()


def _only(decoder: msgspec.json.Decoder[D], rows: list[Any]) -> D | None:
    """What is in the row; None if there is none, or if it cannot be read."""
    try:
        return decoder.decode(value_of("its document", Kind.TEXT, rows[0][0])) if rows else None
    except UNREADABLE:
        return None
