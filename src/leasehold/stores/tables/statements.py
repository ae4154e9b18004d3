"""How statements are executed and rows are read, for any database.

A statement in this folder is the same text for every database. Its placeholders are numbered ($1)
in the order in which they first appear: PostgreSQL uses the number; SQLite treats $1 as a name and
uses the order. Lists of values are one parameter (`Dialect`). Anything else that differs (many rows
at once, the order of joins) is in the store itself, in a method of its own.

A `Query` says what each column should hold. A database that allows any value in any column needs
this, so that damage in one row does not hide the others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from enum import Enum
from typing import Any, Final, NamedTuple, Protocol


class SqlCursor(Protocol):
    """The result of a statement."""

    def __iter__(self) -> Iterator[Any]: ...
    def fetchone(self) -> Any: ...
    def fetchall(self) -> list[Any]: ...


class Execute(Protocol):
    """Executes a statement with its values."""

    def __call__(self, statement: str, values: Any = None, /) -> SqlCursor: ...


class SqlConnection(Protocol):
    """The object on which statements are executed: a connection or a write."""

    @property
    def execute(self) -> Execute: ...


class Dialect(NamedTuple):
    """How a database takes a list of values as one parameter, and other differences in syntax."""

    is_one_of: str
    """The condition to write after a column; takes the placeholder."""
    listed: Callable[[Collection[Any]], Any]
    """The parameter."""
    no_bytes: str
    """An empty value of bytes."""

    def among(self, column: str, placeholder: str) -> str:
        """The condition that a column has one of the values."""
        return f"{column} {self.is_one_of.format(placeholder)}"


Clause = tuple[str, tuple[Any, ...]]
"""A condition with {} where its values go, and the values."""


def numbered(clauses: Iterable[Clause]) -> tuple[str, list[Any]]:
    """The conditions, all of which must hold, as one with numbered placeholders; and its values."""
    found = list(clauses)
    values = [value for _, given in found for value in given]
    condition = " AND ".join(clause for clause, _ in found) or "1 = 1"
    return condition.format(*(f"${n}" for n in range(1, len(values) + 1))), values


NO_LIMIT: Final = 2**63 - 1
"""More rows than there can be, and above the number of every one."""


class Kind(Enum):
    """The type of a column, including whether it may be NULL."""

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
        """The same without damaged rows."""


class PlainReader:
    """For a database in which a column can hold only its own type."""

    def __init__(self, db: SqlConnection) -> None:
        self.db = db

    def rows(self, query: Query, *values: Any) -> Iterable[tuple[Any, ...]]:
        return self.db.execute(query.plain, values)

    sound_rows = rows
