"""Operations: their records, and what their jobs were before; `core.rules.operations` decides.

Guard of every write: the record is read inside it, and cannot be changed until it is over.
"""

from __future__ import annotations

from typing import ClassVar, Final, TypeVar

import msgspec

from leasehold.core.model.stored import UNREADABLE
from leasehold.core.rules.operations import Operation
from leasehold.core.rules.undoing import OperationPart
from leasehold.stores.tables.query import Kind, Query, Reader
from leasehold.stores.tables.step import TableStep

_DOCUMENT: Final = {"document": Kind.TEXT}
ALL: Final = Query(_DOCUMENT, "FROM operation ORDER BY number DESC")
BY_ID: Final = Query(_DOCUMENT, "FROM operation WHERE id = $1")
PART: Final = Query(
    _DOCUMENT,
    "FROM operation_part "
    "WHERE operation = (SELECT number FROM operation WHERE id = $1) AND part = $2",
)
ADD: Final = "INSERT INTO operation (id, document) VALUES ($1, $2)"
REPLACE: Final = "UPDATE operation SET document = $1 WHERE id = $2"
ADD_PART: Final = """
    INSERT INTO operation_part SELECT number, CAST($1 AS bigint), CAST($2 AS text)
    FROM operation WHERE id = $3
"""
_ALL_BUT: Final = "(SELECT number FROM operation ORDER BY number DESC LIMIT 1 OFFSET $1)"
FORGET_PARTS: Final = f"DELETE FROM operation_part WHERE operation <= {_ALL_BUT}"  # noqa: S608  # our own names
FORGET: Final = f"DELETE FROM operation WHERE number <= {_ALL_BUT}"  # noqa: S608  # our own names

D = TypeVar("D")

_operation: Final = msgspec.json.Decoder(Operation)
_part: Final = msgspec.json.Decoder(OperationPart)


class TableOperations:
    """See `leasehold.core.rules.operation_shelf.OperationShelf`."""

    to_change: ClassVar[Query] = BY_ID
    """Finds an operation, which no other process changes until this write is over."""

    def __init__(self, step: TableStep, reader: Reader) -> None:
        self._execute = step.execute
        self._reader = reader
        self.now = step.now
        self.audit = step.audit

    def find(self, operation_id: str) -> Operation | None:
        return _one(_operation, self._reader, self.to_change, operation_id)

    def add(self, operation: Operation) -> None:
        self._execute(ADD, (operation.id, _text(operation)))

    def replace(self, operation: Operation) -> None:
        self._execute(REPLACE, (_text(operation), operation.id))

    def add_part(self, operation_id: str, number: int, part: OperationPart) -> None:
        self._execute(ADD_PART, (number, _text(part), operation_id))

    def part(self, operation_id: str, number: int) -> OperationPart | None:
        return _one(_part, self._reader, PART, operation_id, number)

    def forget_all_but(self, operations: int, with_parts: int) -> None:
        self._execute(FORGET_PARTS, (with_parts,))
        self._execute(FORGET, (operations,))


def every(reader: Reader) -> list[Operation]:
    """All readable operations, the latest first."""
    return _documents(_operation, reader, ALL)


def find(reader: Reader, operation_id: str) -> Operation | None:
    """One operation."""
    return _one(_operation, reader, BY_ID, operation_id)


def _text(document: msgspec.Struct) -> str:
    return msgspec.json.encode(document).decode()


def _one(
    decoder: msgspec.json.Decoder[D], reader: Reader, query: Query, *values: str | int
) -> D | None:
    return next(iter(_documents(decoder, reader, query, *values)), None)


def _documents(
    decoder: msgspec.json.Decoder[D], reader: Reader, query: Query, *values: str | int
) -> list[D]:
    """The contents of the rows, but for unreadable ones."""
    found = []
    for (document,) in reader.sound_rows(query, *values):
        try:
            found.append(decoder.decode(document))
        except UNREADABLE:
            continue
    return found
