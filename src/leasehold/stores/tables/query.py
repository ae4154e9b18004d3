"""Reading the records of jobs: each column says what it is to hold.

A database that keeps any value in any column needs to be told, so that damage in one row does not
hide the others; another one reads the columns as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, Final, Protocol

from leasehold.stores.tables.statements import SqlConnection

NO_LIMIT: Final = 2**63 - 1
"""More rows than there can be, and above the number of every one."""


class Kind(Enum):
    """The type of a column; those that may be NULL say so."""

    WHOLE = "integer"
    WHOLE_OR_NULL = "integer or null"
    MOMENT = "moment"
    MOMENT_OR_NULL = "moment or null"
    SECONDS_OR_NULL = "seconds or null"
    TEXT = "text"
    TEXT_OR_NULL = "text or null"
    BYTES = "blob"
    BYTES_OR_NULL = "blob or null"


class Query:
    """A statement that selects columns, each of a kind."""

    def __init__(self, columns: Mapping[str, Kind], rest: str) -> None:
        self.columns = columns
        self.rest = rest
        self.plain = f"SELECT {', '.join(columns)} {rest}"  # our own names


class Reader(Protocol):
    """Reads the rows of queries; all of them can always be read."""

    @property
    def db(self) -> SqlConnection: ...

    def rows(self, query: Query, *values: Any) -> Iterable[tuple[Any, ...]]: ...

    def sound_rows(self, query: Query, *values: Any) -> Iterable[tuple[Any, ...]]:
        """The same without rows in which anything is not as it should be."""


class PlainReader:
    """For a database in which a column holds only its own type."""

    def __init__(self, db: SqlConnection) -> None:
        self.db = db

    def rows(self, query: Query, *values: Any) -> Iterable[tuple[Any, ...]]:
        return self.db.execute(query.plain, values)

    sound_rows = rows
