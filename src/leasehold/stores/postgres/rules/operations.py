"""Operations: their records, and what their jobs were before; `core.rules.operations` decides.

Guard of every write: the record is read inside it, and locked until it is over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from leasehold.core.model.search import JobFilter
from leasehold.core.model.stored import UNREADABLE
from leasehold.core.rules import operations, queue_orders
from leasehold.core.rules.filter_orders import DiscardAll, Order
from leasehold.core.rules.operations import Advance, Found, Operation, Plan, known_as, to_look_for
from leasehold.core.rules.undoing import Part
from leasehold.env import from_micros
from leasehold.stores.postgres.leasing import people
from leasehold.stores.postgres.leasing.state import JobState
from leasehold.stores.postgres.reading import jobs, read
from leasehold.stores.postgres.rules.queues import QueueBook
from leasehold.stores.postgres.server.connection import Connection
from leasehold.stores.postgres.submitting import ended_dependents

if TYPE_CHECKING:
    from leasehold.stores.postgres.writing.database import Database
    from leasehold.stores.postgres.writing.step import Step

ALL: Final = "SELECT document FROM operation ORDER BY number DESC"
BY_ID: Final = "SELECT document FROM operation WHERE id = $1"
BY_ID_LOCKED: Final = f"{BY_ID} FOR UPDATE"
ADD: Final = "INSERT INTO operation (id, document) VALUES ($1, $2)"
REPLACE: Final = "UPDATE operation SET document = $1 WHERE id = $2"
ADD_PART: Final = """
    INSERT INTO operation_part SELECT number, $2::bigint, $3::text FROM operation WHERE id = $1
"""
PART: Final = """
    SELECT document FROM operation_part
    WHERE operation = (SELECT number FROM operation WHERE id = $1) AND part = $2
"""
_ALL_BUT: Final = "(SELECT number FROM operation ORDER BY number DESC LIMIT 1 OFFSET $1)"
FORGET_PARTS: Final = f"DELETE FROM operation_part WHERE operation <= {_ALL_BUT}"  # noqa: S608  # our own names
FORGET: Final = f"DELETE FROM operation WHERE number <= {_ALL_BUT}"  # noqa: S608  # our own names

D = TypeVar("D")

_operation: Final = msgspec.json.Decoder(Operation)
_part: Final = msgspec.json.Decoder(Part)


class Desk(people.Desk):
    """Where people's orders are carried out; this one can purge, too."""

    def forget(self, jobs: Sequence[JobState]) -> None:
        self._end_all()
        queue_orders.forget(QueueBook(self._step), [job.seq for job in jobs])


class OperationShelf:
    """See `leasehold.core.rules.operations.OperationShelf`."""

    def __init__(self, step: Step) -> None:
        self._step = step
        self.now = step.now

    def find(self, operation_id: str) -> Operation | None:
        return _only(_operation, self._step.execute(BY_ID_LOCKED, (operation_id,)).fetchall())

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

    def audit(self, actor: str, action: str, count: int, detail: dict[str, Any]) -> None:
        self._step.audit(actor, action, count, detail)


def plan(database: Database, order: Order, where: JobFilter) -> Plan:
    """Count what fits, at one moment."""
    with database.read() as db:
        now = from_micros(database.now(db))
        return operations.plan(order, where, now, read.count_by_status(db, where))


def advance(database: Database, operation_id: str, limit: int) -> Advance:
    """Do the next part of an operation: a reader finds the jobs, one write takes them."""
    with database.read() as db:
        asked = known_as(operation_id, find(db, operation_id))
    look = to_look_for(asked, limit)
    found = None
    if look is not None:
        found = Found(*jobs.fitting(database, *look[:-1], oldest_first=look.oldest_first))
        if isinstance(asked.order, DiscardAll):
            ended_dependents.look_through(database, found.job_ids)
    return database.write(
        lambda step: operations.advance(OperationShelf(step), Desk(step), asked, found)
    )


def every(db: Connection) -> list[Operation]:
    rows = db.execute(ALL).fetchall()
    known = (_only(_operation, [row]) for row in rows)
    return [each for each in known if each is not None]


def find(db: Connection, operation_id: str) -> Operation | None:
    return _only(_operation, db.execute(BY_ID, (operation_id,)).fetchall())


def _text(document: msgspec.Struct) -> str:
    return msgspec.json.encode(document).decode()


def _only(decoder: msgspec.json.Decoder[D], rows: list[Any]) -> D | None:
    """What is in the row; None if there is none, or if it cannot be read."""
    try:
        return decoder.decode(rows[0][0]) if rows else None
    except UNREADABLE:
        return None
